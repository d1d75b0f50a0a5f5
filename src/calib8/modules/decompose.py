"""Functions that exporters split into several operators become several nodes.

    silu(x)                x · sigmoid(x)
    mish(x)                x · tanh(softplus(x))
    gelu(x)                ½ · x · (1 + erf(x / √2))
    glu(x)                 a · sigmoid(b), a and b the halves of x
    attention(q, k, v, m)  softmax((q · 1/√E) @ kᵀ + m) @ v, E the length of a row of q, or with its own scale
    group_norm(x, G, γ, β) group_norm(x, G) · γ + β
    x @ w                  linear(x, wᵀ) where w is a parameter or buffer: a layer
    addcmul(b, γ, x)       b + γ · x
    roll(x, (2, 3), (1, 2))  cat(x[:, −2:], x[:, :−2]), then the same of the other axis
    mean(x, (2, 3))        mean with the axes kept, squeeze, squeeze
    x[:, :, ::2, ::2]      x[:, :, :, ::2][:, :, ::2]
    x[:, 1:] = y           cat(x[:, :1], y)

Every tensor of the int8 graph that carries codes is a node then.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import fx, nn

from calib8.modules.assignments import assigned, box_of, put_together
from calib8.modules.modes import OWNER

FAR_BELOW: Final = -1e4


def decompose(traced: fx.GraphModule) -> int:
    """Rewrites calls of these functions and modules; the last new node keeps the name.

    Args:
        traced: out of place; changed, to be recompiled afterwards.

    Returns:
        Number of calls that were rewritten.
    """
    count = 0
    for node in list(traced.graph.nodes):
        found = _rule(traced, node)
        if found is None:
            continue
        write, settings = found
        with traced.graph.inserting_before(node):
            add = _Adder(traced.graph, node)
            function, args = write(add, node.args[0] if node.args else node.kwargs["input"], settings)
        if node.op == "call_module":  # what it was called by, also of its parts
            for one in (node, *add.added):
                one.meta[OWNER] = str(node.target)
        node.op, node.target, node.args, node.kwargs = "call_function", function, args, {}
        count += 1
    return count


class _Adder:
    """Adds nodes before one, named after it."""

    def __init__(self, graph: fx.Graph, node: fx.Node) -> None:
        self.graph = graph
        self.node = node
        self.added: list[fx.Node] = []

    def __call__(self, function: Callable[..., Any], *args: Any) -> fx.Node:
        """A call with a name of its own and the origin of the node that it is part of."""
        name = f"{self.node.name}_{getattr(function, '__name__', 'part')}"
        node = self.graph.create_node("call_function", function, args, name=name)
        node.meta.update(self.node.meta)
        self.added.append(node)
        return node

    def parameter(self, path: str) -> fx.Node:
        """A parameter of the module."""
        return self.graph.get_attr(path)


_Last = tuple[Callable[..., Any], tuple[Any, ...]]
"""The function and the arguments of the last of several nodes."""


def _silu(add: _Adder, x: Any, settings: Any) -> _Last:
    return operator.mul, (x, add(torch.sigmoid, x))


def _mish(add: _Adder, x: Any, settings: Any) -> _Last:
    return operator.mul, (x, add(torch.tanh, add(F.softplus, x)))


def _gelu(add: _Adder, x: Any, approximate: Any) -> _Last:
    if approximate == "tanh":
        cubed = add(operator.mul, add(operator.mul, add(operator.mul, x, x), x), 0.044715)
        inner = add(operator.mul, add(operator.add, x, cubed), math.sqrt(2.0 / math.pi))
        gate = add(operator.add, add(torch.tanh, inner), 1.0)
    else:
        gate = add(operator.add, add(torch.erf, add(operator.mul, x, math.sqrt(0.5))), 1.0)
    return operator.mul, (add(operator.mul, x, 0.5), gate)


def _glu(add: _Adder, x: Any, axis: Any) -> _Last:
    halves = add(torch.chunk, x, 2, axis)
    return operator.mul, (
        add(operator.getitem, halves, 0),
        add(torch.sigmoid, add(operator.getitem, halves, 1)),
    )


def _attention(add: _Adder, query: Any, settings: Any) -> _Last:
    return attention(add, query, settings)


def attention(
    add: Callable[..., fx.Node], query: Any, settings: tuple[Any, ...], dropout: tuple[Any, ...] | None = None
) -> _Last:
    """``softmax(q · s @ kᵀ + m) @ v``, with nodes for all but the last step.

    Args:
        add: makes a node of a function and its arguments.
        query: heads, [N, H, L, D].
        settings: key, value, mask and scale; None: no mask, the usual scale.
        dropout: of the weights: probability, and whether it is in force.
    """
    key, value, mask, scale = settings
    factor = add(inverse_root_of_length, query) if scale is None else scale
    scores = add(torch.matmul, add(operator.mul, query, factor), add(torch.transpose, key, -2, -1))
    if mask is not None:
        scores = add(masked, scores, add(finite, mask))
    weights = add(F.softmax, scores, -1)
    if dropout is not None:
        weights = add(F.dropout, weights, *dropout)
    return torch.matmul, (weights, value)


def inverse_root_of_length(rows: torch.Tensor) -> float:
    """1 / √E of rows [..., E]; a number that does not depend on the batch."""
    return 1.0 / math.sqrt(int(rows.shape[-1]))


def masked(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Scores of attention with a mask: numbers to add, or True where a score counts."""
    if mask.dtype == torch.bool:
        return scores.masked_fill(mask.logical_not(), FAR_BELOW)
    return scores + mask


def finite(mask: torch.Tensor) -> torch.Tensor:
    """A mask with −10⁴ in place of −∞, which no codes hold; the exponential of both is 0."""
    return mask if mask.dtype == torch.bool else mask.clamp(min=FAR_BELOW)


def _group_norm(add: _Adder, x: Any, settings: Any) -> _Last:
    groups, weight, bias, eps = settings
    weight, bias = (add.parameter(one) if isinstance(one, str) else one for one in (weight, bias))
    plain = (F.group_norm, (x, groups, None, None, eps))
    scaled = plain if weight is None else (scaled_channels, (add(plain[0], *plain[1]), weight))
    return scaled if bias is None else (raised_channels, (add(scaled[0], *scaled[1]), bias))


def scaled_channels(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """[N, C, …] times a factor per channel."""
    return x * weight.reshape(-1, *[1] * (x.ndim - 2))


def raised_channels(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """[N, C, …] plus an addend per channel."""
    return x + bias.reshape(-1, *[1] * (x.ndim - 2))


def _product(add: _Adder, x: Any, weight: Any) -> _Last:
    return F.linear, (x, add(torch.t, weight))


def _add_product(add: _Adder, x: Any, product: Any) -> _Last:
    first, second, value = product
    scaled = add(operator.mul, first, second)
    return operator.add, (x, scaled if value == 1 else add(operator.mul, scaled, value))


def _roll(add: _Adder, x: Any, turns: Any) -> _Last:
    for place, (shift, axis) in enumerate(turns):
        end, start = add(behind, x, shift, axis), add(before, x, shift, axis)
        if place < len(turns) - 1:
            x = add(torch.cat, [end, start], axis)
    return torch.cat, ([end, start], axis)


def behind(x: torch.Tensor, shift: int, axis: int) -> torch.Tensor:
    """What ``torch.roll`` puts before the rest: the last ``shift`` entries of an axis."""
    return x.narrow(axis, x.shape[axis] - shift % x.shape[axis], shift % x.shape[axis])


def before(x: torch.Tensor, shift: int, axis: int) -> torch.Tensor:
    """The rest."""
    return x.narrow(axis, 0, x.shape[axis] - shift % x.shape[axis])


def _assigned(add: _Adder, x: Any, settings: Any) -> _Last:
    return put_together(add, x, *settings)


def _mean(add: _Adder, x: Any, axes: Any) -> _Last:
    x = add(torch.mean, x, axes, True)
    for axis in axes[:-1]:
        x = add(torch.squeeze, x, axis)
    return torch.squeeze, (x, axes[-1])


def _picked(add: _Adder, x: Any, steps: Any) -> _Last:
    for step in steps[:-1]:
        x = add(operator.getitem, x, step)
    return operator.getitem, (x, steps[-1])


_Rule = Callable[[_Adder, Any, Any], _Last]

_PRODUCTS: Final = ("matmul", "__matmul__", "mm", operator.matmul, torch.matmul, torch.mm)
"""How a product of matrices is called."""

_TRANSPOSES: Final = ("transpose", "t", torch.transpose, torch.t)

_FUNCTIONS: Final[dict[str, tuple[_Rule, str, Any]]] = {
    "silu": (_silu, "", None),
    "mish": (_mish, "", None),
    "gelu": (_gelu, "approximate", "none"),
    "glu": (_glu, "dim", -1),
}
"""Name of a function → how it is written, and its other argument with its default."""

_MODULES: Final[dict[type[nn.Module], str]] = {
    nn.SiLU: "silu",
    nn.Mish: "mish",
    nn.GELU: "gelu",
    nn.GLU: "glu",
}


def _rule(traced: fx.GraphModule, node: fx.Node) -> tuple[_Rule, Any] | None:
    """How a node is written in several, and what that needs to know besides its first argument."""
    if node.op == "call_module":
        module = traced.get_submodule(str(node.target))
        if type(module) is nn.GroupNorm:
            return _norm_module(str(node.target), module)
        if type(module) not in _MODULES:
            return None
        write, argument, default = _FUNCTIONS[_MODULES[type(module)]]
        return write, getattr(module, argument) if argument else default
    if node.target is operator.getitem or node.target is assigned:
        return _part_rule(node)
    if node.target is F.scaled_dot_product_attention:
        others = _plain_attention(node)
        return None if others is None else (_attention, others)
    if node.target in _PRODUCTS:
        weight = _weight(traced, node)
        return None if weight is None else (_product, weight)
    if node.target is F.group_norm:
        return _norm_function(node)
    if node.target in ("addcmul", torch.addcmul):
        named: dict[str, Any] = dict(zip(("input", "tensor1", "tensor2"), node.args, strict=False))
        named |= node.kwargs
        return _add_product, (named["tensor1"], named["tensor2"], named.get("value", 1))
    if node.target in ("roll", torch.roll):
        turns = _turns(node)
        return (_roll, turns) if turns else None
    if node.target in ("mean", torch.mean):
        axes = _axes_taken_away(node)
        return None if axes is None else (_mean, axes)
    name = getattr(node.target, "__name__", "")
    torchs = name in _FUNCTIONS and node.target in (getattr(F, name), getattr(torch, name, None))
    if node.op != "call_function" or not torchs:
        return None
    write, argument, default = _FUNCTIONS[name]
    given = node.args[1] if name == "glu" and len(node.args) > 1 else node.kwargs.get(argument, default)
    return write, given


def _part_rule(node: fx.Node) -> tuple[_Rule, Any] | None:
    """How a part of a tensor is taken, or assigned to."""
    if node.target is assigned:
        box = box_of(node.args[1])
        return None if box is None else (_assigned, (box, node.args[2]))
    steps = _one_axis_each(node.args[1])
    return (_picked, steps) if len(steps) > 1 else None


def _plain_attention(node: fx.Node) -> tuple[Any, ...] | None:
    """Key, value, mask and scale (None: the usual one) of attention without dropout; else None."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    if any(given.get(name) for name in ("dropout_p", "is_causal", "enable_gqa")):
        return None
    return given["key"], given["value"], given.get("attn_mask"), given.get("scale")


def _weight(traced: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The matrix of the module, as it is or transposed, that a product has on its right; else None."""
    weight = inner = node.args[1] if len(node.args) == 2 else None
    while isinstance(inner, fx.Node) and inner.target in _TRANSPOSES:
        inner = inner.args[0] if inner.args else None
    if not isinstance(weight, fx.Node) or not isinstance(inner, fx.Node) or inner.op != "get_attr":
        return None
    path, _, name = str(inner.target).rpartition(".")
    matrix = getattr(traced.get_submodule(path), name)
    return weight if isinstance(matrix, torch.Tensor) and matrix.ndim == 2 else None


def _norm_module(path: str, module: nn.GroupNorm) -> tuple[_Rule, Any] | None:
    """How a GroupNorm with parameters is written, if nothing looks at what it reads and yields."""
    if module._forward_hooks or module._forward_pre_hooks or module.weight is None:
        return None
    bias = None if module.bias is None else f"{path}.bias"
    return _group_norm, (module.num_groups, f"{path}.weight", bias, module.eps)


def _norm_function(node: fx.Node) -> tuple[_Rule, Any] | None:
    names = ("input", "num_groups", "weight", "bias", "eps")
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    weight, bias = given.get("weight"), given.get("bias")
    if weight is None and bias is None:
        return None
    return _group_norm, (given["num_groups"], weight, bias, given.get("eps", 1e-5))


def _turns(node: fx.Node) -> list[tuple[int, int]]:
    """Shift and axis of each step of a roll along axes; empty where it is another, or turns nothing."""
    given = dict(zip(("input", "shifts", "dims"), node.args, strict=False)) | node.kwargs
    shifts, axes = (
        [one] if isinstance(one, int) else list(one) if isinstance(one, list | tuple) else []
        for one in (given.get("shifts"), given.get("dims"))
    )
    if len(shifts) != len(axes) or not all(isinstance(one, int) for one in (*shifts, *axes)):
        return []
    return [(shift, axis) for shift, axis in zip(shifts, axes, strict=True) if shift]


def _axes_taken_away(node: fx.Node) -> tuple[int, ...] | None:
    """The axes of a mean that does not keep them, in an order in which they can go one by one; else None."""
    settings = dict(zip(("input", "dim", "keepdim"), node.args, strict=False)) | node.kwargs
    given = settings.get("dim")
    if settings.get("keepdim", False) or settings.keys() - {"input", "dim", "keepdim"}:
        return None
    axes = [given] if isinstance(given, int) else list(given) if isinstance(given, list | tuple) else []
    if not axes or not all(isinstance(axis, int) for axis in axes) or min(axes) < 0 <= max(axes):
        return None
    return tuple(sorted(axes, reverse=axes[0] >= 0))


def _one_axis_each(index: Any) -> list[Any]:
    """A basic index as indices of one axis each, from the last axis to the first; empty if it is another."""
    items = index if isinstance(index, tuple) else (index,)
    if not all(isinstance(item, int | slice) or item is Ellipsis for item in items):
        return []
    everything = slice(None)
    middle = items.index(Ellipsis) if Ellipsis in items else len(items)
    front, back = items[:middle], items[middle + 1 :]
    steps = [
        (..., item, *[everything] * (len(back) - 1 - i)) for i, item in enumerate(back) if item != everything
    ]
    steps += [(*[everything] * i, item) for i, item in enumerate(front) if item != everything][::-1]
    return steps
