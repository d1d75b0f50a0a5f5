"""Inputs and outputs: numbers or codes, and what of the program makes the one of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from calib8.errors import NoFormError
from calib8.exporting.c.moves import AXES
from calib8.exporting.c.shapes import collapsed, dense_steps
from calib8.exporting.c.text import Value
from calib8.exporting.c.unit import Unit
from calib8.program.instructions import Dequantize, Instruction, Quantize
from calib8.program.program import Port, Program, Slot

BORDER_TYPES: Final = ("float32", "int8", "uint8")
OF_A_BORDER: Final = "it cannot be"
"""How the reasons begin for which a border has not the type that was asked for."""


@dataclass(frozen=True)
class Border:
    """An input or output of the C code.

    Attributes:
        name: in the model.
        slot: of the program.
        dtype: what it holds; uint8 are the codes of an int8 slot plus 128.
    """

    name: str
    slot: int
    dtype: str


def input_border(program: Program, port: Port, wanted: str | None) -> Border:
    """How an input is fed.

    Args:
        program: as it is lowered.
        port: one of its inputs.
        wanted: float32, int8 or uint8; None: as in the program.

    Raises:
        NoFormError: the program has it otherwise.
    """
    readers = [step for step in program.instructions if port.slot in step.inputs]
    makes_codes = len(readers) == 1 and isinstance(readers[0], Quantize)
    inner = readers[0].outputs[0] if makes_codes else None
    return _border(program, port, wanted, inner, "is read by more than one quantizer, or by none")


def output_border(program: Program, port: Port, wanted: str | None) -> Border:
    """How an output comes; see ``input_border``."""
    writer = next((step for step in program.instructions if port.slot in step.outputs), None)
    read = any(port.slot in step.inputs for step in program.instructions)
    inner = writer.inputs[0] if isinstance(writer, Dequantize) and not read else None
    if inner is not None and not program.slots[inner].is_codes:
        inner = None
    return _border(program, port, wanted, inner, "is not made of codes of 8 bits")


def _border(program: Program, port: Port, wanted: str | None, inner: int | None, why: str) -> Border:
    slot = program.slots[port.slot]
    if wanted is None or wanted == slot.dtype:
        return Border(port.name, port.slot, slot.dtype)
    if slot.is_codes and not slot.is_wide and wanted in ("int8", "uint8"):
        return Border(port.name, port.slot, wanted)
    if slot.dtype == "float32" and inner is not None and not program.slots[inner].is_wide:
        return Border(port.name, inner, wanted)
    if slot.dtype == "float32":
        raise NoFormError(f"{OF_A_BORDER} {wanted}: it {why}")
    raise NoFormError(f"{OF_A_BORDER} {wanted}: it is {slot.dtype} in the model")


def without_borders(program: Program, inputs: Sequence[Border], outputs: Sequence[Border]) -> Program:
    """The program without the quantizers that nothing needs any more."""
    fed = {border.slot for border in inputs}
    given = {border.slot for border in outputs}
    dropped = [
        step for step in program.instructions
        if (isinstance(step, Quantize) and step.outputs[0] in fed)
        or (isinstance(step, Dequantize) and _unread(program, step, given))
    ]  # fmt: skip
    steps = tuple(step for step in program.instructions if step not in dropped)
    ports = [tuple(Port(border.name, border.slot) for border in side) for side in (inputs, outputs)]
    return replace(program, instructions=steps, inputs=ports[0], outputs=ports[1])


def _unread(program: Program, step: Instruction, given: set[int]) -> bool:
    result = step.outputs[0]
    return result not in given and not any(result in other.inputs for other in program.instructions)


def _walk(shape: Sequence[int], axes: Sequence[int]) -> dict[str, Value]:
    steps = dense_steps(shape)
    sizes, (walked,) = collapsed([shape[axis] for axis in axes], [[steps[axis] for axis in axes]])
    if len(sizes) > AXES:
        raise NoFormError(f"it turns more than {AXES} axes")
    missing = AXES - len(sizes)
    return {"size": [1] * missing + sizes, "step": [0] * missing + walked}


def _scale(slot: Slot) -> float:
    return float(np.float32(slot.scale))


def quantize(unit: Unit, step: Quantize) -> None:
    """Codes of float32 numbers."""
    result = unit.result(step)
    fields: dict[str, Value] = {
        "walk": _walk(unit.source(step).shape, step.axes),
        "scale": _scale(result),
        "zero": result.zero_point,
        "ties_to_even": int(step.rounding == "even"),
    }
    layer = unit.describe("quantize", fields, step.name)
    unit.call("quantize", layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))


def dequantize(unit: Unit, step: Dequantize) -> None:
    """float32 numbers of codes, or of sums."""
    source = unit.source(step)
    if source.is_codes:
        fields: dict[str, Value] = {
            "walk": _walk(source.shape, step.axes), "scale": _scale(source), "zero": source.zero_point,
        }  # fmt: skip
        layer = unit.describe("dequantize", fields, step.name)
        unit.call("dequantize", layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))
        return
    sums: dict[str, Value] = {
        "walk": _walk(source.shape, step.axes),
        "channels": source.shape[-1] if source.shape else 1,
        "per_channel": int(source.scales.size > 1),
        "scale": unit.keep("scale", source.scales.astype(np.float32), step.name),
    }
    layer = unit.describe("dequantize_sums", sums, step.name)
    unit.call("dequantize_sums", layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))
