"""ACIQ: the best threshold for normally or for Laplace distributed values, whichever serves better.

With M bits for both signs of a value, rounding in [−α, α] costs α²/(3·4^M). Clipping costs, for values of

    Gauss, σ² = mean x²       (α² + σ²)(1 − erf(α/σ√2)) − √(2/π) α σ e^{−α²/2σ²}
    Laplace, b = mean |x|     2 b² e^{−α/b}

The sums are smallest at α = t·σ and α = u·b with

    t (erfc(t/√2) + 1/(3·4^M)) = √(2/π) e^{−t²/2}          u e^u = 3·4^M

    M = bits, or bits + 1 where all codes lie on one side of zero: the sign costs no code then
    T = t·σ or u·b: the one with the smaller squared error on the histogram; of equal ones the larger

Both models have their centre at zero, and zeros stay out of σ and b: they are exact in any code. σ and b
are measured at the centres of the bins. The two errors are compared on the histogram (see mse), not each
under its own model: there Gauss wins wherever σ < 2.6 b (8 bits), Laplace distributed values included.
Source: R. Banner et al., Post training 4-bit quantization of convolutional networks, NeurIPS 2019.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from calib8.calibration.ranges.mse import range_errors
from calib8.calibration.ranges.threshold import codes_one_side, threshold_range
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range


def aciq(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range [max(min, −T), min(max, T)] (symmetric: [−T, T]) with T as above, at most max |x|.

    Args:
        statistics: of a tensor with a finite value other than 0.
        spec: how the tensor will be coded.

    Raises:
        CalibrationError: the statistics have no bins.
    """
    bits = spec.bits + codes_one_side(statistics, spec)
    sigma, mean = _spread(statistics)
    limits = sorted((gaussian_ratio(bits) * sigma, laplace_ratio(bits) * mean))
    smaller, larger = (threshold_range(limit, statistics, spec) for limit in limits)
    minima, maxima = np.array([smaller.min, larger.min]), np.array([smaller.max, larger.max])
    errors = range_errors(minima, maxima, statistics, spec)
    return smaller if errors[0] < errors[1] else larger


@lru_cache(maxsize=64)
def gaussian_ratio(bits: int) -> float:
    """α/σ of a normal distribution for codes of M = 1 … 24 bits, to 12 significant digits.

    The digits behind them would depend on the C library.
    """
    rounding = 1 / (3 * 4.0**bits)
    return _root(lambda t: t * (math.erfc(t / math.sqrt(2)) + rounding) - _bell(t))


@lru_cache(maxsize=64)
def laplace_ratio(bits: int) -> float:
    """α/b of a Laplace distribution for codes of M = 1 … 24 bits, to 12 significant digits."""
    return _root(lambda u: u * math.exp(u) - 3 * 4.0**bits)


def _bell(t: float) -> float:
    return math.sqrt(2 / math.pi) * math.exp(-t * t / 2)


def _root(rising: Callable[[float], float]) -> float:
    """Where a function that is below 0 at 0 and above 0 at 64 crosses it."""
    low, high = 0.0, 64.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return float(f"{high:.12g}")


def _spread(statistics: TensorStatistics) -> tuple[float, float]:
    """σ and b of the values other than 0; sums are rounded once, so that every machine gets the same."""
    histogram, width = statistics.magnitude_histogram()
    used = np.flatnonzero(histogram)
    counts, centres = histogram[used].astype(np.float64), used + 0.5
    total = int(histogram.sum())
    square = math.fsum((counts * centres**2).tolist()) / total
    return math.sqrt(square) * width, math.fsum((counts * centres).tolist()) / total * width
