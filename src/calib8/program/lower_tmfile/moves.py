"""What moves codes: most operators of Tengine copy them as they are, whatever the scales of both tensors say.

Concat, Transpose, and the nearest pixels of Interp and Resize go by way of real numbers, a table here.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.program.instructions import Concat, Constant, Slice
from calib8.program.lower_tmfile.builder import LOWEST, TO_NHWC, Builder, stored
from calib8.program.lower_tmfile.options import number, whole
from calib8.program.ops.operand import Ints
from calib8.program.rounding.real import joined_table, real_table
from calib8.program.rules import I32
from calib8.program.slot import Slot
from calib8.tmfile.graph import Node
from calib8.tmfile.kinds import is_codes

NEAREST: Final = 1
"""Type of an Interp."""

MOST_PIXELS: Final = 1 << 20
"""Rows or columns of an image whose places are listed."""


def reshape(builder: Builder, node: Node) -> None:
    """The same codes in the order of the file: Reshape and Flatten."""
    name, place = builder.name(node), node.outputs[0]
    flat = builder.flat(name, builder.number(node.inputs[0]))
    flat = builder.reshape(name, flat, builder.tensor(place).shape)
    builder.same(node, builder.unflat(name, flat), place)


def dropout(builder: Builder, node: Node) -> None:
    """Nothing at all: Tengine takes the scale of the input too."""
    builder.numbers[node.outputs[0]] = builder.number(node.inputs[0])


def permute(builder: Builder, node: Node) -> None:
    """Axes in one of the two orders that Tengine has."""
    order = tuple(whole(node, "order0", "order1", "order2", "order3"))
    source, name = builder.number(node.inputs[0]), builder.name(node)
    rank = len(builder.slots[source].shape)
    if not (order == TO_NHWC and rank == 4) and not (order[:3] == (1, 0, 2) and rank == 3):
        raise NoFormError(f"its order is {list(order)} for {rank} axes")
    moved = builder.transpose(name, builder.flat(name, source), order[:rank])
    builder.same(node, builder.unflat(name, moved), node.outputs[0])


def transpose(builder: Builder, node: Node) -> None:
    """Axes in any order, codes rescaled."""
    order, source = node.options["perm"], builder.number(node.inputs[0])
    rank, name = len(builder.slots[source].shape), builder.name(node)
    if not isinstance(order, tuple) or sorted(order) != list(range(rank)) or rank < 2:
        raise NoFormError(f"its order is {order} for {rank} axes")
    moved = builder.transpose(name, builder.flat(name, source), [int(axis) for axis in order])
    _rescaled(builder, node, builder.unflat(name, moved))


def _rescaled(builder: Builder, node: Node, source: int) -> None:
    """Codes with the scale of the output, by way of the real numbers."""
    place = node.outputs[0]
    scales = builder.slots[source].scale, builder.slot_of(place, ()).scale
    builder.look_up(node, source, place, real_table(lambda values: values, *scales), "Rescale")


def shuffle_channel(builder: Builder, node: Node) -> None:
    """Channels g·n + i become i·groups + g."""
    (groups,) = whole(node, "group")
    x, name = builder.image(node.inputs[0]), builder.name(node)
    channels = x.shape[3]
    if groups < 1 or channels % groups:
        raise NoFormError(f"it has {groups} groups for {channels} channels")
    order = np.arange(channels).reshape(groups, -1).T.reshape(-1).astype(np.int32)
    builder.same(node, builder.gather(name, builder.number(node.inputs[0]), 3, order), node.outputs[0])


def depth_to_space(builder: Builder, node: Node) -> None:
    """Blocks of channels become blocks of pixels; the channels of a block lie side by side."""
    (block,) = whole(node, "block_size")
    x, name = builder.image(node.inputs[0]), builder.name(node)
    images, rows, columns, channels = x.shape
    if block < 1 or channels % (block * block):
        raise NoFormError(f"its blocks are {block}×{block}, its channels {channels}")
    rest = channels // (block * block)
    source = builder.number(node.inputs[0])
    six = builder.reshape(name, source, (images, rows, columns, rest, block, block))
    turned = builder.transpose(name, six, (0, 1, 4, 2, 5, 3))
    result = builder.reshape(name, turned, (images, rows * block, columns * block, rest))
    builder.same(node, result, node.outputs[0])


def concat(builder: Builder, node: Node) -> None:
    """Tensors behind each other; of several each is rescaled, one alone is copied."""
    place, shape = node.outputs[0], builder.tensor(node.outputs[0]).shape
    (axis,) = whole(node, "axis")
    rank = len(shape)
    if not -rank <= axis < rank or rank > 4:
        raise NoFormError(f"it has axis {axis} of {rank}")
    if len(node.inputs) == 1:
        builder.same(node, builder.number(node.inputs[0]), place)
        return
    along = TO_NHWC.index(axis % rank) if rank == 4 else axis % rank
    y = builder.slot_of(place, stored(shape))
    sides = [_joined(builder, node, source, y.scale) for source in node.inputs]
    name = builder.name(node)
    builder.steps.append(Concat(name, tuple(sides), (builder.write(place),), along))


def _joined(builder: Builder, node: Node, place: int, scale: float) -> int:
    """A slot with the codes that Concat makes of a tensor."""
    tensor = builder.tensor(place)
    if tensor.role == "const" and tensor.data is not None and (is_codes(tensor) or not tensor.data.any()):
        return _fixed(builder, node, place, scale)
    source = builder.number(place)
    x = builder.slots[source]
    table = joined_table(np.float32(x.scale) / np.float32(scale))
    return builder.between_table(builder.name(node), source, table, scale)


def _fixed(builder: Builder, node: Node, place: int, scale: float) -> int:
    """A slot with what Concat makes of a constant in codes, or of floats that are 0: so are their bytes."""
    meaning, data = builder.tensor(place).quantization, builder.tensor(place).data
    assert data is not None
    values = np.zeros(data.shape, np.int8)
    if meaning is not None and data.dtype == np.int8:
        values = joined_table(meaning.scales[0] / np.float32(scale))[data.astype(np.int64) - LOWEST]
    if values.ndim == 4:
        values = np.ascontiguousarray(values.transpose(TO_NHWC))
    slot = Slot(builder.title(place), values.shape, "int8", np.array([scale], np.float32))
    number = builder.add(slot)
    builder.steps.append(Constant(builder.name(node), (), (number,), values))
    return number


def split(builder: Builder, node: Node) -> None:
    """Parts of an axis, one behind the other, as long as the file says.

    Raises:
        NoFormError: no lengths, for which Tengine gives every output the shape of the input; other ones than
            the outputs have; the way of Caffe, which copies everything to each.
    """
    (axis,) = whole(node, "axis")
    source, name = builder.number(node.inputs[0]), builder.name(node)
    shape = builder.slots[source].shape
    rank, lengths = len(shape), node.options["split_sizes"]
    if not 0 <= axis < rank or node.options["is_caffe"]:
        raise NoFormError(f"it splits axis {axis} of {rank}, or in the way of Caffe, which copies all")
    found = tuple(builder.tensor(place).shape[axis] for place in node.outputs)
    if lengths != found:
        raise NoFormError(f"its lengths are {lengths}, those of its outputs {found}")
    along = TO_NHWC.index(axis) if rank == 4 else axis
    start = 0
    for place in node.outputs:
        part = stored(builder.tensor(place).shape)
        if len(part) != rank or start + part[along] > shape[along]:
            raise NoFormError(f"its output is {list(builder.tensor(place).shape)}")
        firsts = tuple(start if other == along else 0 for other in range(rank))
        wanted = tuple(part[along] if other == along else size for other, size in enumerate(shape))
        target = builder.between(builder.slots[source], wanted, "part")
        builder.steps.append(Slice(name, (source,), (target,), firsts, (1,) * rank))
        if source in builder.full:
            builder.full.add(target)
        builder.same(node, target, place)
        start += part[along]


def interp(builder: Builder, node: Node) -> None:
    """The nearest pixel before: ``int(float32(i) / scale)``."""
    (kind,) = whole(node, "type")
    if kind != NEAREST:
        raise NoFormError(f"its type {kind} interpolates, which has no integer form here")
    x, place = builder.image(node.inputs[0]), node.outputs[0]
    rows, columns = _pixels(builder, place)
    scales = [number(node, "height_scale"), number(node, "width_scale")]
    if not all(scales):
        scales = [rows / x.shape[1], columns / x.shape[2]]
    picks = [
        _places(np.arange(count).astype(np.float32) / np.float32(scale), size)
        for count, scale, size in zip((rows, columns), scales, x.shape[1:3], strict=True)
    ]
    _picked(builder, node, picks)


def resize(builder: Builder, node: Node) -> None:
    """The nearest pixel before: ``int(float32(i)·fl(1 / scale))``, the last one at most."""
    (kind,) = whole(node, "type")
    x, place = builder.image(node.inputs[0]), node.outputs[0]
    if kind != 0 or x.shape[0] != 1:
        raise NoFormError(
            f"its type is {kind}, for {x.shape[0]} images; Tengine computes type 0 of one image"
        )
    with np.errstate(divide="ignore"):
        inverse = [np.float32(1) / np.float32(number(node, name)) for name in ("scale_y", "scale_x")]
    picks = [
        np.minimum(_places(np.arange(count).astype(np.float32) * scale, 1 << 30), size - 1).astype(np.int32)
        for count, scale, size in zip(_pixels(builder, place), inverse, x.shape[1:3], strict=True)
    ]
    _picked(builder, node, picks)


def _pixels(builder: Builder, place: int) -> tuple[int, int]:
    shape = builder.tensor(place).shape
    if len(shape) != 4:
        raise NoFormError(f"its output has the shape {list(shape)}")
    if max(shape[2:]) > MOST_PIXELS:
        raise NoFormError(f"its output has {max(shape[2:])} rows or columns, more than {MOST_PIXELS}")
    return shape[2], shape[3]


def _places(values: npt.NDArray[np.float32], size: int) -> I32:
    """Whole parts; those of places beside the image are refused."""
    with np.errstate(invalid="ignore"):
        places: Ints = np.where(np.isfinite(values), values, -1).astype(np.int64)
    if places.min(initial=0) < 0 or places.max(initial=0) >= size:
        raise NoFormError("it reads beside its image")
    return places.astype(np.int32)


def _picked(builder: Builder, node: Node, picks: list[I32]) -> None:
    name, source = builder.name(node), builder.number(node.inputs[0])
    picked = builder.gather(name, builder.gather(name, source, 1, picks[0]), 2, picks[1])
    _rescaled(builder, node, picked)
