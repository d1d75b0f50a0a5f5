"""Constants of an instruction that depend on the types of its slots: clamps, zero points, tables, codes."""

from __future__ import annotations

import numpy as np

from calib8.program.instructions import TRAITS
from calib8.program.ops.step import Step


def check_constants(step: Step) -> None:
    """Refuses constants outside the type that they are compared with or written to.

    Raises:
        ModelError: names the instruction and the value.
    """
    instruction = step.instruction
    TRAITS[type(instruction)].check(step, instruction)
    low, high = (getattr(instruction, end, None) for end in ("low", "high"))
    if low is not None and high is not None and step.output.is_codes:
        _check_clamp(step, low, high)


def _check_clamp(step: Step, low: int, high: int) -> None:
    limits = np.iinfo(step.output.dtype)
    if not limits.min <= low <= high <= limits.max:
        raise step.error(
            f"clamps to {low} … {high}",
            f"{step.output.dtype} needs {limits.min} ≤ low ≤ high ≤ {limits.max}",
        )
