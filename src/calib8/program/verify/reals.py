"""What goes by way of real numbers, in the documented range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from calib8.program import rules
from calib8.program.instructions import RealPair, RealRescale
from calib8.program.ops.step import Step
from calib8.program.rules import Profile

CODES: Final = 256

INSTRUCTIONS: Final = (RealRescale, RealPair)
PROFILES: Final[tuple[Profile, ...]] = ("tengine",)
"""Of these instructions."""


def check_instruction(step: Step, instruction: RealRescale | RealPair) -> None:
    """Refuses factors out of range; a RealPair has none.

    Raises:
        ModelError: names the instruction, the parameter and its value.
    """
    if isinstance(instruction, RealPair):
        return
    for what, value in (("first factor", instruction.input), ("divisor", instruction.output)):
        _check_positive(step, what, value)
    factor, channels = instruction.factor, step.output.shape[-1] if step.output.shape else 1
    if factor.shape not in ((1,), (channels,)):
        raise step.error(f"has factors of shape {list(factor.shape)}", f"Give [1] or [{channels}]")
    bad = factor[~(np.isfinite(factor) & (factor >= 0))]
    if bad.size:
        raise step.error(f"has the factor {bad[0]}", "Factors are finite and not below 0")


def _check_positive(step: Step, what: str, value: float) -> None:
    with np.errstate(over="ignore", under="ignore"):
        rounded = float(np.float32(value))
    if not (rounded == value and 0 < value < np.inf):
        raise step.error(f"has the {what} {value!r}", "It must be a float32 value above 0")


def _check_softmax(step: Step, rule: rules.RealSoftmax) -> None:
    table = rule.table
    if table.shape != (CODES, CODES):
        raise step.error(f"has a table of shape {list(table.shape)}", f"Give [{CODES}, {CODES}]")
    read = table[np.tril_indices(CODES)]
    if not ((read >= 0) & (read <= 1)).all() or (table.diagonal() != 1).any():
        raise step.error("has a table with entries outside 0 … 1, or none of 1", "Give exponentials")


CHECKS: Final[dict[type, Callable[[Step, Any], None]]] = {
    rules.RealSoftmax: _check_softmax,
}
"""Rule → the check of its values; a RealAverage has none."""
