"""What only moves codes: Concat, Pad, Transpose, Reshape, Slice, Gather, nearest Resize, ports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calib8.engine import steps
from calib8.engine.emitter import Emitter
from calib8.engine.fields import NONE, Axes
from calib8.engine.fuse import Work
from calib8.program.instructions import Transpose


def six(values: Sequence[int], fill: int) -> Axes:
    """Per axis, filled up at the front to six axes."""
    a, b, c, d, e, f = [fill] * (6 - len(values)) + [int(value) for value in values]
    return a, b, c, d, e, f


def dense_strides(shape: Sequence[int]) -> list[int]:
    """Elements from one index to the next of a tensor without gaps."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


def emit_port_copy(buffer: int, number: int, out: Emitter, *, inwards: bool) -> None:
    """Between a caller's buffer and the slot of the port: int8 codes change by 128."""
    slot = out.slot(number)
    port, inside = (buffer, 0), out.place(number)
    port_strides, strides = dense_strides(slot.shape), out.strides(number)
    source, target = (port, inside) if inwards else (inside, port)
    source_strides, target_strides = (port_strides, strides) if inwards else (strides, port_strides)
    step = steps.Copy(
        source_buffer=source[0],
        source_offset=source[1],
        target_buffer=target[0],
        target_offset=target[1],
        element_size=np.dtype(slot.dtype).itemsize,
        sizes=six(slot.shape, 1),
        source_strides=six(source_strides, 0),
        target_strides=six(target_strides, 0),
        gather_axis=NONE,
        indices=NONE,
        exclusive_or=out.shift(number),
    )
    out.add(step, None, name=f"{'input' if inwards else 'output'} {slot.name}")


def emit_transpose(work: Work, out: Emitter) -> None:
    """A Copy with the strides of the source in another order."""
    step = work.instruction
    assert isinstance(step, Transpose)
    source, target = out.place(step.inputs[0]), out.place(work.output)
    strides = out.strides(step.inputs[0])
    out.add(
        steps.Copy(
            source_buffer=source[0],
            source_offset=source[1],
            target_buffer=target[0],
            target_offset=target[1],
            element_size=out.item_size(work.output),
            sizes=six(out.slot(work.output).shape, 1),
            source_strides=six([strides[axis] for axis in step.axes], 0),
            target_strides=six(out.strides(work.output), 0),
            gather_axis=NONE,
            indices=NONE,
            exclusive_or=0,
        ),
        work,
    )


def emit_concat(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_resize_nearest(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_pad(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_reshape(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_slice(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_gather(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)
