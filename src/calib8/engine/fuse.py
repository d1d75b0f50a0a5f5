"""Instructions that one step carries out together.

    layer → Add | Sub          the residual is added to the codes in registers
    layer | Add → Lookup       the table is applied to the codes before they are stored

A fused step gives the bits of its instructions one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calib8.program.instructions import Add, Instruction, Lookup, Sub
from calib8.program.program import Program


@dataclass(frozen=True, eq=False)
class Work:
    """One instruction and what is fused behind it.

    Attributes:
        instruction: what is carried out first.
        inputs: all slots that are read, the residual included.
        output: the slot that is written; −1 for a Float instruction, which may write several.
        add: the sum with a residual.
        residual: slot of the residual; −1 for none.
        lookup: the table that is applied last.
    """

    instruction: Instruction
    inputs: tuple[int, ...]
    output: int
    add: Add | Sub | None = None
    residual: int = -1
    lookup: Lookup | None = None

    @property
    def name(self) -> str:
        """Names of the instructions."""
        parts = (self.instruction, self.add, self.lookup)
        return " + ".join(part.name for part in parts if part is not None)


def fuse(program: Program) -> list[Work]:
    """All instructions of a program, in order, fused where that keeps every bit."""
    return [_alone(instruction) for instruction in program.instructions]


def _alone(instruction: Instruction) -> Work:
    output = instruction.outputs[0] if len(instruction.outputs) == 1 else -1
    return Work(instruction, instruction.inputs, output)


def writers(works: Sequence[Work]) -> dict[int, int]:
    """Slot → place of the work that writes it."""
    return {
        slot: place
        for place, work in enumerate(works)
        for slot in ((work.output,) if work.output >= 0 else work.instruction.outputs)
    }
