"""From a PyTorch module to its graph: plain dataflow, out-of-place, the same one in training and evaluation.

    x += y; z = F.relu(x, inplace=True)       iadd = x + y; relu = F.relu(iadd), later readers of x read relu
    F.dropout(x, training=self.training)      the flag is read from the module whenever the graph runs
    if self.training: …                       the way of evaluation; a warning names what is left out
    F.silu(x)                                 x · sigmoid(x): every tensor that gets codes is a node

On the left what forward says, on the right what the graph holds.
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, fx, nn

from calib8.errors import UnsupportedModelError, UsageError
from calib8.modules.attention_modules import fill_finitely, spell_out_attention
from calib8.modules.decompose import decompose
from calib8.modules.example_sizes import ExampleSizes
from calib8.modules.modes import OWNER, SOURCE, follow_mode, in_mode
from calib8.modules.out_of_place import make_out_of_place
from calib8.modules.untraceable import Failure, calling_line, untraceable

IN_PLACE: Final = tuple(
    name
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor")
    if hasattr(torch.Tensor, f"__{name}__")
)
"""Functions of ``operator`` that change a tensor; a Proxy of torch computes them out of place, unseen."""

_CONSTANT: Final = "_tensor_constant"
"""How torch.fx calls tensors that forward makes without inputs; it leaves them in the user's module."""

_PART_COUNTS: Final = {
    "chunk": "chunks",
    "tensor_split": "indices_or_sections",
    "split": "split_size_or_sections",
    "split_with_sizes": "split_sizes",
}
"""Functions that part a tensor → the argument that says into how many parts."""

FIXED_SIZES: Final = "calib8 fixed sizes"
"""In the ``meta`` of a traced module: whether forward asked for sizes and got those of the example."""

_TAKEN: Final = ("graph", "code")
"""Names that a GraphModule needs for itself."""


class TracingWarning(UserWarning):
    """The traced graph does something else in training than the module."""


def trace(module: nn.Module, inputs: int | None = None, *, example: Sequence[Tensor] = ()) -> fx.GraphModule:
    """The graph of a module, over the module's own submodules, parameters and buffers.

    Layers of ``torch.nn`` are single nodes. Module and modes stay as they are; the graph's node names are the
    same whenever the same module is traced.

    Args:
        module: any module; what DataParallel, DistributedDataParallel and torch.compile wrap is unwrapped.
        inputs: how many positional inputs are tensors; None: all without a default. The others stay at their
            defaults.
        example: answers what forward asks of sizes and types, see ``calib8.modules.example_sizes``.

    Returns:
        A GraphModule with every submodule, parameter and buffer of ``module`` under its own name, called or
        not. Its ``meta`` has ``FIXED_SIZES`` where it holds for the sizes of the example alone, but for the
        batch.

    Raises:
        UsageError: not a module, or it takes other inputs.
        UnsupportedModelError: it cannot be traced; the message lists the lines.
    """
    module = unwrapped(module)
    tracer = _follow_modes(module, _Inputs(input_names(module, inputs), tuple(example)))
    graph = tracer.graph
    for name, constant in tracer.constants.items():
        setattr(module, name, constant)
    try:
        traced = fx.GraphModule(module, graph, type(module).__name__)
    finally:
        for name in tracer.constants:
            delattr(module, name)
    _keep_whole(traced, module)
    traced.meta[FIXED_SIZES] = tracer.sizes.asked
    make_out_of_place(traced)
    spell_out_attention(traced)
    fill_finitely(traced)
    decompose(traced)
    graph.eliminate_dead_code()
    traced.recompile()
    return traced


def unwrapped(module: object) -> nn.Module:
    """The module itself, without what runs it on several devices or compiled it.

    Raises:
        UsageError: not a module.
        UnsupportedModelError: TorchScript, whose Python code is gone; parameters without a shape yet.
    """
    while isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
        module = module.module
    if isinstance(module, nn.Module) and isinstance(getattr(module, "_orig_mod", None), nn.Module):
        return unwrapped(module._orig_mod)
    if not isinstance(module, nn.Module):
        raise UsageError("model", f"is of type {type(module).__name__}", "Give a torch.nn.Module")
    name = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        problem = "is compiled by TorchScript, whose graph cannot be trained further here"
        raise UnsupportedModelError(name, problem, "Give the Python module that it was made from")
    lazy = [path for path, value in module.named_parameters() if torch.nn.parameter.is_lazy(value)]
    if lazy:
        raise UnsupportedModelError(
            name, f"its parameter '{lazy[0]}' has no shape yet", "Run the module once on a batch"
        )
    taken = [path for path in _TAKEN if path in module._modules or path in module._parameters]
    if taken:
        problem = f"calls a part of itself '{taken[0]}', which torch.fx needs for itself"
        raise UnsupportedModelError(name, problem, "Give that part another name")
    return module


@dataclass(frozen=True)
class _Inputs:
    """Names of the inputs that are tensors, and an example of them; no tensors: without one."""

    names: list[str]
    example: tuple[Tensor, ...]


def _follow_modes(module: nn.Module, inputs: _Inputs) -> _Tracer:
    """The module traced in evaluation; what follows the mode is read from the modules in its graph."""
    name = type(module).__name__
    evaluated, trained = _both(module, inputs)
    if evaluated.failures:
        raise untraceable(name, evaluated.failures)
    if evaluated.random:
        problem = "draws random numbers without any of its inputs, which would be the same in every run"
        raise UnsupportedModelError(
            name, problem, "Draw them with torch.rand_like or another function of inputs"
        )
    if trained.failures:
        error = untraceable(name, trained.failures)
        problem = (
            f"computes in training what it computes in evaluation: its code for training {error.problem}"
        )
        warnings.warn(TracingWarning(f"{name} {problem}"), stacklevel=3)
        return evaluated
    other = follow_mode(evaluated.graph, trained.graph)
    if other:
        text = f"{name} takes another way in training, which is not followed: {other}"
        warnings.warn(TracingWarning(text), stacklevel=3)
    return evaluated


def _both(module: nn.Module, inputs: _Inputs) -> tuple[_Tracer, _Tracer]:
    """The module in evaluation and in training; what only hands on its input in evaluation is one node."""
    evaluated = _traced(module, inputs, training=False)
    trained = _traced(module, inputs, training=True)
    whole = evaluated.handing_on - trained.handing_on
    if not whole or evaluated.failures:
        return evaluated, trained
    again = _traced(module, inputs, training=False, whole=whole)
    return again, _traced(module, inputs, training=True, whole=whole)


def _traced(module: nn.Module, inputs: _Inputs, *, training: bool, whole: Collection[str] = ()) -> _Tracer:
    """One run over the module's code in one mode; what failed is in the tracer."""
    tracer = _Tracer(module, inputs, whole)
    before = set(module.__dict__)
    with in_mode(module, training=training), torch.random.fork_rng(devices=[]), _one_way():
        state = torch.get_rng_state()
        try:
            tracer.graph = tracer.trace(module)
        except Exception as error:
            tracer.failures.append(Failure("", error))
        tracer.random = not torch.equal(state, torch.get_rng_state())
    for name in [name for name in module.__dict__ if name not in before and name.startswith(_CONSTANT)]:
        tracer.constants[name] = module.__dict__.pop(name)
    return tracer


class _Autocast(torch.autocast):
    """Precision of a region, which no graph holds; the device may be that of a traced tensor."""

    def __init__(self, device_type: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__("cpu" if isinstance(device_type, fx.Proxy) else device_type, *args, **kwargs)


@contextmanager
def _one_way() -> Iterator[None]:
    """``torch.autocast(x.device.type)`` can be traced; transformers of torch go one way in both modes."""
    own, fast = torch.autocast, torch.backends.mha.get_fastpath_enabled()
    torch.autocast = _Autocast  # type: ignore[misc]
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.autocast = own  # type: ignore[misc]
        torch.backends.mha.set_fastpath_enabled(fast)


def input_names(module: nn.Module, count: int | None) -> list[str]:
    """Names of the first ``count`` inputs of a module's forward, of those without a default if it is None.

    Raises:
        UsageError: forward takes fewer inputs, or needs more.
    """
    parameters = list(inspect.signature(module.forward).parameters.values())
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            more = (1 if not names else 0) if count is None else count - len(names)
            names += [f"{parameter.name}_{index}" for index in range(more)]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            required = parameter.default is parameter.empty
            if (required and count is None) or (count is not None and len(names) < count):
                names.append(parameter.name)
    needed = sum(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters
    )
    if count is not None and not needed <= len(names) == count:
        problem = f"takes {needed} inputs, but {count} were given"
        raise UsageError(type(module).__name__, problem, "Give example_inputs as forward takes them")
    return names


def _keep_whole(traced: fx.GraphModule, module: nn.Module) -> None:
    """Everything that the module holds, in its order; torch.fx copies only what the graph calls."""
    constants = {name: value for name, value in traced._buffers.items() if name not in module._buffers}
    for held in (traced._modules, traced._parameters, traced._buffers):
        held.clear()
    for name, parameter in module._parameters.items():
        traced.register_parameter(name, parameter)
    for name, buffer in module._buffers.items():
        traced.register_buffer(name, buffer, persistent=name not in module._non_persistent_buffers_set)
    for name, constant in constants.items():
        traced.register_buffer(name, constant, persistent=False)
    for name, part in module._modules.items():
        traced.add_module(name, part)
    traced.training = module.training


_OF_PARTS: Final = (
    nn.Sequential, nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder, nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
)  # fmt: skip
"""Modules of torch whose parts are nodes."""


class _TracedValue(fx.Proxy):
    """What a tensor is while forward runs; changes in place become nodes, numbers are the example's."""

    tracer: _Tracer

    def __len__(self) -> int:
        count = self.tracer.length(self.node)
        return super().__len__() if count is None else count

    def __setitem__(self, index: Any, value: Any) -> None:
        self.tracer.create_proxy("call_function", operator.setitem, (self, index, value), {})

    def __index__(self) -> int:
        return operator.index(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def _number(self) -> Any:
        number = self.tracer.sizes.number(self.node)
        if number is None:
            raise TypeError(f"argument must be a number, not '{type(self).__name__}'")
        return number


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: fx.Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    return method


for _name in IN_PLACE:
    setattr(_TracedValue, f"__{_name}__", _in_place(getattr(operator, _name)))


class _Tracer(fx.Tracer):
    """Runs forward once; goes on behind parts that fail, so that all of them are found."""

    proxy_buffer_attributes = True
    """Forward that writes to a buffer writes to a node, and not to the user's buffer."""

    def __init__(self, module: nn.Module, inputs: _Inputs, whole: Collection[str]) -> None:
        super().__init__()
        self.names = inputs.names
        self.sizes = ExampleSizes(module, inputs.example)
        self.whole = whole
        self.paths = [""]
        self.failures: list[Failure] = []
        self.handing_on: set[str] = set()
        """Paths of modules without parts whose forward returned what it was given."""
        self.random = False
        """Whether forward drew random numbers while it was traced."""
        self.constants: dict[str, torch.Tensor] = {}
        """Tensors that forward made without inputs, by the names of their nodes' targets."""

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Placeholders for the inputs that are tensors; the others stay at their defaults."""
        root: nn.Module = self.root

        def forward(*inputs: Any) -> Any:
            return root.forward(*inputs)  # which an object may have of its own

        return forward, [self.create_proxy("placeholder", name, (), {}) for name in self.names]

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """A value whose in-place operators are seen."""
        return _TracedValue(node, self)

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        """A node that knows whose it is and which line made it."""
        node = super().create_node(*args, **kwargs)
        node.meta[OWNER] = self.paths[-1]
        node.meta[SOURCE] = calling_line()
        return node

    def iter(self, obj: fx.Proxy) -> Iterator[Any]:
        """A loop over parts whose number the code says; torch.fx itself knows it of unpacking alone."""
        count = self.length(obj.node)
        if count is None:
            return super().iter(obj)
        return iter([operator.getitem(obj, index) for index in range(count)])

    def length(self, node: fx.Node) -> int | None:
        """How many parts the value of a node has, as the code says or the example has it."""
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        wanted = node.args[1] if len(node.args) > 1 else node.kwargs.get(_PART_COUNTS.get(str(name), ""))
        if name in ("chunk", "tensor_split") and isinstance(wanted, int):
            return wanted
        if name in ("split", "split_with_sizes") and isinstance(wanted, list | tuple):
            return len(wanted)
        return self.sizes.length(node)

    def to_bool(self, obj: fx.Proxy) -> bool:
        """Which way the code takes, where sizes and types say so."""
        number = self.sizes.number(obj.node)
        return super().to_bool(obj) if number is None else bool(number)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """A parameter or buffer as a node, but for what computes sizes."""
        return attr_val if self.sizes.running else super().getattr(attr, attr_val, parameter_proxy_cache)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a module is one node: the layers of torch, subclasses with the same forward included."""
        if module_qualified_name in self.whole:
            return True
        home = getattr(m.forward, "__module__", "")
        return home.startswith(("torch.nn", "torch.ao.nn")) and not isinstance(m, _OF_PARTS)

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """One node, or those of the module's forward; one that fails is noted and passed over."""
        if self.sizes.running:
            return forward(*args, **kwargs)
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        self.paths.append(path)
        above = list(self.module_stack.items())
        try:
            result = super().call_module(m, forward, args, kwargs)
        except Exception as error:
            self.module_stack.clear()
            self.module_stack.update(above)
            self.failures.append(Failure(path, error))
            result = self.create_proxy("call_module", path, args, kwargs)
        finally:
            self.paths.pop()
        if args and result is args[0] and not m._modules and not m._parameters:
            self.handing_on.add(path)
        return result
