"""What never changes as a tensor among others: codes of position embeddings, first states, lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import ANY_CODES, Takes
from calib8.program.ops.operand import Operand
from calib8.program.ops.reach import Interval
from calib8.program.ops.shapes import Shape
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.rules import F32, I32, Table
from calib8.program.slot import Slot


@dataclass(frozen=True, eq=False)
class Constant(Instruction):
    """Writes the same codes, float32 or int32 numbers in every run; it reads nothing.

    Attributes:
        values: of the slot's shape and type; floats are finite.
    """

    values: Table | F32 | I32


def constant(step: Constant, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """The values."""
    return step.values


def _shape(step: Step, instruction: Constant) -> tuple[Shape, ...]:
    return (instruction.values.shape,)


def _no_sums(step: Step, instruction: Constant, inputs: Sequence[Interval]) -> None:
    """Codes are no sums."""


def _check_type(step: Step, instruction: Constant) -> None:
    held, wanted = instruction.values.dtype.name, step.output.dtype
    if held != wanted:
        what = "codes" if step.output.is_codes else "numbers"
        raise step.error(f"holds {held} for {wanted} {what}", "Both must be of one type")
    if not np.all(np.isfinite(instruction.values)):
        raise step.error("holds NaN or Inf", "Its values are finite")


TRAITS: Final[dict[type[Instruction], Traits]] = {
    Constant: Traits(
        Takes((), (*ANY_CODES, "float32", "int32")), _shape, constant, reach=_no_sums, check=_check_type
    ),
}
