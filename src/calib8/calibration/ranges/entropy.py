"""Entropy: the threshold whose quantized histogram tells least about being quantized (TensorRT's method).

    H[k]        counts of |x| > 0 in n bins of width w; zeros stay out, or they alone would decide
    P           H[0 … i−1], and everything beyond added to its last bin
    Q           H[0 … i−1] in L groups, each group's sum spread over the bins of it where P is not 0
    KL(i)       Σ_{P>0} P ln(P / Q), both scaled to sum 1; +inf where P > 0 meets Q = 0
    T           (i + ½) · w of the smallest KL(i), i = L … n; of equal ones the largest i

Group g of i bins begins at bin ceil(g·i / L). All candidates are computed, natively and with the same bits
on every machine (csrc/search_entropy.cc).
Source: S. Migacz, 8-bit inference with TensorRT, GTC 2017; docs/quantization.md settles its open points.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calib8._core import search
from calib8.calibration.ranges.smallest import last_smallest
from calib8.calibration.ranges.threshold import codes_one_side, threshold_range
from calib8.calibration.tensor_statistics import Bins, TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range

Floats = npt.NDArray[np.float64]


def entropy(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range [max(min, −T), min(max, T)] (symmetric: [−T, T]) with T as above.

    T never exceeds max |x|, which it is where no candidate is finite or fewer bins than levels are in use.

    Args:
        statistics: of a tensor with a finite value other than 0.
        spec: how the tensor will be coded; it gives the number of levels, see ``quantization_levels``.
    """
    levels = quantization_levels(statistics, spec)
    return threshold_range(kl_threshold(*statistics.magnitude_histogram(), levels), statistics, spec)


def quantization_levels(statistics: TensorStatistics, spec: QuantSpec) -> int:
    """L: 2^bits where all codes lie on one side of zero, else 2^(bits−1)."""
    return 1 << spec.bits if codes_one_side(statistics, spec) else spec.magnitude_levels


def guarded_histogram(histogram: Bins) -> Bins:
    """A copy of a magnitude histogram [n] whose bin 0 holds no more than bin 1.

    Values next to zero (of a leaky ReLU, say) pile up in bin 0 as zeros do and would decide alone.
    """
    guarded = histogram.copy()
    if guarded.size > 1:
        guarded[0] = min(guarded[0], guarded[1])
    return guarded


def kl_threshold(histogram: Bins, width: float, levels: int) -> float:
    """T of a magnitude histogram [n]; it may exceed the largest magnitude by up to 1½ bins.

    Bin 0 counts as in ``guarded_histogram``.
    """
    guarded = guarded_histogram(histogram)
    if guarded.size < levels or np.count_nonzero(guarded) < 2:
        return histogram.size * width
    divergences = kl_divergences(guarded, levels)
    if not np.isfinite(divergences).any():
        return histogram.size * width
    return (levels + last_smallest(divergences) + 0.5) * width


def kl_divergences(histogram: Bins, levels: int) -> Floats:
    """KL(i) in nats for i = levels … n, a vector [n − levels + 1], +inf where a candidate is impossible.

    Args:
        histogram: int64 counts [n], not all 0.
        levels: number of groups L, 1 … n.

    Raises:
        ValueError: a count or ``levels`` is out of range.
    """
    return search.kl_divergences(np.ascontiguousarray(histogram, np.int64), levels)
