"""Programs of uint8 codes as programs of int8 codes: TFLite's int8 operators take nothing else.

    code − 128,  zero_point − 128          of activations, clamps, tables and borders
    code − zero_point, zero point 0        of weights

Real values stay what they are, bit for bit. Weight codes of −128 become −127, the lowest that TFLite's
specification allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from calib8.program.instructions import Constant, Instruction, Lookup, Pad, Weighted
from calib8.program.program import Program, Slot
from calib8.program.rules import Codes

OFFSET: Final = 128
LOWEST_WEIGHT: Final = -127


def signed_program(program: Program) -> Program:
    """The same program over int8 codes; weights are left as they are."""
    steps = tuple(_signed_step(program.slots, step) for step in program.instructions)
    return replace(program, slots=tuple(map(_signed_slot, program.slots)), instructions=steps)


def _signed_slot(slot: Slot) -> Slot:
    if slot.dtype != "uint8":
        return slot
    return replace(slot, dtype="int8", zero_point=slot.zero_point - OFFSET)


def _signed_step(slots: Sequence[Slot], step: Instruction) -> Instruction:
    """Tables are indexed from the lowest code on, whichever it is; only their entries move."""
    if not step.outputs or slots[step.outputs[0]].dtype != "uint8":
        return step
    names = {field.name for field in fields(step)}
    changed: dict[str, Any] = {
        name: getattr(step, name) - OFFSET for name in ("low", "high") if name in names
    }
    if isinstance(step, Lookup):
        changed["table"] = (step.table.astype(np.int16) - OFFSET).astype(np.int8)
    if isinstance(step, Constant):
        changed["values"] = (step.values.astype(np.int16) - OFFSET).astype(np.int8)
    if isinstance(step, Pad):
        changed["value"] = step.value - OFFSET
    return replace(step, **changed) if changed else step


def signed_weight(step: Weighted, axis: int) -> tuple[Codes, int] | None:
    """int8 weights of zero point 0, and how many codes of −128 became −127.

    Args:
        step: the layer.
        axis: of its weight that the output channels run along.

    Returns:
        None where a weight lies too far from its zero point for 8 bits.
    """
    shape = [1] * step.weight.ndim
    shape[axis] = -1
    distance = step.weight.astype(np.int16) - step.weight_zero_point.astype(np.int16).reshape(shape)
    lowest = int(np.count_nonzero(distance == LOWEST_WEIGHT - 1))
    if distance.min() < LOWEST_WEIGHT - 1 or distance.max() > -LOWEST_WEIGHT:
        return None
    return np.maximum(distance, LOWEST_WEIGHT).astype(np.int8), lowest
