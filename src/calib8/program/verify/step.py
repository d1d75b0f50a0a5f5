"""How messages call a program and its slots, and its instructions one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from calib8.program.ops.step import Step
from calib8.program.program import Program


def program_label(program: Program) -> str:
    """``program "net"``, as messages begin."""
    return f'program "{program.name}"' if program.name else "program"


def slot_label(program: Program, number: int) -> str:
    """``slot 3 "conv1_out"``."""
    return f'slot {number} "{program.slots[number].name}"'


def steps(program: Program) -> Iterator[Step]:
    """Every instruction with its slots; slot numbers must have been checked."""
    label = program_label(program)
    for number, instruction in enumerate(program.instructions):
        inputs = tuple(program.slots[slot] for slot in instruction.inputs)
        outputs = tuple(program.slots[slot] for slot in instruction.outputs)
        yield Step(label, number, instruction, inputs, outputs, program.profile)
