"""Chains of layers taken band by band, so that what one writes is still in the cache when the next reads it.

    expand → depthwise → project        rows 0 … 7 of all three, then rows 8 … 15 …

A band of the last layer needs rows of the one before up to

    rows(last) = min(height, (last − 1) · stride + (kernel − 1) · dilation + 1 − top)

and each layer goes on where it stopped, so nothing is computed twice and every bit is what it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from calib8.engine.fields import View
from calib8.engine.fuse import Work
from calib8.engine.steps import Conv, Depthwise, Step
from calib8.program import instructions as op
from calib8.program.program import Program

LAYERS: Final = (op.Conv, op.DepthwiseConv)

SMALLEST_BYTES: Final = 1 << 18
"""Tensors between layers from which on bands pay: smaller ones stay in the second-level cache anyway."""

BAND_BYTES: Final = 1 << 17
"""What the layers of a chain write per band."""


@dataclass(frozen=True)
class Rows:
    """How the rows of a layer depend on those of its input.

    Attributes:
        height: rows of its output.
        reach: (kernel − 1) · dilation + 1 − top: rows of the input, from the first row of a window on.
        stride: rows of the input from one row of the output to the next.
        bytes: of a row of its output.
    """

    height: int
    reach: int
    stride: int
    bytes: int


def chains(program: Program, works: Sequence[Work]) -> list[list[Work]]:
    """The works in order, those together that are to be taken band by band."""
    groups: list[list[Work]] = []
    for work in works:
        if groups and _follows(work, groups[-1], program):
            groups[-1].append(work)
        else:
            groups.append([work])
    return groups


def _follows(work: Work, group: Sequence[Work], program: Program) -> bool:
    """Both are layers that write codes, one reads the other, and much lies between them."""
    before = group[-1]
    if not (isinstance(work.instruction, LAYERS) and isinstance(before.instruction, LAYERS)):
        return False
    slot = program.slots[before.output]
    residual_in_chain = work.residual in [member.output for member in group]
    if work.instruction.inputs[0] != before.output or residual_in_chain:
        return False
    _, rows, columns, channels = slot.shape
    return slot.is_codes and rows > 1 and rows * columns * channels >= SMALLEST_BYTES


def rows_of(work: Work, program: Program) -> Rows:
    """Geometry of a layer."""
    step = work.instruction
    assert isinstance(step, op.Conv | op.DepthwiseConv)
    kernel = step.weight.shape[0] if isinstance(step, op.DepthwiseConv) else step.weight.shape[1]
    _, height, columns, channels = program.slots[work.output].shape
    reach = (kernel - 1) * step.dilations[0] + 1 - step.pads[0]
    return Rows(height, reach, step.strides[0], columns * channels)


def banded(steps: Sequence[Step], geometry: Sequence[Rows]) -> Iterator[tuple[int, Step]]:
    """The steps of a chain cut into bands, each with its place in the chain."""
    first = steps[0]
    assert isinstance(first, Conv | Depthwise)
    for image in range(first.output.images):
        done = [0] * len(steps)
        for ends in _band_ends(geometry):
            for place, (step, end) in enumerate(zip(steps, ends, strict=True)):
                if end > done[place]:
                    yield place, _part(step, image, done[place], end)
                    done[place] = end


def _band_ends(geometry: Sequence[Rows]) -> Iterator[list[int]]:
    """Per band: up to which row each layer is computed."""
    last = geometry[-1]
    per_row, scale = 0.0, 1.0
    for rows in reversed(geometry):
        per_row += rows.bytes * scale
        scale *= rows.stride
    size = max(1, int(BAND_BYTES / per_row))
    count = -(-last.height // size)
    for band in range(count):
        if band == count - 1:
            yield [rows.height for rows in geometry]
            return
        ends = [last.height * (band + 1) // count]
        for reader, rows in zip(geometry[:0:-1], geometry[-2::-1], strict=True):
            needed = (ends[0] - 1) * reader.stride + reader.reach
            ends.insert(0, max(0, min(rows.height, needed)))
        yield ends


def _part(step: Step, image: int, first: int, last: int) -> Step:
    """Rows first … last − 1 of one image."""
    assert isinstance(step, Conv | Depthwise)
    source = _moved(step.input, image, first * step.row_step)
    target = replace(_moved(step.output, image, first), images=1, rows=last - first)
    if isinstance(step, Depthwise):
        return replace(step, input=source, output=target)
    residual = step.residual
    if step.sum.kind:
        residual = replace(_moved(residual, image, first), images=1, rows=last - first)
    return replace(step, input=source, output=target, residual=residual)


def _moved(view: View, image: int, row: int) -> View:
    """The view from a row of an image on; codes are bytes."""
    return replace(view, offset=view.offset + image * view.image_stride + row * view.row_stride)
