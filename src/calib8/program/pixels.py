"""Programs that take uint8 images: preprocessing and the input's quantizer become one table per channel.

    code = quantize(fl(fl(float32(pixel) − mean[c]) · scale[c]))        256 possible pixels, so exact

Images come as [N, H, W, C] with the channels in the model's order; a program that flattens an NCHW image gets
a Transpose behind the table. Where every table is the pixel itself
(scale of the input = 1 / scale, zero point = mean), pixels are the codes and nothing is left to compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.data.preprocess import Preprocess
from calib8.errors import UsageError
from calib8.program.instructions import (
    AveragePool,
    Conv,
    ConvTranspose,
    DepthwiseConv,
    Instruction,
    Lookup,
    MaxPool,
    Quantize,
    ResizeLinear,
    ResizeNearest,
    Transpose,
)
from calib8.program.ops.borders import quantize
from calib8.program.ops.operand import Operand
from calib8.program.program import Port, Program, Slot

CHANNELS_LAST: Final = (0, 1, 2, 3)
FROM_NCHW: Final = (0, 2, 3, 1)
"""Axis i of the pixels is this axis of an input NHWC or NCHW."""

ON_IMAGES: Final = (Conv, DepthwiseConv, ConvTranspose, MaxPool, AveragePool, ResizeNearest, ResizeLinear)
"""What these read has its channels last."""


def with_pixels(program: Program, preprocess: Preprocess, name: str | None = None) -> Program:
    """The program with an input of pixels in place of one of float32.

    Args:
        program: a verified program.
        preprocess: mean, scale and layout are used; resizing is the caller's.
        name: of the input; None where there is but one.

    Raises:
        UsageError: there is no such input, something else than a quantizer reads it, it is no image, its
            channels are not where the layout says, or mean and scale are for another number of them.
    """
    port = _port(program, name)
    quantizers = _quantizers(program, port)
    axes = _axes(program, port, quantizers, preprocess)
    shape = tuple(program.slots[port.slot].shape[axis] for axis in axes)
    slots = list(program.slots)
    slots[port.slot] = Slot(port.name, shape, "uint8", np.ones(1, np.float32))
    instructions: list[Instruction] = []
    for step in program.instructions:
        if not (isinstance(step, Quantize) and step in quantizers):
            instructions.append(step)
            continue
        target, output = slots[step.outputs[0]], step.outputs[0]
        if step.axes != axes:  # the program wants the codes in the model's layout
            output = len(slots)
            slots.append(replace(target, name=f"{port.name}/codes", shape=shape))
        table = _table(step, slots[output], preprocess)
        instructions.append(Lookup(step.name, step.inputs, (output,), table, "Preprocess"))
        if step.axes != axes:
            moved = tuple(axes.index(axis) for axis in step.axes)
            instructions.append(Transpose(step.name, (output,), step.outputs, moved))
    return _without_identity(replace(program, slots=tuple(slots), instructions=tuple(instructions)), port)


def _quantizers(program: Program, port: Port) -> list[Quantize]:
    """All that read the input, which nothing else may do."""
    steps = [step for step in program.instructions if port.slot in step.inputs]
    quantizers = [step for step in steps if isinstance(step, Quantize)]
    if len(quantizers) != len(steps) or not steps or port.slot in {out.slot for out in program.outputs}:
        others = ", ".join(step.name for step in steps if not isinstance(step, Quantize)) or "an output"
        raise UsageError(f"input '{port.name}'", f"is read by {others}", "Feed float32 values")
    return quantizers


def _axes(
    program: Program, port: Port, quantizers: Sequence[Quantize], preprocess: Preprocess
) -> tuple[int, ...]:
    """Axis i of the pixels is axis ``axes[i]`` of the model's input.

    The layout of the preprocessing says it. It must not contradict what the program does to the image, nor,
    where the program does nothing that tells, the number of channels.
    """
    shape, layout = program.slots[port.slot].shape, preprocess.layout
    if len(shape) != 4:
        text = "×".join(map(str, shape))
        raise UsageError(f"input '{port.name}'", f"is {text}, no images", "Feed float32 values")
    axes = CHANNELS_LAST if layout == "NHWC" else FROM_NCHW
    codes = {step.outputs[0] for step in quantizers}
    told = {step.axes for step in quantizers} - {CHANNELS_LAST}
    if any(isinstance(step, ON_IMAGES) and codes & set(step.inputs) for step in program.instructions):
        told |= {step.axes for step in quantizers}
    channels = shape[axes[3]]
    counts = {len(values) for values in (preprocess.mean, preprocess.scale)} - {1}
    if told and told != {axes}:
        problem = f"is {layout} by its preprocessing, but its channels lie elsewhere"
        raise UsageError(f"input '{port.name}'", problem, "Give the layout that the model has")
    if counts - {channels}:
        problem = f"has {channels} channels, mean and scale are for {sorted(counts)}"
        raise UsageError(f"input '{port.name}'", problem, "Give one of each per channel, or one for all")
    if not (told or counts or channels in (1, preprocess.channels)):
        problem = f"has {channels} channels if it is {layout}, as its preprocessing says"
        cure = "Give the layout that the model has, or mean and scale of each channel"
        raise UsageError(f"input '{port.name}'", problem, cure)
    return axes


def _port(program: Program, name: str | None) -> Port:
    floats = [port for port in program.inputs if program.slots[port.slot].dtype == "float32"]
    named = [port for port in floats if name in (None, port.name)]
    if len(named) != 1:
        listed = ", ".join(port.name for port in floats) or "none"
        raise UsageError(
            f"input '{name or 'of pixels'}'", "is not one input of float32", f"There is {listed}"
        )
    return named[0]


def _table(step: Quantize, target: Slot, preprocess: Preprocess) -> npt.NDArray[Any]:
    """[channels, 256]: the code of every pixel."""
    channels = target.shape[-1]
    mean, scale = (
        np.broadcast_to(np.asarray(values, np.float32), (channels,))
        for values in (preprocess.mean, preprocess.scale)
    )
    levels = np.arange(256, dtype=np.float32)
    values = (levels - mean[:, None]) * scale[:, None]
    plain = replace(step, axes=(0, 1))
    operand = Operand(Slot("values", values.shape, "float32"), values)
    return quantize(plain, [operand], replace(target, shape=values.shape))


def _without_identity(program: Program, port: Port) -> Program:
    """Pixels that are the codes already need no table."""
    steps = [step for step in program.instructions if port.slot in step.inputs]
    step = steps[0]
    assert isinstance(step, Lookup)
    target = step.outputs[0]
    same = program.slots[target].dtype == "uint8" and (step.table == np.arange(256)).all()
    if len(steps) != 1 or not same or target in {out.slot for out in program.outputs}:
        return program
    slots = list(program.slots)
    slots[target] = replace(slots[target], name=port.name)
    inputs = tuple(replace(other, slot=target) if other is port else other for other in program.inputs)
    rest = tuple(other for other in program.instructions if other is not step)
    return _renumbered(replace(program, slots=tuple(slots), instructions=rest, inputs=inputs), port.slot)


def _renumbered(program: Program, gone: int) -> Program:
    """Without a slot that nothing touches any more."""

    def moved(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(number - (number > gone) for number in numbers)

    return replace(
        program,
        slots=tuple(slot for number, slot in enumerate(program.slots) if number != gone),
        instructions=tuple(
            replace(step, inputs=moved(step.inputs), outputs=moved(step.outputs))
            for step in program.instructions
        ),
        inputs=tuple(replace(port, slot=moved((port.slot,))[0]) for port in program.inputs),
        outputs=tuple(replace(port, slot=moved((port.slot,))[0]) for port in program.outputs),
    )
