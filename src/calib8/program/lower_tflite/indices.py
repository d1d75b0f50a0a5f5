"""What picks elements by constant indices, and ARG_MAX and ARG_MIN, which find one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.program.instructions import ArgMax, ArgMin
from calib8.program.lower_tflite.builder import Builder
from calib8.program.lower_tflite.chain import Chain, axis_of, chain_from, integers, move, option, write
from calib8.program.lower_tflite.moves import part_of
from calib8.tflite.graph import Operator


def take_slice(builder: Builder, operator: Operator) -> None:
    """SLICE: a box of constant begin and size; size −1 goes to the end."""
    chain = chain_from(builder, operator.inputs[0])
    begins, sizes = (integers(builder, place) for place in operator.inputs[1:3])
    if not len(begins) == len(sizes) == len(chain.shape):
        raise NoFormError(f"it takes {list(sizes)} from {list(begins)} of {list(chain.shape)}")
    counts = [
        whole - begin if size == -1 else size
        for begin, size, whole in zip(begins, sizes, chain.shape, strict=True)
    ]
    move(builder, operator, chain.slice(begins, [1] * len(counts), counts))


@dataclass
class Selection:
    """A strided slice, axis by axis of the input.

    Attributes:
        starts, steps, counts: of every axis.
        shape: of the result: axes that are picked out are gone, new ones are there.
    """

    starts: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    shape: list[int] = field(default_factory=list)

    def add(self, start: int, step: int, count: int) -> None:
        """A further axis that stays."""
        self.starts.append(start)
        self.steps.append(step)
        self.counts.append(count)
        self.shape.append(count)


def strided_slice(builder: Builder, operator: Operator) -> None:
    """STRIDED_SLICE with all its masks: begin, end, ellipsis, new axis, shrink axis."""
    chain = chain_from(builder, operator.inputs[0])
    begins, ends, strides = (integers(builder, place) for place in operator.inputs[1:4])
    if not len(begins) == len(ends) == len(strides):
        raise NoFormError(f"it has {len(begins)} begins, {len(ends)} ends and {len(strides)} strides")
    if operator.options.get("offset"):  # LiteRT reads beyond the tensor with them
        raise NoFormError("its ends are counted from its begins")
    selection = _selection(operator, chain.shape, begins, ends, strides)
    moved = chain.slice(selection.starts, selection.steps, selection.counts)
    move(builder, operator, moved.reshape(selection.shape))


def _selection(
    operator: Operator,
    shape: Sequence[int],
    begins: Sequence[int],
    ends: Sequence[int],
    strides: Sequence[int],
) -> Selection:
    """What the entries of the operator mean for the axes of its input."""
    masks = {name: option(operator, f"{name}_mask") for name in ("ellipsis", "new_axis", "shrink_axis")}
    places = range(len(begins))
    added = sum(masks["new_axis"] >> place & 1 for place in places if not masks["ellipsis"] >> place & 1)
    selection, axis = Selection(), 0
    for place in places:
        if masks["ellipsis"] >> place & 1:
            covered = len(shape) - (len(begins) - 1 - added)
            if covered < 1:  # LiteRT lets it cover one all the same
                raise NoFormError("its ellipsis stands for no axis")
            for _ in range(covered):
                selection.add(0, 1, shape[axis])
                axis += 1
        elif masks["new_axis"] >> place & 1:
            selection.shape.append(1)
        elif axis == len(shape):
            raise NoFormError(f"it slices more axes than {list(shape)} has")
        else:
            _take(selection, operator, place, shape[axis], (begins[place], ends[place], strides[place]))
            axis += 1
    for size in shape[axis:]:
        selection.add(0, 1, size)
    return selection


def _take(
    selection: Selection, operator: Operator, place: int, size: int, entry: tuple[int, int, int]
) -> None:
    """One axis by its entry (begin, end, stride), which NumPy's rules bring into the axis."""
    begin, end, stride = entry
    if option(operator, "shrink_axis_mask") >> place & 1:
        if stride < 1:  # LiteRT returns memory that nobody wrote
            raise NoFormError(f"it picks one index with a stride of {stride}")
        if not -size <= begin < size:
            raise NoFormError(f"it picks index {begin} of an axis of {size}")
        free = option(operator, "begin_mask") >> place & 1
        selection.add(0 if free else begin % size, 1, 1)
        selection.shape.pop()
        return
    if stride == 0:
        raise NoFormError("it has a stride of 0")
    first = None if option(operator, "begin_mask") >> place & 1 else begin
    last = None if option(operator, "end_mask") >> place & 1 else end
    picked = range(size)[first:last:stride]
    if not picked:
        raise NoFormError(f"it takes nothing from an axis of {size}")
    selection.add(picked[0], stride, len(picked))


def split(builder: Builder, operator: Operator) -> None:
    """SPLIT: equal parts along a constant axis."""
    (axis,) = integers(builder, operator.inputs[0])
    place, count = operator.inputs[1], len(operator.outputs)
    size = chain_from(builder, place).shape[axis_of(axis, len(builder.tensor(place).shape))]
    if size % count:
        raise NoFormError(f"it splits {size} into {count} parts")
    _split(builder, operator, place, axis, [size // count] * count)


def split_v(builder: Builder, operator: Operator) -> None:
    """SPLIT_V: parts of constant sizes; one of −1 takes what is left."""
    place, sizes = operator.inputs[0], list(integers(builder, operator.inputs[1]))
    (axis,) = integers(builder, operator.inputs[2])
    whole = chain_from(builder, place).shape[axis_of(axis, len(builder.tensor(place).shape))]
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = whole - sum(sizes) - 1
    if sum(sizes) != whole or min(sizes) < 1 or len(sizes) != len(operator.outputs):
        raise NoFormError(f"it splits {whole} into {sizes}")
    _split(builder, operator, place, axis, sizes)


def _split(builder: Builder, operator: Operator, place: int, axis: int, sizes: Sequence[int]) -> None:
    chain, first = chain_from(builder, place), 0
    source = builder.number(place)
    for output, size in zip(operator.outputs, sizes, strict=True):
        part = part_of(chain, axis_of(axis, len(chain.shape)), first, size)
        write(builder, operator, source, part, builder.number(output))
        first += size


def gather(builder: Builder, operator: Operator) -> None:
    """GATHER: constant indices of any shape take the place of one axis."""
    chain, indices = chain_from(builder, operator.inputs[0]), integers(builder, operator.inputs[1])
    axis = axis_of(option(operator, "axis"), len(chain.shape))
    places = np.array(indices, np.int64).reshape(builder.tensor(operator.inputs[1]).shape)
    if option(operator, "batch_dims"):
        move(builder, operator, _by_batch(operator, chain, axis, places))
        return
    shape = (*chain.shape[:axis], *places.shape, *chain.shape[axis + 1 :])
    move(builder, operator, chain.gather(axis, places).reshape(shape))


def _by_batch(operator: Operator, chain: Chain, axis: int, places: npt.NDArray[np.int64]) -> Chain:
    """Indices of their own for every batch: the axis behind the batches, both as one.

    [batches, …, axis, …] → [batches · axis, …] → [batches, indices, …] → [batches, …, indices, …]
    """
    count, shape = option(operator, "batch_dims"), chain.shape
    count += places.ndim if count < 0 else 0
    if not 0 <= count <= min(axis, places.ndim) or places.shape[:count] != shape[:count]:
        raise NoFormError(f"it takes {list(places.shape)} by batch from axis {axis} of {list(shape)}")
    if places.size and not 0 <= places.min() <= places.max() < shape[axis]:
        raise NoFormError(f"its indices lie outside an axis of {shape[axis]}")
    between, batches = range(count, axis), math.prod(shape[:count])
    front = chain.transpose([*range(count), axis, *between, *range(axis + 1, len(shape))])
    rows = front.reshape((batches * shape[axis], *shape[count:axis], *shape[axis + 1 :]))
    each = places.reshape(batches, -1) + np.arange(batches)[:, None] * shape[axis]
    picked = rows.gather(0, each).reshape((*places.shape, *shape[count:axis], *shape[axis + 1 :]))
    inner = range(count, places.ndim)
    moved = range(places.ndim, places.ndim + len(between))
    rest = range(places.ndim + len(between), len(picked.shape))
    return picked.transpose([*range(count), *moved, *inner, *rest])


def gather_nd(builder: Builder, operator: Operator) -> None:
    """GATHER_ND: constant rows of indices; the axes that they name become one, and each row takes a part.

    [a, b, …rest] → [a·b, …rest] → [rows, …rest] → [shape of the rows, …rest]
    """
    chain, tensor = chain_from(builder, operator.inputs[0]), builder.tensor(operator.inputs[1])
    rows = np.array(integers(builder, operator.inputs[1]), np.int64).reshape(tensor.shape)
    depth, rank = (rows.shape or (0,))[-1], len(chain.shape)
    if not 1 <= depth <= rank:
        raise NoFormError(f"its rows of indices are {list(rows.shape)}, its input {list(chain.shape)}")
    named, rest = chain.shape[:depth], chain.shape[depth:]
    if rows.size and not ((rows >= 0) & (rows < np.array(named))).all():
        raise NoFormError(f"its indices lie outside {list(named)}")
    flat = rows.reshape(-1, depth) @ np.append(np.cumprod(named[:0:-1])[::-1], 1)
    parts = chain.reshape((math.prod(named), *rest)).gather(0, flat)
    move(builder, operator, parts.reshape((*rows.shape[:-1], *rest)))


def reverse(builder: Builder, operator: Operator) -> None:
    """REVERSE_V2: the elements along constant axes from the last to the first."""
    chain = chain_from(builder, operator.inputs[0])
    turned = {axis_of(axis, len(chain.shape)) for axis in integers(builder, operator.inputs[1])}
    starts = [size - 1 if axis in turned else 0 for axis, size in enumerate(chain.shape)]
    steps = [-1 if axis in turned else 1 for axis in range(len(chain.shape))]
    move(builder, operator, chain.slice(starts, steps, chain.shape))


def arg_extreme(builder: Builder, operator: Operator) -> None:
    """ARG_MAX or ARG_MIN along a constant axis: the first index among equals."""
    (axis,) = integers(builder, operator.inputs[1])
    x = builder.codes(operator.inputs[0])
    dtype, wanted = builder.tensor(operator.outputs[0]).dtype, str(operator.options["output_type"]).lower()
    if dtype != wanted:
        raise NoFormError(f"its output is {dtype}, its option output_type {wanted}")
    kind = ArgMax if operator.op == "ARG_MAX" else ArgMin
    builder.steps.append(
        kind(
            builder.name(operator),
            (builder.number(operator.inputs[0]),),
            (builder.number(operator.outputs[0]),),
            axis_of(axis, len(x.shape)),
            last=False,
        )
    )
