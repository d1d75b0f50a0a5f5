"""What gives codes other places or shapes: RESHAPE, TRANSPOSE, PACK, SPACE_TO_DEPTH and their like."""

from __future__ import annotations

import math

from calib8.errors import NoFormError
from calib8.program.instructions import Concat
from calib8.program.lower_tflite.builder import Builder
from calib8.program.lower_tflite.chain import (
    Chain,
    axis_of,
    chain_from,
    integers,
    move,
    option,
    write,
)
from calib8.program.lower_tflite.constants import written
from calib8.program.program import Slot
from calib8.tflite.graph import Operator


def reshape(builder: Builder, operator: Operator) -> None:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the same elements in the same order; the output says the shape."""
    shape = builder.tensor(operator.outputs[0]).shape
    move(builder, operator, chain_from(builder, operator.inputs[0]).reshape(shape))


def transpose(builder: Builder, operator: Operator) -> None:
    """TRANSPOSE by a constant permutation; negative axes count from the end."""
    chain = chain_from(builder, operator.inputs[0])
    axes = integers(builder, operator.inputs[1])
    move(builder, operator, chain.transpose([axis_of(axis, len(chain.shape)) for axis in axes]))


def pack(builder: Builder, operator: Operator) -> None:
    """PACK: tensors of one shape side by side along a new axis."""
    target = builder.number(operator.outputs[0])
    slot = builder.slots[target]
    axis = axis_of(option(operator, "axis"), len(slot.shape))
    source = next((place for place in operator.inputs if not builder.is_constant(place)), None)
    if source is None:
        raise NoFormError("all of its inputs are constant")
    for place in operator.inputs:
        written(builder, place)
    parts = [_layer(builder, operator, place, axis, target) for place in operator.inputs]
    if len(parts) != slot.shape[axis]:
        raise NoFormError(f"it packs {len(parts)} tensors into {slot.shape[axis]}")
    builder.steps.append(Concat(builder.name(operator), tuple(parts), (target,), axis))


def _layer(builder: Builder, operator: Operator, place: int, axis: int, target: int) -> int:
    """An input of PACK with the new axis, and with the meaning of the output's codes."""
    chain, slot = chain_from(builder, place), builder.slots[target]
    chain = chain.reshape((*chain.shape[:axis], 1, *chain.shape[axis:]))
    name = f"{slot.name}/layer{len(builder.slots)}"
    layer = builder.add(Slot(name, chain.shape, slot.dtype, slot.scales, slot.zero_point))
    write(builder, operator, builder.number(place), chain, layer)
    return layer


def unpack(builder: Builder, operator: Operator) -> None:
    """UNPACK: every index of an axis becomes a tensor without that axis."""
    chain = chain_from(builder, operator.inputs[0])
    axis = axis_of(option(operator, "axis"), len(chain.shape))
    if len(operator.outputs) != chain.shape[axis]:
        raise NoFormError(f"it unpacks {chain.shape[axis]} into {len(operator.outputs)} tensors")
    for index, output in enumerate(operator.outputs):
        part = part_of(chain, axis, index, 1)
        flat = part.reshape((*chain.shape[:axis], *chain.shape[axis + 1 :]))
        write(builder, operator, builder.number(operator.inputs[0]), flat, builder.number(output))


def part_of(chain: Chain, axis: int, first: int, count: int) -> Chain:
    """A run of indices of one axis."""
    rank = len(chain.shape)
    starts = [first if place == axis else 0 for place in range(rank)]
    counts = [count if place == axis else size for place, size in enumerate(chain.shape)]
    return chain.slice(starts, [1] * rank, counts)


def space_to_depth(builder: Builder, operator: Operator) -> None:
    """Blocks of pixels become channels: rows, columns, channels of a block in this order."""
    chain = chain_from(builder, operator.inputs[0])
    size = _block_size(operator)
    batch, rows, columns, channels = _image(chain)
    if rows % size or columns % size:
        raise NoFormError(f"blocks of {size} do not divide {rows}×{columns} pixels")
    blocks = (batch, rows // size, size, columns // size, size, channels)
    moved = chain.reshape(blocks).transpose((0, 1, 3, 2, 4, 5))
    move(
        builder,
        operator,
        moved.reshape((batch, rows // size, columns // size, size * size * channels)),
    )


def depth_to_space(builder: Builder, operator: Operator) -> None:
    """Channels become blocks of pixels: SPACE_TO_DEPTH backwards."""
    chain = chain_from(builder, operator.inputs[0])
    size = _block_size(operator)
    batch, rows, columns, channels = _image(chain)
    if channels % (size * size):
        raise NoFormError(f"blocks of {size}×{size} pixels do not divide {channels} channels")
    depth = channels // (size * size)
    moved = chain.reshape((batch, rows, columns, size, size, depth)).transpose((0, 1, 3, 2, 4, 5))
    move(builder, operator, moved.reshape((batch, rows * size, columns * size, depth)))


def _block_size(operator: Operator) -> int:
    size = option(operator, "block_size")
    if size < 1:
        raise NoFormError(f"its block_size is {size}")
    return size


def _image(chain: Chain) -> tuple[int, int, int, int]:
    if len(chain.shape) != 4:
        raise NoFormError(f"it reads {list(chain.shape)}, where images are of rank 4")
    batch, rows, columns, channels = chain.shape
    return batch, rows, columns, channels


def space_to_batch(builder: Builder, operator: Operator) -> None:
    """SPACE_TO_BATCH_ND: borders of real 0, then every place of a block becomes a batch of its own."""
    blocks, before, after = _blocks(builder, operator)
    chain, output = chain_from(builder, operator.inputs[0]), builder.codes(operator.outputs[0])
    builder.codes(operator.inputs[0])
    rest = len(chain.shape) - len(blocks) - 1
    if rest < 0:
        raise NoFormError(f"it has {len(blocks)} block sizes for {list(chain.shape)}")
    if any(before) or any(after):
        chain = chain.pad((0, *before, *[0] * rest), (0, *after, *[0] * rest), output.zero_point)
    batch, *sizes = chain.shape
    places = range(len(blocks))
    if any(sizes[place] % blocks[place] for place in places):
        raise NoFormError(f"blocks of {list(blocks)} do not divide {list(chain.shape)}")
    split = [part for place in places for part in (sizes[place] // blocks[place], blocks[place])]
    tail = range(1 + 2 * len(blocks), 1 + 2 * len(blocks) + rest)
    order = (*(2 + 2 * place for place in places), 0, *(1 + 2 * place for place in places), *tail)
    moved = chain.reshape((batch, *split, *sizes[len(blocks) :])).transpose(order)
    outer = [sizes[place] // blocks[place] for place in places]
    move(
        builder,
        operator,
        moved.reshape((batch * math.prod(blocks), *outer, *sizes[len(blocks) :])),
    )


def batch_to_space(builder: Builder, operator: Operator) -> None:
    """BATCH_TO_SPACE_ND: batches become places of blocks, then the borders are cut off."""
    blocks, before, after = _blocks(builder, operator)
    chain = chain_from(builder, operator.inputs[0])
    batch, *sizes = chain.shape
    places, count = range(len(blocks)), math.prod(blocks)
    rest = len(sizes) - len(blocks)
    if rest < 0 or batch % count:
        raise NoFormError(f"it has blocks of {list(blocks)} for {list(chain.shape)}")
    order: list[int] = [len(blocks)]
    for place in places:
        order += [len(blocks) + 1 + place, place]
    order += range(1 + 2 * len(blocks), 1 + 2 * len(blocks) + rest)
    moved = chain.reshape((*blocks, batch // count, *sizes)).transpose(order)
    whole = [sizes[place] * blocks[place] for place in places]
    chain = moved.reshape((batch // count, *whole, *sizes[len(blocks) :]))
    counts = [whole[place] - before[place] - after[place] for place in places]
    starts = (0, *before, *[0] * rest)
    ends = (batch // count, *counts, *sizes[len(blocks) :])
    move(builder, operator, chain.slice(starts, [1] * len(starts), ends))


def _blocks(builder: Builder, operator: Operator) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Block sizes, and borders before and after, an entry per axis.

    Raises:
        NoFormError: they are computed, or do not fit each other.
    """
    blocks, borders = (integers(builder, place) for place in operator.inputs[1:3])
    if not blocks or len(borders) != 2 * len(blocks) or min(blocks) < 1:
        raise NoFormError(f"it has block sizes {list(blocks)} and borders {list(borders)}")
    return blocks, borders[::2], borders[1::2]


def tile(builder: Builder, operator: Operator) -> None:
    """TILE: every axis a constant number of times."""
    chain, times = chain_from(builder, operator.inputs[0]), integers(builder, operator.inputs[1])
    if len(times) != len(chain.shape):
        raise NoFormError(f"it repeats {list(chain.shape)} by {list(times)}")
    for axis, count in enumerate(times):
        chain = chain.repeat(builder, axis, count)
    move(builder, operator, chain)


def broadcast_to(builder: Builder, operator: Operator) -> None:
    """BROADCAST_TO the shape of the output."""
    shape = builder.tensor(operator.outputs[0]).shape
    move(builder, operator, chain_from(builder, operator.inputs[0]).broadcast(builder, shape))
