"""Rounding parameters of quotients in the documented range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import MAX_SHIFT, MIN_SHIFT
from calib8.program import rules
from calib8.program.ops.step import Step
from calib8.program.verify.ranges import MULTIPLIER_MAX, check_range

MULTIPLIER_MIN: Final = 1 << 30
CODES: Final = 256


def _check_float(step: Step, rule: rules.FloatQuotient) -> None:
    for slot, scale in ((step.inputs[0], rule.lhs), (step.output, rule.output)):
        if slot.scale != scale:
            problem = f'has the scale {scale!r} for "{slot.name}", whose scale is {slot.scale!r}'
            raise step.error(problem, "Give both the same")
    _check_table(step, rule.divisor, "divisors")
    if np.isnan(rule.divisor).any():
        raise step.error("has a divisor that is not-a-number", "Give numbers, infinite ones at most")


def _check_fixed(step: Step, rule: rules.FixedQuotient) -> None:
    _check_table(step, rule.multiplier, "multipliers")
    _check_table(step, rule.shift, "shifts")
    magnitude = np.abs(rule.multiplier.astype(np.int64))
    check_range(step, "multiplier", magnitude[magnitude != 0], MULTIPLIER_MIN, MULTIPLIER_MAX)
    check_range(step, "shift", rule.shift, MIN_SHIFT, MAX_SHIFT)


def _check_table(step: Step, table: npt.NDArray[Any], what: str) -> None:
    """One number for each right code."""
    if table.shape != (CODES,):
        raise step.error(f"has {what} of shape {list(table.shape)}", f"Give [{CODES}]")


CHECKS: Final[dict[type, Callable[[Step, Any], None]]] = {
    rules.FloatQuotient: _check_float,
    rules.FixedQuotient: _check_fixed,
}
"""Rule → the check of its values."""
