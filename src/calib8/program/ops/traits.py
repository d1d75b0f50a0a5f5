"""What is known of one type of instruction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from calib8.program.ops.kinds import Takes
from calib8.program.ops.operand import Operand
from calib8.program.ops.reach import Interval, moved
from calib8.program.ops.shapes import Shape
from calib8.program.ops.step import Step
from calib8.program.slot import Slot


def nothing(step: Step, instruction: Any) -> None:
    """No constant depends on the types of the slots."""


def no_macs(instruction: Any, source: Slot, result: Slot) -> int:
    """Multiplies nothing."""
    return 0


@dataclass(frozen=True)
class Traits:
    """What is known of one type of instruction; functions get the instruction as that type.

    Attributes:
        takes: what its slots may hold.
        shapes: the shapes that its output may have; raises ModelError for parameters that do not fit.
        compute: what it computes, an array of the output's shape and type.
        reach: the least and largest values of its sums, or of the sums that it moves, from those of the sums
            that it reads; None without sums. Raises ModelError where they leave int32.
        macs: multiply-accumulates of one run, from its first input and its output.
        check: raises ModelError for constants outside the types of its slots; clamps are checked apart.
        every: of an instruction that may write more slots than one, all that it computes; those beside the
            first are for outputs that it has.
    """

    takes: Takes
    shapes: Callable[[Step, Any], Collection[Shape]]
    compute: Callable[[Any, Sequence[Operand], Slot], npt.NDArray[Any]]
    reach: Callable[[Step, Any, Sequence[Interval]], Interval | None] = moved
    macs: Callable[[Any, Slot, Slot], int] = no_macs
    check: Callable[[Step, Any], None] = nothing
    every: Callable[[Any, Sequence[Operand], Slot], list[npt.NDArray[Any]]] | None = None
