"""MSE: the range with the smallest mean squared rounding and clipping error.

    E(range) = Σ_q ∫_{b_q}^{b_{q+1}} (x − v_q)² dH(x),   v_q = s·(q − z),   b_q = s·(q − z − ½)

with scale s and zero point z exactly as the quantizer will use them, and the values spread evenly over
each bin (for a bin within one code that is the error at its centre plus w²/12). Summation by parts gives

    E = ∫ (v_max − x)² dH − 2 s Σ_q G(b_q),   G(b) = ∫_{−∞}^{b} H(t) dt,   H(t) = number of values ≤ t

so a candidate costs one look-up per code: on a bin G is a quadratic in b. That is done natively
(csrc/search_mse.cc), with the same bits on every machine.

    symmetric, or values of one sign   every T = i·w
    asymmetric with both signs         a 40 × 40 grid of (min, max) fractions, then finer ones around its best
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from calib8._core import search
from calib8.calibration.tensor_statistics import Bins, TensorStatistics
from calib8.qparams import QuantSpec, activation_qparams_of_many
from calib8.table import Range

_GRID: Final = 40
_REFINEMENTS: Final = 4

Floats = npt.NDArray[np.float64]


def mse(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range with the smallest mean squared error; of equal ones the last candidate (T: the widest).

    Args:
        statistics: of a tensor with a finite value other than 0.
        spec: how the tensor will be coded.

    Raises:
        CalibrationError: the statistics have no bins.
    """
    low, high = min(statistics.minimum, 0.0), max(statistics.maximum, 0.0)
    if low < 0.0 < high and not spec.symmetric:
        return _best_pair(statistics, spec)
    minima, maxima = _bounds(thresholds(statistics), statistics, spec)
    best = _last_argmin(range_errors(minima, maxima, statistics, spec))
    return Range(float(minima[best]), float(maxima[best]))


def thresholds(statistics: TensorStatistics) -> Floats:
    """The candidates T = i·w for every bin in use, ascending; the last is limited to the largest |x|.

    Raises:
        CalibrationError: the statistics have no bins.
    """
    histogram, width = statistics.magnitude_histogram()
    limits: Floats = np.minimum(np.arange(1, len(histogram) + 1) * width, statistics.magnitude)
    return limits


def range_errors(minima: Floats, maxima: Floats, statistics: TensorStatistics, spec: QuantSpec) -> Floats:
    """E of the ranges [minima, maxima], a vector [candidates] in squared real units, summed over all values.

    A symmetric code is judged on |x| by its codes 0 … 2^(bits−1) − 1: the one extra negative code is not
    counted on.

    Args:
        minima: [candidates], ≤ 0.
        maxima: [candidates], ≥ 0.
        statistics: of a tensor with a finite value other than 0.
        spec: how the tensor will be coded.

    Raises:
        CalibrationError: the statistics have no bins.
    """
    scales, zero_points = activation_qparams_of_many(minima, maxima, spec)
    if spec.symmetric:
        histogram, width = statistics.magnitude_histogram()
        return squared_errors(histogram, width, 0, scales, zero_points, spec.magnitude_levels)
    histogram, width, origin = statistics.signed_histogram()
    return squared_errors(
        histogram, width, origin, scales, spec.qmin - zero_points, spec.qmax - spec.qmin + 1
    )


def squared_errors(
    histogram: Bins, width: float, origin: int, scales: Floats, lowest: npt.NDArray[np.int64], codes: int
) -> Floats:
    """E for several quantizers, a vector [candidates] in squared real units, summed over all values.

    Args:
        histogram: counts [n] along the real axis, not all 0.
        width: width of a bin, > 0.
        origin: index of the bin whose lower edge is 0.
        scales: [candidates], > 0.
        lowest: smallest code minus zero point, [candidates].
        codes: number of codes, up to 65536.

    Raises:
        ValueError: an argument is out of range.
    """
    counts = np.ascontiguousarray(histogram, np.int64)
    steps = np.ascontiguousarray(scales, np.float64) / width
    errors = search.squared_errors(counts, origin, steps, np.ascontiguousarray(lowest, np.int64), codes)
    return errors * width**2


def _bounds(limits: Floats, statistics: TensorStatistics, spec: QuantSpec) -> tuple[Floats, Floats]:
    """The ranges of thresholds: on both sides of zero, or on the side of the values."""
    nothing = np.zeros_like(limits)
    if spec.symmetric:
        return -limits, limits
    return (nothing, limits) if statistics.maximum > 0.0 else (-limits, nothing)


def _best_pair(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """Fractions are spaced as squares: fine near zero, where the optimum of a tensor with outliers lies."""
    roots = np.arange(1, _GRID + 1) / _GRID
    low_roots, high_roots = roots, roots
    step = 1.0 / _GRID
    for _ in range(_REFINEMENTS + 1):
        lows, highs = np.repeat(low_roots, high_roots.size), np.tile(high_roots, low_roots.size)
        minima, maxima = statistics.minimum * lows**2, statistics.maximum * highs**2
        best = _last_argmin(range_errors(minima, maxima, statistics, spec))
        moves = np.arange(-3, 4) * (step / 3)
        low_roots = np.unique(np.clip(lows[best] + moves, roots[0] / 4, 1.0))
        high_roots = np.unique(np.clip(highs[best] + moves, roots[0] / 4, 1.0))
        step /= 3
    return Range(float(minima[best]), float(maxima[best]))


def _last_argmin(errors: Floats) -> int:
    """Index of the smallest error, the last of equal ones."""
    return errors.size - 1 - int(np.argmin(errors[::-1]))
