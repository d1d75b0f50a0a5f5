"""One instruction together with its slots, as questions about it see them."""

from __future__ import annotations

from dataclasses import dataclass

from calib8.errors import ModelError
from calib8.program.ops.instruction import Instruction
from calib8.program.rules import Profile
from calib8.program.slot import Slot


@dataclass(frozen=True, eq=False)
class Step:
    """An instruction at its place.

    Attributes:
        program: what to call the program in messages.
        number: place of the instruction, from 0.
        instruction: what is asked about.
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


def instruction_label(program: str, number: int, instruction: Instruction) -> str:
    """``program "net", instruction 3 (Conv "stem")``."""
    return f'{program}, instruction {number} ({type(instruction).__name__} "{instruction.name}")'
