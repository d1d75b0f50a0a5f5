"""Quotients of codes: the right side is what a table has for its code.

    FloatQuotient   rint(fl(fl(fl(s_a·(A−z_a)) / D[B]) / s_y)) + z_y                      float32
    FixedQuotient   (((A−z_a)·M[B] + 2^(30−S[B])) >> (31−S[B])) + z_y                     one rounding

then the clamp. D[B] is the number that a right code stands for, or what a function of it yields (b + ε); M[B]
and S[B] are multiplier and shift of s_a / (D[B]·s_y). Operands broadcast as in NumPy.

Divided by 0, numbers above and below 0 become the largest and the smallest code; 0 / 0 becomes the smallest
code in float32, as ONNX Runtime quantizes what is no number, and the code of 0 in fixed point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import multiply_single_rounding
from calib8.program.ops.elementwise import elementwise_shape
from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import CODES, Takes
from calib8.program.ops.operand import Operand
from calib8.program.ops.rescale import clipped
from calib8.program.ops.traits import Traits
from calib8.program.rules import FixedQuotient, QuotientRule
from calib8.program.slot import Slot


@dataclass(frozen=True, eq=False)
class Div(Instruction):
    """Elementwise quotient of codes, broadcast; the rule holds what the right codes stand for."""

    rule: QuotientRule
    low: int
    high: int


def div(step: Div, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of the quotient."""
    lhs, rhs = operands
    a = lhs.data.astype(np.int64) - lhs.slot.zero_point
    place = rhs.data.astype(np.intp) - np.iinfo(rhs.slot.dtype).min
    rule = step.rule
    if isinstance(rule, FixedQuotient):
        steps: npt.NDArray[Any] = multiply_single_rounding(a, rule.multiplier[place], rule.shift[place])
    else:
        with np.errstate(all="ignore"):
            real = a.astype(np.float32) * np.float32(rule.lhs)
            steps = np.rint(real / rule.divisor[place] / np.float32(rule.output)).astype(np.float64)
        steps = np.where(np.isnan(steps), -np.inf, steps)
    return clipped(steps + output.zero_point, step.low, step.high, output.dtype)


TRAITS: Final[dict[type[Instruction], Traits]] = {
    Div: Traits(Takes((CODES, CODES), CODES), elementwise_shape, div),
}
