"""What moves or joins elements: shapes, axes, pads, parts, repeats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.from_tflite.builder import Builder, target_shape
from calib8.model.from_tflite.elementwise import broadcast, common_order
from calib8.model.from_tflite.orders import Order, arranged, channels_first, same_memory, without
from calib8.model.from_tflite.reductions import axis_of
from calib8.model.from_tflite.windows import number
from calib8.tflite.graph import Operator


def reshape(builder: Builder, operator: Operator) -> None:
    """The same elements in the same order; the shape of the output says how."""
    x, y = operator.inputs[0], operator.outputs[0]
    order = builder.order(x)
    if not same_memory(builder.sizes(x), order, builder.filed(x)):
        order = builder.filed(x)
    _to_shape_of(builder, y, builder.read(x, order))


def _to_shape_of(builder: Builder, place: int, value: ir.Value) -> None:
    """Writes a tensor as filed, from a value with its elements in the order of the file."""
    shape = builder.numbers(f"{builder.name(place)}/shape", target_shape(builder.sizes(place)))
    builder.write(place, builder.filed(place), "Reshape", [value, shape])


def transpose(builder: Builder, operator: Operator) -> None:
    """Other axes first: no element moves until somebody wants them in another order."""
    x, y = operator.inputs[0], operator.outputs[0]
    axes = [axis_of(builder, axis, x) for axis in builder.integers(operator.inputs[1])]
    order = tuple(axes.index(axis) for axis in builder.order(x))
    builder.write(y, order, "Identity", [builder.read(x)])


def concatenation(builder: Builder, operator: Operator) -> None:
    """Tensors one behind the other."""
    y = operator.outputs[0]
    order = common_order(builder, operator.inputs, len(builder.sizes(y)))
    axis = order.index(axis_of(builder, number(operator, "axis", 0), y))
    inputs = [builder.read(place, order) for place in operator.inputs]
    builder.write_activated(operator, order, "Concat", inputs, axis=axis)


def pack(builder: Builder, operator: Operator) -> None:
    """Tensors one behind the other along a new axis."""
    y = operator.outputs[0]
    axis = axis_of(builder, number(operator, "axis", 0), y)
    axes = builder.numbers(f"{builder.name(y)}/axes", [axis])
    parts = [
        builder.emit(
            f"{builder.name(y)}/part", "Unsqueeze", [builder.read(place, builder.filed(place)), axes]
        )
        for place in operator.inputs
    ]
    builder.write(y, builder.filed(y), "Concat", parts, axis=axis)


def unpack(builder: Builder, operator: Operator) -> None:
    """The parts along an axis, which goes."""
    [x] = operator.inputs
    axis = axis_of(builder, number(operator, "axis", 0), x)
    order = builder.order(x)
    place = order.index(axis)
    title = builder.name(operator.outputs[0])
    axes = builder.numbers(f"{title}/axes", [place])
    for index, y in enumerate(operator.outputs):
        bounds = [builder.numbers(f"{title}/bound", [bound]) for bound in (index, index + 1)]
        part = builder.emit(f"{builder.name(y)}/part", "Slice", [builder.read(x), *bounds, axes])
        builder.write(y, without(order, [axis]), "Squeeze", [part, axes])


def split(builder: Builder, operator: Operator) -> None:
    """Equal parts along an axis."""
    axis, x = operator.inputs
    _split(builder, operator, x, builder.integers(axis)[0])


def split_v(builder: Builder, operator: Operator) -> None:
    """Parts of stated sizes along an axis."""
    x, _, axis = operator.inputs
    _split(builder, operator, x, builder.integers(axis)[0])


def _split(builder: Builder, operator: Operator, x: int, along: int) -> None:
    axis, order = axis_of(builder, along, x), builder.order(x)
    sizes = [builder.size(y, axis) for y in operator.outputs]
    parts = builder.numbers(f"{builder.name(operator.outputs[0])}/sizes", sizes)
    builder.write_many(operator.outputs, order, "Split", [builder.read(x), parts], axis=order.index(axis))


def pad(builder: Builder, operator: Operator) -> None:
    """A border of zeros, or of a stated number."""
    x, y = operator.inputs[0], operator.outputs[0]
    order = builder.order(x)
    pads = builder.numbers(f"{builder.name(y)}/pads", _pads(builder, operator, order))
    value = [] if len(operator.inputs) < 3 else [_scalar(builder, operator.inputs[2])]
    builder.write(y, order, "Pad", [builder.read(x), pads, *value])


def _pads(builder: Builder, operator: Operator, order: Order) -> list[int]:
    """All before, then all after, in the order of the value."""
    table = builder.constant(operator.inputs[1]).reshape(-1, 2).astype(np.int64).tolist()
    rows = arranged(table, order)
    return [row[0] for row in rows] + [row[1] for row in rows]


def _scalar(builder: Builder, place: int) -> ir.Value:
    return builder.fixed(builder.constant(place).reshape(()), place)


def mirror_pad(builder: Builder, operator: Operator) -> None:
    """A border that mirrors the inside: REFLECT without the outermost elements, SYMMETRIC with them."""
    x, y = operator.inputs[0], operator.outputs[0]
    order = builder.order(x)
    flat = _pads(builder, operator, order)
    if operator.options.get("mode") == "REFLECT":
        pads = builder.numbers(f"{builder.name(y)}/pads", flat)
        builder.write(y, order, "Pad", [builder.read(x), pads], mode="reflect")
        return
    value, rank = builder.read(x), len(order)
    for axis in range(rank):
        before, after = flat[axis], flat[rank + axis]
        if before or after:
            size = builder.size(x, order[axis])
            builder.list_indices(before + size + after)
            inside = np.arange(size)
            indices = builder.numbers(
                f"{builder.name(y)}/indices", np.pad(inside, (before, after), "symmetric")
            )
            value = builder.emit(f"{builder.name(y)}/mirrored", "Gather", [value, indices], axis=axis)
    builder.write(y, order, "Identity", [value])


def gather(builder: Builder, operator: Operator) -> None:
    """Parts at given places along an axis."""
    x, indices = operator.inputs
    y = operator.outputs[0]
    if number(operator, "batch_dims", 0):
        raise NoFormError("its places differ from sample to sample (batch_dims)")
    axis = axis_of(builder, number(operator, "axis", 0), x)
    order = builder.order(x) if len(builder.sizes(indices)) == 1 else builder.filed(x)
    inputs = [builder.read(x, order), builder.read(indices, builder.filed(indices))]
    result = order if len(builder.sizes(indices)) == 1 else builder.filed(y)
    builder.write(y, result, "Gather", inputs, axis=order.index(axis))


def tile(builder: Builder, operator: Operator) -> None:
    """The tensor several times along each axis."""
    x, y = operator.inputs[0], operator.outputs[0]
    order = builder.order(x)
    repeats = arranged(builder.integers(operator.inputs[1]), order)
    counts = builder.numbers(f"{builder.name(y)}/repeats", repeats)
    builder.write(y, order, "Tile", [builder.read(x), counts])


def broadcast_to(builder: Builder, operator: Operator) -> None:
    """The tensor as often as a shape asks for."""
    x, y = operator.inputs[0], operator.outputs[0]
    order = common_order(builder, [x], len(builder.sizes(y)))
    sizes = arranged([size or 1 for size in builder.sizes(y)], order)
    shape = builder.numbers(f"{builder.name(y)}/shape", sizes)
    builder.write(y, order, "Expand", [broadcast(builder, x, order), shape])


def space_to_batch_nd(builder: Builder, operator: Operator) -> None:
    """Pads, then every place within a block of pixels becomes a sample of its own."""
    x, y = operator.inputs[0], operator.outputs[0]
    blocks = builder.integers(operator.inputs[1])
    order, count = _batched(builder, x, blocks)
    title = builder.name(y)
    table = builder.constant(operator.inputs[2]).reshape(-1, 2).tolist()
    border = [[0, 0], *table, [0, 0]]
    rows = arranged(border, order)
    pads = builder.numbers(f"{title}/pads", [row[0] for row in rows] + [row[1] for row in rows])
    value = builder.emit(f"{title}/padded", "Pad", [builder.read(x, order), pads])
    sizes: list[int] = []
    for axis in order:
        if 0 < axis <= count:
            padded = builder.size(x, axis) + sum(border[axis])
            sizes += [padded // blocks[axis - 1], blocks[axis - 1]]
        else:
            sizes.append(-1 if axis == 0 else builder.size(x, axis))
    at = _split_places(order, count, behind=True)
    first = [place + 1 for place in at]
    rest = [place for place in range(len(sizes)) if place not in first]
    value = _regrouped(builder, title, value, sizes, [*first, *rest])
    shape = [-1 if axis == 0 else builder.size(y, axis) for axis in order]
    builder.write(y, order, "Reshape", [value, builder.numbers(f"{title}/shape", shape)])


def batch_to_space_nd(builder: Builder, operator: Operator) -> None:
    """Samples become the pixels of blocks, then the border is cut off."""
    x, y = operator.inputs[0], operator.outputs[0]
    blocks = builder.integers(operator.inputs[1])
    order, count = _batched(builder, x, blocks)
    title = builder.name(y)
    sizes = [*blocks, *(-1 if axis == 0 else builder.size(x, axis) for axis in order)]
    perm: list[int] = []
    for place, axis in enumerate(order):
        perm += [count + place, axis - 1] if 0 < axis <= count else [count + place]
    value = _regrouped(builder, title, builder.read(x, order), sizes, perm)
    whole = [
        -1 if axis == 0 else builder.size(x, axis) * (blocks[axis - 1] if axis <= count else 1)
        for axis in order
    ]
    value = builder.emit(f"{title}/whole", "Reshape", [value, builder.numbers(f"{title}/sizes", whole)])
    table = builder.constant(operator.inputs[2]).reshape(-1, 2).tolist()
    starts = [table[axis - 1][0] for axis in order if 0 < axis <= count]
    ends = [start + builder.size(y, axis) for start, axis in zip(starts, _spatial(order, count), strict=True)]
    axes = [order.index(axis) for axis in _spatial(order, count)]
    bounds = [
        builder.numbers(f"{title}/{what}", found) for what, found in (("starts", starts), ("ends", ends))
    ]
    builder.write(y, order, "Slice", [value, *bounds, builder.numbers(f"{title}/axes", axes)])


def _batched(builder: Builder, place: int, blocks: Sequence[int]) -> tuple[Order, int]:
    """The order to work in, and how many axes have blocks."""
    rank = len(builder.sizes(place))
    if rank != len(blocks) + 2:
        raise NoFormError(f"'{builder.name(place)}' has {rank} axes, {len(blocks)} with blocks")
    return channels_first(rank), len(blocks)


def _spatial(order: Order, count: int) -> list[int]:
    return [axis for axis in order if 0 < axis <= count]


def _split_places(order: Order, count: int, *, behind: bool) -> list[int]:
    """Where the axes with blocks are once each of them has become two."""
    found, place = [], 0
    for axis in order:
        if 0 < axis <= count:
            found.append(place)
        place += 1 + (behind and 0 < axis <= count)
    return found


def _regrouped(
    builder: Builder, title: str, value: ir.Value, sizes: Sequence[int], perm: Sequence[int]
) -> ir.Value:
    parts = builder.emit(f"{title}/parts", "Reshape", [value, builder.numbers(f"{title}/sizes", sizes)])
    return builder.emit(f"{title}/moved", "Transpose", [parts], perm=list(perm))
