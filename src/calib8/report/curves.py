"""Error over threshold: what a range search sees, for every threshold that it may choose.

    range of T   [max(min, −T), min(max, T)] with 0 in it;   symmetric: [−T, T]
    KL(T)        of the histogram quantized within ±T, in nats; see calib8.calibration.ranges.entropy
    MSE(T)       Σ (x − dequantize(quantize(x)))² / number of finite values, in squared real units;
                 see calib8.calibration.ranges.mse

For values of both signs in an asymmetric code MSE(T) is a section of the search, which moves both bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calib8.calibration.ranges.entropy import guarded_histogram, kl_divergences, quantization_levels
from calib8.calibration.ranges.mse import range_errors
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import QuantSpec

POINTS = 512
"""Points of a curve at most."""

SMALLEST_KL = 1e-9
"""In nats; what lies below is rounding and is given as this, so that a logarithmic axis can show it."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """An error for several thresholds.

    Attributes:
        thresholds: T in real units, ascending (the last two may be equal), at most ``POINTS``.
        errors: KL in nats or MSE in squared real units, as many; only thresholds with an error are listed.
    """

    thresholds: tuple[float, ...]
    errors: tuple[float, ...]


EMPTY = Curve((), ())
"""No threshold to choose from."""


def kl_curve(statistics: TensorStatistics, spec: QuantSpec) -> Curve:
    """KL(T) for T = (i + ½)·w, i = levels … number of bins, at most max |x|.

    Of each group of neighbouring candidates the one with the smallest divergence is given. Candidates that
    quantize to nothing, for which KL is infinite, are left out. Empty where there are fewer bins than levels.

    Args:
        statistics: of one tensor, with bins.
        spec: how the tensor will be coded; it gives the number of levels as in ``entropy``.
    """
    histogram, width = statistics.magnitude_histogram()
    levels = quantization_levels(statistics, spec)
    if histogram.size < levels or not histogram.any():
        return EMPTY
    guarded = guarded_histogram(histogram)
    if not guarded.any():
        return EMPTY
    divergences = np.maximum(kl_divergences(guarded, levels), SMALLEST_KL)
    kept = np.arange(levels, histogram.size + 1)
    return _smallest_of_groups(np.minimum((kept + 0.5) * width, statistics.magnitude), divergences)


def mse_curve(statistics: TensorStatistics, spec: QuantSpec) -> Curve:
    """MSE(T) for at most ``POINTS`` thresholds evenly spaced up to max |x|, which is the last one.

    Args:
        statistics: of one tensor, with bins.
        spec: how the tensor will be coded.
    """
    if statistics.is_degenerate:
        return EMPTY
    used = int(statistics.magnitude / statistics.width) + 1
    step = -(-used // POINTS)
    steps = np.arange(step, used, step) * statistics.width
    thresholds = np.append(steps[steps < statistics.magnitude], statistics.magnitude)
    minima, maxima = -thresholds, thresholds
    if not spec.symmetric:
        minima = np.maximum(minima, min(statistics.minimum, 0.0))
        maxima = np.minimum(maxima, max(statistics.maximum, 0.0))
    errors = range_errors(minima, maxima, statistics, spec) / statistics.finite
    return Curve(tuple(thresholds.tolist()), tuple(np.maximum(errors, 0.0).tolist()))


def _smallest_of_groups(thresholds: Floats, errors: Floats) -> Curve:
    """One point of each group of neighbours; of equal errors the last, the widest range."""
    size = -(-errors.size // POINTS)
    chosen = []
    for start in range(0, errors.size, size):
        group = errors[start : start + size]
        best = start + group.size - 1 - int(np.argmin(group[::-1]))
        if np.isfinite(errors[best]):
            chosen.append(best)
    return Curve(tuple(thresholds[chosen].tolist()), tuple(errors[chosen].tolist()))
