"""Which axis of a model's input counts samples, told by the recurrent layers that it reaches.

    x [T, N, I] ─► LSTM                          axis 1: a recurrent layer reads steps, samples, features
    x [N, T, I] ─► Transpose(1, 0, 2) ─► LSTM    axis 0
    x [N, C, H, W] ─► Conv … ─► [T, N, C] ─► LSTM    axis 0
    x [T, N, I] ─► Reshape(−1, I) … ─► LSTM      untold: axes are lost in the Reshape

Axes are followed through ops that leave them where they are, and through those that say where they go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import onnx_ir as ir

from calib8.ops.groups import CONVOLUTIONS, KEEPING, RECURRENT
from calib8.ops.table import TABLE
from calib8.tensors import UNTOLD

Axes: TypeAlias = tuple[int | None, ...]
"""For each axis of a value the axis of the input that it is, None for none of them."""

STAYING_FAMILIES: Final = ("function", "normalization", "softmax", "cast", "quantizer")

STAYING: Final = KEEPING.union(
    (name for name, op in TABLE.items() if op.family in STAYING_FAMILIES), ("Slice", "Pad")
)
"""Ops whose first output has the axes of their first input."""

POOLS: Final = frozenset(name for name, op in TABLE.items() if op.family == "pool")

ARITHMETIC: Final = frozenset(name for name, op in TABLE.items() if op.family == "arithmetic")

BATCH_PLACES: Final[Mapping[int, int]] = {0: 1, 4: 0, 5: 1, 6: 1}
"""Place of an input of a recurrent layer → its axis of samples: sequence, lengths, first h and c."""


def batch_axis_of_layers(value: ir.Value) -> int | None:
    """The axis of a graph input that recurrent layers read as samples.

    Returns:
        ``UNTOLD`` where a recurrent layer is reached through an op that leaves no trace of axes; None where
        none is reached.
    """
    if value.shape is None or not value.uses():
        return None
    waiting: list[tuple[ir.Value, Axes]] = [(value, tuple(range(len(value.shape))))]
    seen, lost = {value}, list[ir.Value]()
    while waiting:
        one, axes = waiting.pop()
        for node, place in one.uses():
            if node.op_type in RECURRENT:
                found = _read(axes, place)
                if found is not None:
                    return found
                lost.append(one)
                continue
            behind = _behind(node, place, axes)
            new = [output for output in node.outputs if output not in seen]
            seen.update(new)
            if behind is None:
                lost += new
            else:
                waiting += [(output, behind) for output in new]
    return UNTOLD if _reach_a_layer(lost) else None


def _read(axes: Axes, place: int) -> int | None:
    axis = BATCH_PLACES.get(place)
    return axes[axis] if axis is not None and axis < len(axes) else None


def _reach_a_layer(values: Sequence[ir.Value]) -> bool:
    """Whether a recurrent layer reads the sequence from one of the values, or from what is behind it."""
    waiting, seen = list(values), set(values)
    while waiting:
        for node, place in waiting.pop().uses():
            if node.op_type in RECURRENT and place == 0:
                return True
            new = [output for output in node.outputs if output not in seen]
            seen.update(new)
            waiting += new
    return False


def _behind(node: ir.Node, place: int, axes: Axes) -> Axes | None:
    """The axes of what a node yields; None where they are not known."""
    op = node.op_type
    if op in ARITHMETIC:
        return _of_several([one for at, one in enumerate(node.inputs) if at != place], axes)
    if op == "Concat":
        return _without(axes, _axis(node))
    if op == "Gather":
        return _picked(node, place, axes)
    if place:
        return None
    if op in STAYING:
        return axes
    if op in CONVOLUTIONS or op in POOLS:
        return (axes[0], None, *axes[2:])
    if op == "MatMul":
        return (*axes[:-1], None) if len(axes) > 1 else None
    if op == "Split":
        return _without(axes, _axis(node))
    if op == "Transpose":
        return _transposed(node, axes)
    if op in ("Squeeze", "Unsqueeze"):
        return _squeezed(node, axes)
    return _reshaped(node, axes) if op == "Reshape" else None


def _axis(node: ir.Node) -> int:
    named = node.attributes.get("axis")
    return 0 if named is None else named.as_int()


def _of_several(others: Sequence[ir.Value | None], axes: Axes) -> Axes | None:
    """Those of the tensor with most axes, which are the last ones of the result."""
    ranks = [len(other.shape) for other in others if other is not None and other.shape is not None]
    return axes if max(ranks, default=0) <= len(axes) else None


def _without(axes: Axes, one: int) -> Axes:
    """The axes, of which one is not what it was."""
    return tuple(None if place == one % len(axes) else axis for place, axis in enumerate(axes))


def _picked(node: ir.Node, place: int, axes: Axes) -> Axes | None:
    """Of a Gather: indices stand for the axis that they pick from."""
    axis = _axis(node)
    data, indices = node.inputs[:2]
    if place == 1:  # an embedding
        rank = _rank(data)
        return None if rank is None or axis else (*axes, *[None] * (rank - 1))
    rank = _rank(indices)
    if rank is None:
        return None
    axis %= len(axes)
    return (*axes[:axis], *[None] * rank, *axes[axis + 1 :])


def _rank(value: ir.Value | None) -> int | None:
    """Number of axes, of what a Constant gives too."""
    if value is None:
        return None
    if value.shape is not None:
        return len(value.shape)
    tensor = _constant(value)
    return None if tensor is None else len(tensor.shape)


def _constant(value: ir.Value) -> ir.TensorProtocol | None:
    """What is stored as an initializer, or in a Constant."""
    producer = value.producer()
    if producer is None or producer.op_type != "Constant":
        return value.const_value
    stored = producer.attributes.get("value")
    return None if stored is None else stored.as_tensor()


def _transposed(node: ir.Node, axes: Axes) -> Axes | None:
    order = node.attributes.get("perm")
    places = tuple(reversed(range(len(axes)))) if order is None else tuple(order.as_ints())
    return tuple(axes[axis] for axis in places) if sorted(places) == list(range(len(axes))) else None


def _squeezed(node: ir.Node, axes: Axes) -> Axes | None:
    told = node.attributes.get("axes")
    numbers = list(told.as_ints()) if told is not None else _numbers(node, 1)
    if numbers is None:
        return None
    if node.op_type == "Squeeze":
        gone = {axis % len(axes) for axis in numbers}
        return tuple(axis for place, axis in enumerate(axes) if place not in gone)
    rank, rest = len(axes) + len(numbers), iter(axes)
    new = {axis % rank for axis in numbers}
    return tuple(None if place in new else next(rest, None) for place in range(rank))


def _reshaped(node: ir.Node, axes: Axes) -> Axes | None:
    """Zeros in the new shape keep the sizes of the axes in front."""
    sizes = _numbers(node, 1)
    return None if sizes is None else tuple(_kept(sizes, axes))


def _kept(sizes: Sequence[int], axes: Axes) -> Iterator[int | None]:
    front = True
    for place, size in enumerate(sizes):
        front = front and size == 0 and place < len(axes)
        yield axes[place] if front else None


def _numbers(node: ir.Node, place: int) -> list[int] | None:
    value = node.inputs[place] if place < len(node.inputs) else None
    tensor = None if value is None else _constant(value)
    return None if tensor is None else [int(number) for number in np.asarray(tensor.numpy()).reshape(-1)]
