"""MSE: the range with the smallest mean squared rounding and clipping error.

    E(range) = Σ_q ∫_{b_q}^{b_{q+1}} (x − v_q)² dH(x),   v_q = s·(q − z),   b_q = s·(q − z − ½)

with scale s and zero point z exactly as the quantizer will use them, and the values spread evenly over
each bin (for a bin within one code that is the error at its centre plus w²/12). Summation by parts gives

    E = ∫ (v_max − x)² dH − 2 s Σ_q G(b_q),   G(b) = ∫_{−∞}^{b} H(t) dt,   H(t) = number of values ≤ t

so a candidate costs one look-up per code: on a bin G is a quadratic in b.

    symmetric, or values of one sign   every T = i·w
    asymmetric with both signs         a 40 × 40 grid of (min, max) fractions, then finer ones around its best
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from calib8.calibration.statistics import Bins, TensorStatistics
from calib8.qparams import QuantSpec, activation_qparams
from calib8.table import Range

_GRID = 40
_REFINEMENTS = 4
_CHUNK = 256
"""Candidates evaluated at once: their boundaries then stay in the cache."""

Floats = npt.NDArray[np.float64]


def mse(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range with the smallest mean squared error; of equal ones the widest.

    Args:
        statistics: of a tensor with a finite value other than 0.
        spec: how the tensor will be coded.
    """
    if spec.symmetric:
        return _best_symmetric(statistics, spec)
    low, high = min(statistics.minimum, 0.0), max(statistics.maximum, 0.0)
    errors = _SignedErrors(statistics, spec)
    if low < 0.0 < high:
        return _best_pair(errors, low, high)
    thresholds = _thresholds(statistics)
    ranges = [Range(0.0, t) for t in thresholds] if high > 0.0 else [Range(-t, 0.0) for t in thresholds]
    return ranges[_last_argmin(errors(ranges))]


def squared_errors(
    histogram: Bins, width: float, origin: int, scales: Floats, lowest: npt.NDArray[np.int64], codes: int
) -> Floats:
    """E for several quantizers, a vector [candidates] in squared real units, summed over all values.

    Args:
        histogram: counts [n] along the real axis.
        width: width of a bin, > 0.
        origin: index of the bin whose lower edge is 0.
        scales: [candidates], > 0.
        lowest: smallest code minus zero point, [candidates].
        codes: number of codes.
    """
    counts = np.append(histogram.astype(np.float64), 0.0)
    below = np.concatenate([[0.0], np.cumsum(histogram)])
    area = np.concatenate([[0.0], np.cumsum(below[:-1] + 0.5 * counts[:-1])])
    steps = np.asarray(scales, np.float64) / width
    errors = np.empty(steps.size)
    for start in range(0, steps.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        boundaries = steps[part, None] * (lowest[part, None] + np.arange(codes - 1) + 0.5) + origin
        position = np.clip(boundaries, 0.0, histogram.size)
        bins = position.astype(np.int64)
        fraction = position - bins
        g = area[bins] + fraction * (below[bins] + 0.5 * fraction * counts[bins])
        g += below[-1] * (boundaries - position).clip(min=0.0)
        errors[part] = g.sum(axis=1)
    largest = steps * (lowest + codes - 1)
    from_top = _spread_about(histogram, origin, largest)
    return (from_top - 2.0 * steps * errors) * width**2


def _spread_about(histogram: Bins, origin: int, points: Floats) -> Floats:
    """∫ (point − x)² dH for each point, in bins."""
    counts = histogram.astype(np.float64)
    centres = np.arange(histogram.size) + 0.5 - origin
    total, first = counts.sum(), counts @ centres
    second = counts @ (centres**2 + 1.0 / 12.0)
    return np.asarray(second - 2.0 * points * first + points**2 * total)


class _SignedErrors:
    """Errors of asymmetric ranges on one tensor."""

    def __init__(self, statistics: TensorStatistics, spec: QuantSpec) -> None:
        self.histogram, self.width, self.origin = statistics.signed_histogram()
        self.spec = spec

    def __call__(self, ranges: Sequence[Range]) -> Floats:
        qparams = [activation_qparams(r.min, r.max, self.spec) for r in ranges]
        scales = np.array([q.scale for q in qparams])
        lowest = np.array([self.spec.qmin - q.zero_point for q in qparams])
        codes = self.spec.qmax - self.spec.qmin + 1
        return squared_errors(self.histogram, self.width, self.origin, scales, lowest, codes)


def _best_symmetric(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """On |x|: the codes 0 … 2^(bits−1) − 1. The one extra negative code is not counted on."""
    histogram, width = statistics.magnitude_histogram()
    ranges = [Range(-t, t) for t in _thresholds(statistics)]
    scales = np.array([activation_qparams(r.min, r.max, spec).scale for r in ranges])
    lowest = np.zeros(scales.size, np.int64)
    errors = squared_errors(histogram, width, 0, scales, lowest, spec.magnitude_levels)
    return ranges[_last_argmin(errors)]


def _best_pair(errors: _SignedErrors, low: float, high: float) -> Range:
    """Fractions are spaced as squares: fine near zero, where the optimum of a tensor with outliers lies."""
    roots = np.arange(1, _GRID + 1) / _GRID
    low_roots, high_roots = roots, roots
    step = 1.0 / _GRID
    for _ in range(_REFINEMENTS + 1):
        pairs = [(a, b) for a in low_roots for b in high_roots]
        ranges = [Range(low * a**2, high * b**2) for a, b in pairs]
        best = _last_argmin(errors(ranges))
        offsets = np.arange(-3, 4) * (step / 3)
        low_roots = np.unique(np.clip(pairs[best][0] + offsets, roots[0] / 4, 1.0))
        high_roots = np.unique(np.clip(pairs[best][1] + offsets, roots[0] / 4, 1.0))
        step /= 3
    return ranges[best]


def _thresholds(statistics: TensorStatistics) -> list[float]:
    """i·w for every bin in use, the last one limited to the largest magnitude."""
    count = int(statistics.magnitude / statistics.width) + 1
    return [min(i * statistics.width, statistics.magnitude) for i in range(1, count + 1)]


def _last_argmin(errors: Floats) -> int:
    """Index of the smallest error; the last of equal ones, which is the widest range."""
    return errors.size - 1 - int(np.argmin(errors[::-1]))
