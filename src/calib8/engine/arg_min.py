"""ArgMin as the largest of codes turned around, for which there is a step.

ArgMin q   →   Lookup q' = lowest + highest − q, ArgMax q'

Equal codes stay equal, so the first and the last among them stay where they are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calib8.program import instructions as op
from calib8.program.program import Program, Slot


def without_arg_min(program: Program) -> Program:
    """The program with a Lookup and an ArgMax in place of every ArgMin."""
    slots: list[Slot] = list(program.slots)
    instructions: list[op.Instruction] = []
    for step in program.instructions:
        if not isinstance(step, op.ArgMin):
            instructions.append(step)
            continue
        source = slots[step.inputs[0]]
        codes = np.iinfo(source.dtype)
        zero_point = codes.min + codes.max - source.zero_point
        table = np.arange(codes.min, codes.max + 1).astype(source.dtype)[::-1].copy()
        slots.append(replace(source, name=f"{source.name} turned", zero_point=zero_point))
        number = len(slots) - 1
        instructions.append(op.Lookup(f"codes of {step.name}", step.inputs, (number,), table, "Neg"))
        instructions.append(op.ArgMax(step.name, (number,), step.outputs, step.axis, step.last))
    return replace(program, slots=tuple(slots), instructions=tuple(instructions))
