"""What only moves codes: Concat, Pad, Transpose, Reshape, Slice, Gather, nearest Resize, ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.engine import steps
from calib8.engine.emit.loops import SOURCE, TARGET, Loop, Nest, Table, nests
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fields import CONSTANTS
from calib8.engine.fuse import Work
from calib8.engine.layout import dense_strides
from calib8.engine.links import pads_images
from calib8.program.instructions import (
    Concat,
    Constant,
    Gather,
    Pad,
    Reshape,
    ResizeNearest,
    Slice,
    Transpose,
)


@dataclass(frozen=True)
class Place:
    """Where a tensor lies.

    Attributes:
        buffer, offset: its first element, in bytes.
        strides: bytes from one index to the next, one per axis.
    """

    buffer: int
    offset: int
    strides: tuple[int, ...]

    def at(self, axis: int, index: int) -> Place:
        """The part that begins with an index of an axis."""
        return replace(self, offset=self.offset + index * self.strides[axis])


def place_of(number: int, out: Emitter) -> Place:
    """Where a slot lies."""
    item = out.item_size(number)
    return Place(*out.place(number), tuple(stride * item for stride in out.strides(number)))


def emit_copy(
    out: Emitter,
    name: str,
    source: Place,
    target: Place,
    sizes: Sequence[int],
    item: int,
    tables: Sequence[Table | None] = (),
    exclusive_or: int = 0,
) -> None:
    """The Copy steps of a move.

    Args:
        out: the plan.
        name: of the steps.
        source, target: with strides for the axes of the target.
        sizes: of the target.
        item: bytes per element.
        tables: per axis, source bytes per index where a stride does not say it; none by default.
        exclusive_or: of every byte.
    """
    loops = [
        Loop(size, (stride if table is None else 0, to), table)
        for size, stride, to, table in zip(
            sizes, source.strides, target.strides, tables or [None] * len(sizes), strict=True
        )
    ]
    for nest in nests(loops, tensors=2):
        run = item
        if nest.loops and nest.loops[-1].table is None and nest.loops[-1].strides == (item, item):
            run = nest.loops[-1].size * item
            nest = Nest(nest.starts, nest.loops[:-1])
        step = steps.Copy(
            source_buffer=source.buffer,
            source_offset=source.offset + nest.starts[SOURCE],
            target_buffer=target.buffer,
            target_offset=target.offset + nest.starts[TARGET],
            run=run,
            sizes=nest.sizes,
            source_strides=nest.strides(SOURCE),
            target_strides=nest.strides(TARGET),
            source_tables=nest.tables(out),
            exclusive_or=exclusive_or,
        )
        out.add(step, None, name=name)


def emit_port_copy(buffer: int, number: int, out: Emitter, *, inwards: bool) -> None:
    """Between a caller's buffer and the slot of the port: int8 codes change by 128."""
    slot, item = out.slot(number), out.item_size(number)
    port = Place(buffer, 0, tuple(stride * item for stride in dense_strides(slot.shape)))
    source, target = (port, place_of(number, out)) if inwards else (place_of(number, out), port)
    name = f"{'input' if inwards else 'output'} {slot.name}"
    emit_copy(out, name, source, target, slot.shape, item, exclusive_or=out.shift(number))


def stored_constant(work: Work, out: Emitter) -> int:
    """Byte offset of the codes of a Constant among the constants of the plan."""
    step = work.instruction
    assert isinstance(step, Constant)
    stored = np.ascontiguousarray(step.values).reshape(-1).view(np.uint8)
    return out.constant(stored ^ np.uint8(out.shift(work.output)))


def emit_constant(work: Work, out: Emitter) -> None:
    """A Copy from the constants, if the tensor does not lie there."""
    target = place_of(work.output, out)
    if target.buffer != CONSTANTS:
        shape, item = out.slot(work.output).shape, out.item_size(work.output)
        strides = tuple(stride * item for stride in dense_strides(shape))
        source = Place(CONSTANTS, stored_constant(work, out), strides)
        emit_copy(out, work.name, source, target, shape, item)


def emit_transpose(work: Work, out: Emitter) -> None:
    """A Copy with the strides of the source in another order."""
    step = work.instruction
    assert isinstance(step, Transpose)
    source = place_of(step.inputs[0], out)
    source = replace(source, strides=tuple(source.strides[axis] for axis in step.axes))
    _emit_whole(work, out, source)


def emit_concat(work: Work, out: Emitter) -> None:
    """A Copy per operand that does not lie in the output already."""
    step = work.instruction
    assert isinstance(step, Concat)
    target, index = place_of(work.output, out), 0
    for number in step.inputs:
        shape = out.slot(number).shape
        source, part = place_of(number, out), target.at(step.axis, index)
        if source != part:
            emit_copy(out, work.name, source, part, shape, out.item_size(number))
        index += shape[step.axis]


def emit_resize_nearest(work: Work, out: Emitter) -> None:
    """A Copy with tables for rows and columns."""
    step = work.instruction
    assert isinstance(step, ResizeNearest)
    _emit_whole(work, out, place_of(step.inputs[0], out), {1: step.rows, 2: step.columns})


def emit_gather(work: Work, out: Emitter) -> None:
    """A Copy with a table for one axis."""
    step = work.instruction
    assert isinstance(step, Gather)
    _emit_whole(work, out, place_of(step.inputs[0], out), {step.axis: step.indices})


def emit_slice(work: Work, out: Emitter) -> None:
    """A Copy that begins and steps elsewhere in the source."""
    step = work.instruction
    assert isinstance(step, Slice)
    source = place_of(step.inputs[0], out)
    for axis, start in enumerate(step.starts):
        source = source.at(axis, start)
    strides = tuple(stride * pace for stride, pace in zip(source.strides, step.steps, strict=True))
    _emit_whole(work, out, replace(source, strides=strides))


def emit_reshape(work: Work, out: Emitter) -> None:
    """Nothing where both share their storage, else a Copy; one of the two has no gaps."""
    number = work.inputs[0]
    if out.layouts[number].root == out.layouts[work.output].root:
        return
    item = out.item_size(number)
    source, target = place_of(number, out), place_of(work.output, out)
    shape, new = out.slot(number).shape, out.slot(work.output).shape
    dense = tuple(stride * item for stride in dense_strides(shape))
    dense_new = tuple(stride * item for stride in dense_strides(new))
    if source.strides == dense:
        source, shape = replace(source, strides=dense_new), new
    else:
        assert target.strides == dense_new
        target = replace(target, strides=dense)
    emit_copy(out, work.name, source, target, shape, item)


def emit_pad(work: Work, out: Emitter) -> None:
    """The input copied into the middle; around it a border, or slabs of one code where other axes grow."""
    step = work.instruction
    assert isinstance(step, Pad)
    item, number = out.item_size(work.output), step.inputs[0]
    inside, whole = out.slot(number).shape, out.slot(work.output).shape
    middle = place_of(work.output, out)
    for axis, before in enumerate(step.before):
        middle = middle.at(axis, before)
    if place_of(number, out) != middle:
        emit_copy(out, work.name, place_of(number, out), middle, inside, item)
    if pads_images(step):
        _fill_images(work, out, step)
        return
    if item == 1 and len(whole) == 4 and step.before[::3] == step.after[::3] == (0, 0):
        view = replace(out.view(work.output), offset=middle.offset, rows=inside[1], columns=inside[2])
        (top, left), (bottom, right) = step.before[1:3], step.after[1:3]
        out.add(steps.FillHalo(view, top, left, bottom, right, step.value + out.shift(number)), work)
        return
    value = np.array([step.value + out.shift(number)], np.uint8 if item == 1 else np.int16)
    one = Place(CONSTANTS, out.constant(value), (0,) * len(whole))
    # along an axis: all of the output where no axis before it is padded, the middle of those that are
    corner, sizes = place_of(work.output, out), list(whole)
    for axis, (before, after) in enumerate(zip(step.before, step.after, strict=True)):
        ends = ((0, before), (before + inside[axis], after))
        for first, count in ends:
            if count:
                slab = [*sizes[:axis], count, *sizes[axis + 1 :]]
                emit_copy(out, work.name, one, corner.at(axis, first), slab, item)
        corner, sizes[axis] = corner.at(axis, before), inside[axis]


def _fill_images(work: Work, out: Emitter, step: Pad) -> None:
    """The images before and behind the others, borders included: rows above and below one tall image."""
    view, item = out.view(work.output), out.item_size(work.output)
    top, left, _, _ = out.layouts[work.output].halo
    lines = view.image_stride // view.row_stride
    first = step.before[0] * view.image_stride - top * view.row_stride - left * view.column_stride
    tall = replace(
        view,
        offset=view.offset + first * item,
        images=1,
        rows=out.slot(step.inputs[0]).shape[0] * lines,
        columns=view.row_stride // view.column_stride,
    )
    above, below = (count * lines for count in (step.before[0], step.after[0]))
    border = steps.FillHalo(tall, above, 0, below, 0, step.value + out.shift(work.output))
    out.add(border if item == 1 else steps.WideFillHalo(border), work)


def _emit_whole(
    work: Work, out: Emitter, source: Place, indices: dict[int, npt.NDArray[np.int32]] | None = None
) -> None:
    """A Copy that writes all of the output; some axes of the source through indices."""
    tables: list[Table | None] = [None] * len(source.strides)
    for axis, picked in (indices or {}).items():
        tables[axis] = picked.astype(np.int64) * source.strides[axis]
    sizes, item = out.slot(work.output).shape, out.item_size(work.output)
    emit_copy(out, work.name, source, place_of(work.output, out), sizes, item, tables)


EMIT: Final[Emits] = {
    Constant: emit_constant,
    Concat: emit_concat,
    ResizeNearest: emit_resize_nearest,
    Pad: emit_pad,
    Transpose: emit_transpose,
    Reshape: emit_reshape,
    Slice: emit_slice,
    Gather: emit_gather,
}
