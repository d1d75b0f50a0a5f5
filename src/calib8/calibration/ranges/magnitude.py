"""From divergences to a threshold, and from a threshold for magnitudes to a range."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.calibration.statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range

EQUAL_NATS: Final = 1e-12
"""Divergences that differ by no more count as equal: sums of thousands of terms cannot tell them apart."""


def first_smallest(divergences: npt.NDArray[np.float64]) -> int:
    """Index of the smallest of them, of equal ones the first."""
    return int(np.argmax(divergences <= divergences.min() + EQUAL_NATS))


def magnitude_range(threshold: float, statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """[−T, T] for a symmetric spec, else [max(min, −T), min(max, T)] widened to hold 0.

    Args:
        threshold: T > 0.
        statistics: of a tensor with a finite value.
        spec: how the tensor will be coded; only its symmetry matters.
    """
    if spec.symmetric:
        return Range(-threshold, threshold)
    low, high = min(statistics.minimum, 0.0), max(statistics.maximum, 0.0)
    return Range(max(low, -threshold), min(high, threshold))
