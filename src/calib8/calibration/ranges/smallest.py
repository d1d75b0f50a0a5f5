"""Which of several divergences counts as the smallest: the first or the last of those that are as small."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

EQUAL_NATS: Final = 1e-12
"""Divergences that differ by no more count as equal: float64 sums of thousands of terms cannot tell them."""

Floats = npt.NDArray[np.float64]


def first_smallest(divergences: Floats) -> int:
    """Index of the smallest of them, one of which is finite; of equal ones the first."""
    return int(_smallest(divergences)[0])


def last_smallest(divergences: Floats) -> int:
    """Index of the smallest of them, one of which is finite; of equal ones the last."""
    return int(_smallest(divergences)[-1])


def _smallest(divergences: Floats) -> npt.NDArray[np.int64]:
    return np.flatnonzero(divergences <= divergences.min() + EQUAL_NATS)
