"""In-place operations of a graph become out-of-place ones with the same meaning.

    relu_(x); y = x + 1           relu_ = relu(x); y = relu_ + 1
    x += z; return x              iadd = x + z; return iadd
    x[:, 1:] = y; return x        setitem = assigned(x, (:, 1:), y); return setitem
    x[:, 1].mul_(2); return x     refused: what is written to is part of another tensor that is read again

Nodes keep their names.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import fx, nn

from calib8.errors import UnsupportedModelError
from calib8.modules.assignments import assigned
from calib8.modules.modes import OWNER, SOURCE
from calib8.modules.untraceable import code_at

_ALIASING: Final = frozenset(
    {
        "alpha_dropout", "as_strided", "contiguous", "detach", "diagonal", "dropout", "dropout1d",
        "dropout2d", "dropout3d", "expand", "expand_as", "feature_alpha_dropout", "feature_dropout",
        "flatten", "float", "getattr", "getitem", "movedim", "moveaxis", "narrow", "permute",
        "ravel", "real", "reshape", "reshape_as", "select", "squeeze", "swapaxes", "swapdims", "t",
        "to", "transpose", "type_as", "unfold", "unflatten", "unsqueeze", "view", "view_as",
    }
)  # fmt: skip
"""Functions and methods whose result may be the very memory of their first argument."""

_PARTING: Final = frozenset(
    {"chunk", "split", "tensor_split", "unbind", "hsplit", "vsplit", "split_with_sizes"}
)
"""The same, but each of several results is a part of its own."""

_SIZES: Final = frozenset({"size", "dim", "ndimension", "numel", "nelement", "stride", "element_size"})
_SIZE_ATTRIBUTES: Final = frozenset({"shape", "ndim", "dtype", "device", "is_cuda", "requires_grad"})

_NEVER_IN_PLACE: Final = (nn.AlphaDropout, nn.FeatureAlphaDropout)
"""Modules that take ``inplace`` and do nothing with it."""

_KEEPS_VALUES: Final = frozenset({"requires_grad_", "retain_grad"})

_ACTIVATIONS: Final[dict[type[nn.Module], tuple[Any, tuple[str, ...]]]] = {
    nn.CELU: (F.celu, ("alpha",)),
    nn.ELU: (F.elu, ("alpha",)),
    nn.Hardsigmoid: (F.hardsigmoid, ()),
    nn.Hardswish: (F.hardswish, ()),
    nn.Hardtanh: (F.hardtanh, ("min_val", "max_val")),
    nn.LeakyReLU: (F.leaky_relu, ("negative_slope",)),
    nn.Mish: (F.mish, ()),
    nn.ReLU: (F.relu, ()),
    nn.ReLU6: (F.relu6, ()),
    nn.SELU: (F.selu, ()),
    nn.SiLU: (F.silu, ()),
    nn.Threshold: (F.threshold, ("threshold", "value")),
}
"""Module → the function that it calls, and its attributes in the order of the arguments."""

_RANDOM: Final[dict[type[nn.Module], tuple[Any, tuple[str, ...]]]] = {
    nn.Dropout: (F.dropout, ("p",)),
    nn.Dropout1d: (F.dropout1d, ("p",)),
    nn.Dropout2d: (F.dropout2d, ("p",)),
    nn.Dropout3d: (F.dropout3d, ("p",)),
    nn.RReLU: (F.rrelu, ("lower", "upper")),
}
"""The same for modules whose function takes the mode as its next argument."""


def make_out_of_place(traced: fx.GraphModule) -> int:
    """Rewrites every in-place node of a traced graph; modules are replaced by functions, never changed.

    Args:
        traced: changed; to be recompiled afterwards.

    Returns:
        Number of nodes that were rewritten.

    Raises:
        UnsupportedModelError: the change reaches other tensors (views of one memory), a parameter or a
            buffer, or has no out-of-place form.
    """
    count = 0
    for node in list(traced.graph.nodes):
        target = _changed(traced, node)
        if target is None:
            continue
        count += 1
        if is_size(target):  # a number: `h += 1` is a new one
            _rename_function(node)
            continue
        _refuse_far_reaching(traced, node, target)
        _rewrite(traced, node)
        order = {other: index for index, other in enumerate(traced.graph.nodes)}
        for user in list(target.users):
            if order[user] > order[node]:
                user.replace_input_with(target, node)
    return count


def _changed(traced: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The tensor or number that a node writes to, None where it writes to none."""
    written: Any = None
    if isinstance(node.kwargs.get("out"), fx.Node):
        written = node.kwargs["out"]
    elif node.op == "call_module":
        module = traced.get_submodule(str(node.target))
        in_place = getattr(module, "inplace", False) is True and not isinstance(module, _NEVER_IN_PLACE)
        written = _first(node) if in_place else None
    elif node.op == "call_method":
        name = str(node.target)
        ends = name.endswith("_") and not name.endswith("__") and name not in _KEEPS_VALUES
        written = _first(node) if ends else None
    elif node.op == "call_function":
        written = _first(node) if _is_in_place_function(node) else None
    return written if isinstance(written, fx.Node) else None


def _first(node: fx.Node) -> Any:
    return node.args[0] if node.args else node.kwargs.get("input")


def _is_in_place_function(node: fx.Node) -> bool:
    name = getattr(node.target, "__name__", "")
    if node.target is operator.setitem:
        return True
    if getattr(node.target, "__module__", "") == "_operator":
        return _operator_twin(name) is not None
    if name.endswith("_") and not name.endswith("__"):
        return True
    return _argument(node, "inplace") is True


def _operator_twin(name: str) -> Any:
    """``operator.add`` for ``iadd``; None where the name is no in-place operator."""
    if not name.startswith("i") or name in (
        "index",
        "indexOf",
        "inv",
        "invert",
        "is_",
        "is_not",
        "itemgetter",
    ):
        return None
    return getattr(operator, name[1:], getattr(operator, f"{name[1:]}_", None))


def _argument(node: fx.Node, name: str) -> Any:
    """What a Python function gets for a parameter, None where it has none of that name."""
    try:
        parameters = list(inspect.signature(node.target).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return node.kwargs.get(name)
    if name not in parameters:
        return None
    index = parameters.index(name)
    return node.args[index] if index < len(node.args) else node.kwargs.get(name)


def _rewrite(traced: fx.GraphModule, node: fx.Node) -> None:
    """The node itself, out of place."""
    node.kwargs = {name: value for name, value in node.kwargs.items() if name != "out"}
    if node.op == "call_module":
        _call_function(traced, node)
    elif node.op == "call_method":
        _rename_method(node)
    else:
        _rename_function(node)


def _call_function(traced: fx.GraphModule, node: fx.Node) -> None:
    """Module with ``inplace=True`` → the function that it calls."""
    path = str(node.target)
    module = traced.get_submodule(path)
    arguments: list[Any] = [_first(node)]
    if type(module) in _ACTIVATIONS:
        function, names = _ACTIVATIONS[type(module)]
    elif type(module) in _RANDOM:
        function, names = _RANDOM[type(module)]
    else:
        raise _refused(
            traced, node, f"{type(module).__name__} writes to its input, and has no other form here"
        )
    arguments += [getattr(module, name) for name in names]
    if type(module) in _RANDOM:
        with traced.graph.inserting_before(node):
            arguments.append(traced.graph.create_node("get_attr", f"{path}.training"))
    node.op, node.target, node.args, node.kwargs = "call_function", function, tuple(arguments), {}


def _rename_method(node: fx.Node) -> None:
    name = str(node.target)
    filling: dict[str, Any] = {"zero_": torch.zeros_like, "fill_": torch.full_like}
    if name in filling:
        node.op = "call_function"
        node.target = filling[name]
    elif hasattr(torch.Tensor, name[:-1]):
        node.target = name[:-1]
    else:
        raise _no_twin(node, name)


def _rename_function(node: fx.Node) -> None:
    name = getattr(node.target, "__name__", "")
    if node.target is operator.setitem:
        node.target = assigned
        return
    if _argument(node, "inplace") is True:
        parameters = list(inspect.signature(node.target).parameters)  # type: ignore[arg-type]
        index = parameters.index("inplace")
        node.args = tuple(False if i == index else value for i, value in enumerate(node.args))
        node.kwargs = {key: value for key, value in node.kwargs.items() if key != "inplace"}
    twin = _operator_twin(name) if getattr(node.target, "__module__", "") == "_operator" else None
    if twin is None and name.endswith("_"):
        twin = getattr(torch, name[:-1], getattr(F, name[:-1], None))
        if twin is None:
            raise _no_twin(node, name)
    if twin is not None:
        node.target = twin


def _no_twin(node: fx.Node, name: str) -> UnsupportedModelError:
    place = str(node.meta.get(SOURCE, ""))
    return UnsupportedModelError(
        place, f"`{code_at(place)}`: {name} writes to a tensor and has no other form", "Write y = … instead"
    )


def _refused(traced: fx.GraphModule, node: fx.Node, problem: str) -> UnsupportedModelError:
    place = str(node.meta.get(SOURCE, ""))
    owner = str(node.meta.get(OWNER, "")) or traced.__class__.__name__
    return UnsupportedModelError(
        f"'{owner}'", f"{place}: `{code_at(place)}`: {problem}", "Write y = … instead"
    )


def _refuse_far_reaching(traced: fx.GraphModule, node: fx.Node, target: fx.Node) -> None:
    """Refuses a change that shows in other tensors which are read afterwards."""
    order = {other: index for index, other in enumerate(traced.graph.nodes)}
    for alias in _aliases(traced, target):
        if alias.op == "get_attr":
            raise _refused(traced, node, f"the parameter or buffer '{alias.target}' is written to")
        if alias is target or order[alias] >= order[node]:
            continue
        last = min(
            (order[user] for user in node.users if _puts_back(user, alias, target)), default=len(order)
        )
        if any(order[node] < order[user] < last and not is_size(user) for user in alias.users):
            raise _refused(traced, node, f"'{alias.name}', which is read again, has the same memory")


def _puts_back(user: fx.Node, whole: fx.Node, part: fx.Node) -> bool:
    """The end of ``x[index] += y``: the part that was changed is assigned to where it was taken from."""
    index = part.args[1] if part.target is operator.getitem else None
    return user.target is operator.setitem and user.args[0] is whole and user.args[1] == index


def _aliases(traced: fx.GraphModule, start: fx.Node) -> set[fx.Node]:
    """All nodes that may have memory of a tensor, itself included."""
    found, waiting = set[fx.Node](), [start]
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found.add(node)
        waiting += _neighbours(traced, node, start)
    return found


def _neighbours(traced: fx.GraphModule, node: fx.Node, start: fx.Node) -> Iterator[fx.Node]:
    """What a node is a view of, and its views; the other parts of a tensor that was split are none."""
    source = _first(node)
    if isinstance(source, fx.Node) and _is_view(traced, node):
        yield source
    if _name(node) in _PARTING and any(user is start for user in node.users):
        return
    yield from (user for user in node.users if _first(user) is node and _is_view(traced, user))


def _is_view(traced: fx.GraphModule, node: fx.Node) -> bool:
    if is_size(node):
        return False
    if node.op == "call_module":
        module = traced.get_submodule(str(node.target))
        kinds = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
        return isinstance(module, kinds) or not type(module).__module__.startswith("torch.nn")
    return _name(node) in _ALIASING | _PARTING


def _name(node: fx.Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def is_size(node: fx.Node) -> bool:
    """Whether a node yields sizes, or numbers computed from sizes alone, and no tensor."""
    if node.op == "call_method" and node.target in _SIZES:
        return True
    if node.op != "call_function":
        return False
    if node.target is getattr:
        return node.args[1] in _SIZE_ATTRIBUTES
    if getattr(node.target, "__module__", "") not in ("_operator", "math", "builtins"):
        return False
    sources = node.all_input_nodes
    return bool(sources) and all(is_size(source) for source in sources)
