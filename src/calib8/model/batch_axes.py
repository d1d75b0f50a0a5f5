"""Which axis of a model's input counts samples, told by the recurrent layers that it reaches.

    x [T, N, I] ─► LSTM                          axis 1: a recurrent layer reads steps, samples, features
    x [N, T, I] ─► Transpose(1, 0, 2) ─► LSTM    axis 0
    x [N, C, H, W] ─► Conv … ─► [T, N, C] ─► LSTM    axis 0

Axes are followed through ops that leave them where they are, and through those that say where they go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import onnx_ir as ir

from calib8.ops.groups import CONVOLUTIONS, KEEPING, RECURRENT
from calib8.ops.table import TABLE

Axes: TypeAlias = tuple[int | None, ...]
"""For each axis of a value the axis of the input that it is, None for none of them."""

STAYING_FAMILIES: Final = ("function", "normalization", "softmax", "cast", "quantizer")

STAYING: Final = KEEPING | frozenset(name for name, op in TABLE.items() if op.family in STAYING_FAMILIES)
"""Ops whose first output has the axes of their first input."""

POOLS: Final = frozenset({"AveragePool", "MaxPool", "LpPool"})

ARITHMETIC: Final = frozenset({"Add", "Sub", "Mul", "Div"})


def batch_axis_of_layers(value: ir.Value) -> int | None:
    """The axis of a graph input that recurrent layers read as samples.

    Returns:
        None where no recurrent layer is reached, or its samples are none of the axes of the input.
    """
    if value.shape is None or not value.uses():
        return None
    start: Axes = tuple(range(len(value.shape)))
    waiting, seen = [(value, start)], {value}
    while waiting:
        one, axes = waiting.pop()
        for node, place in one.uses():
            if node.op_type in RECURRENT:
                if place == 0 and len(axes) == 3 and axes[1] is not None:
                    return axes[1]
                continue
            behind = _behind(node, place, axes)
            if behind is not None and node.outputs[0] not in seen:
                seen.add(node.outputs[0])
                waiting.append((node.outputs[0], behind))
    return None


def _behind(node: ir.Node, place: int, axes: Axes) -> Axes | None:
    """The axes of a node's first output; None where they are not known."""
    op = node.op_type
    if op in ARITHMETIC:
        other = node.inputs[1 - place]
        rank = None if other is None or other.shape is None else len(other.shape)
        return axes if rank is not None and rank <= len(axes) else None
    if place:
        return None
    if op in STAYING:
        return axes
    if op in CONVOLUTIONS or op in POOLS:
        return (axes[0], None, *axes[2:])
    if op == "MatMul":
        return (*axes[:-1], None) if len(axes) > 1 else None
    if op == "Transpose":
        return _transposed(node, axes)
    if op in ("Squeeze", "Unsqueeze"):
        return _squeezed(node, axes)
    return _reshaped(node, axes) if op == "Reshape" else None


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
    if value is None or value.const_value is None:
        return None
    return [int(number) for number in np.asarray(value.const_value.numpy()).reshape(-1)]
