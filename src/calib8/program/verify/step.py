"""One instruction together with its slots, as the checks see it, and how they name it in messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calib8.errors import ModelError
from calib8.program.instructions import Instruction
from calib8.program.program import Program, Slot
from calib8.program.rules import Profile


@dataclass(frozen=True, eq=False)
class Step:
    """An instruction at its place.

    Attributes:
        program: what to call the program in messages.
        number: place of the instruction, from 0.
        instruction: what is checked.
        inputs, outputs: the slots behind its numbers.
        profile: of the program.
    """

    program: str
    number: int
    instruction: Instruction
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    profile: Profile

    @property
    def output(self) -> Slot:
        """The only output of an integer instruction."""
        return self.outputs[0]

    def error(self, problem: str, cure: str) -> ModelError:
        """An error that names program and instruction."""
        return ModelError(instruction_label(self.program, self.number, self.instruction), problem, cure)


def program_label(program: Program) -> str:
    """``program "net"``, as messages begin."""
    return f'program "{program.name}"' if program.name else "program"


def instruction_label(program: str, number: int, instruction: Instruction) -> str:
    """``program "net", instruction 3 (Conv "stem")``."""
    return f'{program}, instruction {number} ({type(instruction).__name__} "{instruction.name}")'


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
