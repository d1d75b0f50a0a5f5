"""Entropy: the threshold whose quantized histogram tells least about being quantized (TensorRT's method).

    H[k]        counts of |x| > 0 in n bins of width w; zeros stay out, or they alone would decide
    P           H[0 … i−1], and everything beyond added to its last bin
    Q           H[0 … i−1] in L groups, each group's sum spread over the bins of it where P is not 0
    KL(i)       Σ_{P>0} P ln(P / Q), both scaled to sum 1; +inf where P > 0 meets Q = 0
    T           (i + ½) · w of the smallest KL(i), i = L … n; of equal ones the largest i

Group g of i bins begins at bin ceil(g·i / L). Q is constant on the non-empty bins of a group, so with
S_g the group's sum of H, c_g its number of non-empty bins, P_g its sum of P and N = ΣH

    KL(i) = (Σ_{k<i} P ln P − Σ_g P_g ln(S_g / c_g)) / N − ln N + ln Σ_{k<i} H

and prefix sums of H, [H > 0] and H ln H give every candidate in O(L).
Source: S. Migacz, 8-bit inference with TensorRT, GTC 2017; docs/quantization.md settles its open points.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calib8.calibration.statistics import Bins, TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range

_CHUNK = 128
"""Candidates evaluated at once: their edges and logarithms then stay in the cache."""

Floats = npt.NDArray[np.float64]


def entropy(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range [max(min, −T), min(max, T)] (symmetric: [−T, T]) with T as above.

    T never exceeds max |x|, which it is where no candidate is finite or fewer bins than levels are in use.

    Args:
        statistics: of a tensor with a finite value other than 0.
        spec: how the tensor will be coded. L is 2^bits where all codes lie on one side of zero (an
            asymmetric spec and values of one sign), else 2^(bits−1).
    """
    one_sided = statistics.minimum >= 0 or statistics.maximum <= 0
    levels = 1 << spec.bits if one_sided and not spec.symmetric else spec.magnitude_levels
    threshold = min(kl_threshold(*statistics.magnitude_histogram(), levels), statistics.magnitude)
    if spec.symmetric:
        return Range(-threshold, threshold)
    low, high = min(statistics.minimum, 0.0), max(statistics.maximum, 0.0)
    return Range(max(low, -threshold), min(high, threshold))


def kl_threshold(histogram: Bins, width: float, levels: int) -> float:
    """T of a magnitude histogram [n]; it may exceed the largest magnitude by up to 1½ bins.

    Values next to zero (of a leaky ReLU, say) pile up in bin 0 as zeros do, so its count is first limited
    to that of bin 1.
    """
    guarded = histogram.copy()
    if guarded.size > 1:
        guarded[0] = min(guarded[0], guarded[1])
    if guarded.size < levels or np.count_nonzero(guarded) < 2:
        return histogram.size * width
    divergences = kl_divergences(guarded, levels)
    if not np.isfinite(divergences).any():
        return histogram.size * width
    kept = histogram.size - int(np.argmin(divergences[::-1]))
    return (kept + 0.5) * width


def kl_divergences(histogram: Bins, levels: int) -> Floats:
    """KL(i) in nats for i = levels … n, a vector [n − levels + 1], +inf where a candidate is impossible.

    Args:
        histogram: int64 counts [n], n ≥ levels, not all 0.
        levels: number of groups L.
    """
    counts = histogram.astype(np.float64)
    information = counts * np.log(np.where(histogram > 0, counts, 1.0))
    sums = np.concatenate([[0], np.cumsum(histogram)])
    filled = np.concatenate([[0], np.cumsum(histogram > 0)])
    kept = np.arange(levels, histogram.size + 1)
    outside = sums[-1] - sums[kept]
    cross = np.empty(kept.size)
    for start in range(0, kept.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        cross[part] = _cross_terms(kept[part], outside[part], sums, filled, levels)
    last = histogram[kept - 1] + outside
    own = np.concatenate([[0.0], np.cumsum(information)])[kept - 1] + last * np.log(np.maximum(last, 1))
    total = float(sums[-1])
    inside = np.log(np.maximum(sums[kept], 1))
    divergences: Floats = (own - cross) / total - np.log(total) + inside
    return divergences


def _cross_terms(kept: Bins, outside: Bins, sums: Bins, filled: Bins, levels: int) -> Floats:
    """Σ_g P_g ln(S_g / c_g) per candidate; −inf where some group has P_g > 0 and S_g = 0."""
    edges = (np.arange(levels + 1) * kept[:, None] + levels - 1) // levels
    group_sums = np.diff(sums[edges], axis=1)
    group_sizes = np.diff(filled[edges], axis=1)
    # The last kept bin counts as filled as soon as the outliers are put into it.
    group_sizes[:, -1] += (outside > 0) & (sums[kept] == sums[kept - 1])
    reference = group_sums.copy()
    reference[:, -1] += outside
    means = np.where(group_sums > 0, group_sums, 1) / np.maximum(group_sizes, 1)
    terms = np.where(reference > 0, reference * np.log(means), 0.0).sum(axis=1)
    impossible = ((reference > 0) & (group_sums == 0)).any(axis=1)
    return np.where(impossible, -np.inf, terms)
