"""MXNet's entropy (calib_mode='entropy'): 8001 signed bins with zero in the middle one, 255 levels.

    H[k]     counts of x in 8001 equal bins over [−a, a], a = max |x|, zeros included; the middle is bin 4000
    kept     bins 4000 − i … 4000 + i
    P        H of them, and everything beyond added to the first and the last
    D        H of them, 0 in the first
    groups   L of floor((2i + 1) / L) bins each, what is left over belongs to the last one
    Q        (Σ D over the group) / (number of its bins with D > 0) where P > 0, else 0
    smooth   P and Q, with z zeros among n bins: zeros become ε = 0.0001, all others lose ε·z / (n − z)
    KL(i)    Σ P ln(P / Q), both scaled to sum 1; +inf where Q is 0 everywhere
    T        upper edge of bin 4000 + i for the smallest KL(i), i = ⌊L/2⌋ … 4000; of equal ones the first

L is 255, or 511 for values ≥ 0 in unsigned codes (MXNet's "auto" and "uint8"); in general 2^bits − 1 and
2^(bits+1) − 1. MXNet lets the bins grow with the data, which depends on the order of the images; here a is
known before counting. Its float32 sums are float64 here.
"""

from __future__ import annotations

import numpy as np

from calib8._core import layouts as native
from calib8.calibration.layouts import LayoutCounts, equal_edges
from calib8.calibration.ranges.smallest import first_smallest
from calib8.calibration.ranges.threshold import threshold_range
from calib8.calibration.statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range


def entropy_mxnet(counts: LayoutCounts, statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range of T as above; T = a where no candidate is finite or there are more levels than bins.

    Args:
        counts: in the bins of ``calib8.calibration.layouts.MXNET``.
        statistics: of the same values, one of them finite and not 0.
        spec: how the tensor will be coded.
    """
    levels = mxnet_levels(statistics, spec)
    divergences = native.divergences_mxnet(counts.bins, levels)
    threshold = counts.limit
    if np.isfinite(divergences).any():
        half = levels // 2 + first_smallest(divergences)
        edges = equal_edges(-counts.limit, counts.limit, counts.bins.size)
        threshold = float(edges[counts.bins.size // 2 + half + 1])
    return threshold_range(threshold, statistics, spec)


def mxnet_levels(statistics: TensorStatistics, spec: QuantSpec) -> int:
    """L: twice as many where no code would be spent on negative values."""
    unsigned = statistics.minimum >= 0.0 and not spec.symmetric
    return (1 << (spec.bits + unsigned)) - 1
