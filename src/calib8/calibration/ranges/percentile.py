"""Percentile: the smallest range that leaves out at most a given share of the values on each side.

    T = smallest upper edge of a bin with  #(|x| < edge) ≥ p/100 · n          n: finite values, zeros included

An asymmetric range cuts both tails of the signed distribution in this way, each at most (1 − p/100) · n
values. The upper edge is taken because the lower edge of the same bin would clip more than asked for; no
bound lies beyond the extrema, so p = 100 is min-max exactly.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from calib8.calibration.tensor_statistics import Bins, TensorStatistics
from calib8.errors import UsageError
from calib8.qparams import QuantSpec
from calib8.table import Range


def percentile(statistics: TensorStatistics, spec: QuantSpec, percent: float = 99.999) -> Range:
    """The smallest range that leaves out at most (100 − percent) % of the values on each side.

    Args:
        statistics: of a tensor with a finite value other than 0.
        spec: how the tensor will be coded; only its symmetry matters.
        percent: 0 < percent ≤ 100, taken as the decimal number that it prints as.

    Raises:
        UsageError: ``percent`` is out of range.
        CalibrationError: the statistics have no bins.
    """
    if not 0 < percent <= 100:
        raise UsageError(f"percent {percent}", "is not in (0, 100]", "Use for example 99.99")
    clipped = allowed_outside(statistics.finite, percent)
    if spec.symmetric:
        bound = _bound(statistics.magnitude_histogram()[0], clipped, statistics.width)
        bound = min(bound, statistics.magnitude)
        return Range(-bound, bound)
    signed, width, below = statistics.signed_histogram()
    low, high = _bound(signed[:below][::-1], clipped, width), _bound(signed[below:], clipped, width)
    return Range(max(-low, min(statistics.minimum, 0.0)), min(high, max(statistics.maximum, 0.0)))


def allowed_outside(count: int, percent: float) -> int:
    """Largest number of values that may lie outside so that ``percent`` % of ``count`` lie inside."""
    return count - math.ceil(Fraction(str(percent)) * count / 100)


def _bound(bins: Bins, outside: int, width: float) -> float:
    """Smallest upper edge of a bin (at least that of bin 0) with at most ``outside`` values above it."""
    if not bins.size:
        return width
    above = int(bins.sum()) - np.cumsum(bins)
    return (int(np.argmax(above <= outside)) + 1) * width
