"""The range that a threshold for magnitudes means: symmetric [−T, T], else what was seen of it."""

from __future__ import annotations

from calib8.calibration.statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range


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
