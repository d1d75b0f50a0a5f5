"""Kernels over the joined frames of a volume, which read these frames where they lie.

    frames [M, H, W, C] → rows [M·H, W, C] → Gather → [N, H·k, W, C] → Conv     →     FramesConv of frames

Row h·k + j of image n is row h of frame first[n] + j·step, so a tap in row r·k + j of the kernel lies r rows
and j·step frames from the first one: a step has the place of every tap anyway, and nothing is moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.engine.volumes import without_unread_moves
from calib8.program import instructions as op
from calib8.program.program import Program, Slot

Places = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class FramesConv(op.Conv):
    """Conv over ``depth`` frames, each with every ``depth``-th row of the kernel.

    Strides, pads and dilations are those of one frame.

    Attributes:
        depth: frames that a kernel reads, ≥ 1; divides its rows.
        first: int32 [images of the output], the first frame of each.
        step: from one of its frames to the next.
    """

    depth: int
    first: Places
    step: int


@dataclass(frozen=True, eq=False)
class FramesDepthwise(op.DepthwiseConv):
    """DepthwiseConv over ``depth`` frames, as ``FramesConv``."""

    depth: int
    first: Places
    step: int


FRAMES: Final = (FramesConv, FramesDepthwise)


def depth_of(step: op.Instruction) -> int:
    """Frames that a kernel reads: 1 of images."""
    return step.depth if isinstance(step, FRAMES) else 1


def runs(first: Places) -> Iterator[tuple[int, range]]:
    """Output images whose first frames are equally far apart: where they begin, and these frames."""
    begin = 0
    while begin < first.size:
        pace = int(first[begin + 1] - first[begin]) if begin + 1 < first.size else 1
        end = begin + 1
        while pace > 0 and end < first.size and first[end] - first[end - 1] == pace:
            end += 1
        yield begin, range(int(first[begin]), int(first[begin]) + (end - begin) * max(pace, 1), max(pace, 1))
        begin = end


def without_joins(program: Program) -> Program:
    """The program with layers that read the frames of volumes where those lie."""
    if not any(isinstance(step, op.Gather) for step in program.instructions):
        return program
    writer = {slot: step for step in program.instructions for slot in step.outputs}
    slots, steps = list(program.slots), list[op.Instruction]()
    for step in program.instructions:
        found = _frames_read(step, writer, slots) if type(step) in (op.Conv, op.DepthwiseConv) else None
        if found is None:
            steps.append(step)
            continue
        source, images = found.source, slots[found.source]
        if images.shape != found.shape:
            slots.append(replace(images, name=f"{images.name} as frames", shape=found.shape))
            source = len(slots) - 1
            steps.append(op.Reshape(step.name, (found.source,), (source,)))
        steps.append(_reading(step, found, source))
    return without_unread_moves(replace(program, slots=tuple(slots), instructions=tuple(steps)))


@dataclass(frozen=True, eq=False)
class _Frames:
    """Where a layer's joined frames come from.

    Attributes:
        source: slot of all frames, in any shape.
        shape: [frames, rows, columns, channels] of it.
        depth, first, step: as ``FramesConv`` has them.
    """

    source: int
    shape: tuple[int, ...]
    depth: int
    first: Places
    step: int


def _frames_read(
    layer: op.Instruction, writer: dict[int, op.Instruction], slots: list[Slot]
) -> _Frames | None:
    joined = layer.inputs[0]
    gather = _behind_reshapes(joined, writer)
    if not isinstance(gather, op.Gather) or gather.axis != 0:
        return None
    images, tall, *rest = slots[joined].shape
    [flat] = gather.inputs
    if len(slots[flat].shape) == 4 and slots[joined].shape[1:] == slots[flat].shape[1:]:
        return _Frames(flat, slots[flat].shape, 1, gather.indices, 0)
    if len(slots[flat].shape) != 3 or list(slots[flat].shape[1:]) != rest:
        return None
    before = writer.get(flat)
    source = before.inputs[0] if isinstance(before, op.Reshape) else flat
    rows = slots[source].shape[-3]
    if len(slots[source].shape) < 4 or list(slots[source].shape[-2:]) != rest or tall % rows:
        return None
    depth = tall // rows
    places = gather.indices.reshape(images, rows, depth)
    frames = places[:, 0] // rows
    step = int(frames[0, 1] - frames[0, 0]) if depth > 1 else 0
    wanted = (frames[:, :1] + np.arange(depth) * step)[:, None] * rows + np.arange(rows)[None, :, None]
    if not np.array_equal(places, wanted) or not _divides(layer, depth):
        return None
    shape = (math.prod(slots[source].shape[:-3]), rows, *rest)
    return _Frames(source, shape, depth, np.ascontiguousarray(frames[:, 0]), step)


def _behind_reshapes(slot: int, writer: dict[int, op.Instruction]) -> op.Instruction | None:
    """What writes a slot, Reshapes apart."""
    step = writer.get(slot)
    while isinstance(step, op.Reshape):
        step = writer.get(step.inputs[0])
    return step


def _divides(layer: op.Instruction, depth: int) -> bool:
    """Whether a kernel takes the rows of frames in turn."""
    assert isinstance(layer, op.Conv | op.DepthwiseConv)
    rows = layer.weight.shape[0 if isinstance(layer, op.DepthwiseConv) else 1]
    numbers = (rows, layer.strides[0], layer.pads[0], layer.pads[2])
    return layer.dilations[0] == 1 and not any(number % depth for number in numbers)


def _reading(layer: op.Instruction, frames: _Frames, source: int) -> op.Instruction:
    assert isinstance(layer, op.Conv | op.DepthwiseConv)
    kind = FramesDepthwise if isinstance(layer, op.DepthwiseConv) else FramesConv
    depth, (top, left, bottom, right) = frames.depth, layer.pads
    fields = vars(layer) | {
        "inputs": (source,),
        "strides": (layer.strides[0] // depth, layer.strides[1]),
        "pads": (top // depth, left, bottom // depth, right),
    }
    return kind(**fields, depth=depth, first=frames.first, step=frames.step)
