"""Programs that take uint8 images: preprocessing and the input's quantizer become one table per channel.

    code = quantize(fl(fl(float32(pixel) − mean[c]) · scale[c]))        256 possible pixels, so exact

Images come as [N, H, W, C] with the channels in the model's order. Where every table is the pixel itself
(scale of the input = 1 / scale, zero point = mean), pixels are the codes and nothing is left to compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.data.preprocess import Preprocess
from calib8.errors import UsageError
from calib8.program.instructions import Instruction, Lookup, Quantize
from calib8.program.program import Port, Program, Slot
from calib8.program.reference.borders import quantize
from calib8.program.reference.operand import Operand


def with_pixels(program: Program, preprocess: Preprocess, name: str | None = None) -> Program:
    """The program with an input of pixels in place of one of float32.

    Args:
        program: a verified program.
        preprocess: mean and scale are used, and nothing else; resizing is the caller's.
        name: of the input; None where there is but one.

    Raises:
        UsageError: there is no such input, something else than a quantizer reads it, it has no channels
            last in the program, or mean and scale are for another number of channels.
    """
    port = _port(program, name)
    steps = [step for step in program.instructions if port.slot in step.inputs]
    quantizers = [step for step in steps if isinstance(step, Quantize)]
    if len(quantizers) != len(steps) or not steps or port.slot in {out.slot for out in program.outputs}:
        others = ", ".join(step.name for step in steps if not isinstance(step, Quantize)) or "an output"
        raise UsageError(f"input '{port.name}'", f"is read by {others}", "Feed float32 values")
    first = program.slots[quantizers[0].outputs[0]]
    pixels = Slot(port.name, first.shape, "uint8", np.ones(1, np.float32))
    slots = [pixels if number == port.slot else slot for number, slot in enumerate(program.slots)]
    instructions: list[Instruction] = []
    for step in program.instructions:
        if isinstance(step, Quantize) and step in quantizers:
            target = program.slots[step.outputs[0]]
            _check_image(port, target, first.shape, preprocess)
            table = _table(step, target, preprocess)
            instructions.append(Lookup(step.name, step.inputs, step.outputs, table, "Preprocess"))
        else:
            instructions.append(step)
    return _without_identity(replace(program, slots=tuple(slots), instructions=tuple(instructions)), port)


def _port(program: Program, name: str | None) -> Port:
    floats = [port for port in program.inputs if program.slots[port.slot].dtype == "float32"]
    named = [port for port in floats if name in (None, port.name)]
    if len(named) != 1:
        listed = ", ".join(port.name for port in floats) or "none"
        raise UsageError(
            f"input '{name or 'of pixels'}'", "is not one input of float32", f"There is {listed}"
        )
    return named[0]


def _check_image(port: Port, target: Slot, shape: Sequence[int], preprocess: Preprocess) -> None:
    counts = {len(value) for value in (preprocess.mean, preprocess.scale)} - {1}
    if len(target.shape) != 4 or target.shape != tuple(shape) or counts - {target.shape[-1]}:
        text = "×".join(map(str, target.shape))
        problem = f"lies as {text} in the program, mean and scale are for {sorted(counts) or [1]} channels"
        raise UsageError(f"input '{port.name}'", problem, "Feed float32 values")


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
