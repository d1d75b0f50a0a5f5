"""A threshold T for |x| as a range: what the methods that look at magnitudes alone have in common.

symmetric    [−T, T]
asymmetric   [max(min, −T), min(max, T)], both bounds widened to 0
"""

from __future__ import annotations

from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range


def threshold_range(threshold: float, statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range that clips |x| at T, which is first limited to the largest |x| seen.

    Args:
        threshold: T > 0; inf clips nothing.
        statistics: of a tensor with a finite value other than 0.
        spec: how the tensor will be coded; only its symmetry matters.
    """
    return unlimited_range(min(threshold, statistics.magnitude), statistics, spec)


def unlimited_range(threshold: float, statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The same with T as it is: a symmetric range may exceed the largest |x| seen.

    Args:
        threshold: T > 0, finite where the range is symmetric.
        statistics, spec: see ``threshold_range``.
    """
    if spec.symmetric:
        return Range(-threshold, threshold)
    low, high = min(statistics.minimum, 0.0), max(statistics.maximum, 0.0)
    return Range(max(low, -threshold), min(high, threshold))


def codes_one_side(statistics: TensorStatistics, spec: QuantSpec) -> bool:
    """All codes lie on one side of zero: values of one sign in an asymmetric code."""
    return not spec.symmetric and (statistics.minimum >= 0 or statistics.maximum <= 0)
