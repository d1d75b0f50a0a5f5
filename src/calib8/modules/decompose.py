"""Functions that exporters split into several operators become several nodes.

    silu(x)                x · sigmoid(x)
    mish(x)                x · tanh(softplus(x))
    gelu(x)                ½ · x · (1 + erf(x / √2))
    glu(x)                 a · sigmoid(b), a and b the halves of x
    attention(q, k, v)     softmax((q · 1/√E) @ kᵀ) @ v, E the length of a row of q, or with its own scale
    mean(x, (2, 3))        mean with the axes kept, squeeze, squeeze
    x[:, :, ::2, ::2]      x[:, :, :, ::2][:, :, ::2]

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
        node.op, node.target, node.args, node.kwargs = "call_function", function, args, {}
        count += 1
    return count


class _Adder:
    """Adds nodes before one, named after it."""

    def __init__(self, graph: fx.Graph, node: fx.Node) -> None:
        self.graph = graph
        self.node = node

    def __call__(self, function: Callable[..., Any], *args: Any) -> fx.Node:
        """A call with a name of its own and the origin of the node that it is part of."""
        name = f"{self.node.name}_{getattr(function, '__name__', 'part')}"
        node = self.graph.create_node("call_function", function, args, name=name)
        node.meta.update(self.node.meta)
        return node


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
    key, value, scale = settings
    factor = add(inverse_root_of_length, query) if scale is None else scale
    scores = add(torch.matmul, add(operator.mul, query, factor), add(torch.transpose, key, -2, -1))
    return torch.matmul, (add(F.softmax, scores, -1), value)


def inverse_root_of_length(rows: torch.Tensor) -> float:
    """1 / √E of rows [..., E]; a number that does not depend on the batch."""
    return 1.0 / math.sqrt(int(rows.shape[-1]))


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
        if type(module) not in _MODULES:
            return None
        write, argument, default = _FUNCTIONS[_MODULES[type(module)]]
        return write, getattr(module, argument) if argument else default
    if node.target is operator.getitem:
        steps = _one_axis_each(node.args[1])
        return (_picked, steps) if len(steps) > 1 else None
    if node.target is F.scaled_dot_product_attention:
        others = _plain_attention(node)
        return None if others is None else (_attention, others)
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


def _plain_attention(node: fx.Node) -> tuple[Any, Any, Any] | None:
    """Key, value and scale (None: the usual one) of attention without masks and dropout; else None."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    if any(given.get(name) for name in ("dropout_p", "is_causal", "enable_gqa")):
        return None
    return None if given.get("attn_mask") is not None else (given["key"], given["value"], given.get("scale"))


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
