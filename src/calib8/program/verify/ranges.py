"""Numbers of a rule within what is documented."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.step import Step

MULTIPLIER_MAX: Final = (1 << 31) - 1


def check_range(step: Step, what: str, values: npt.ArrayLike, low: int, high: int) -> None:
    """Refuses numbers outside low … high.

    Raises:
        ModelError: names the instruction, what it is and the first such number.
    """
    array = np.asarray(values)
    bad = array[(array < low) | (array > high)]
    if bad.size:
        raise step.error(f"has the {what} {bad.reshape(-1)[0]}", f"It must be in {low} … {high}")
