"""The entropy of the Python form that many tools carry: x ≥ 0 only, first bin dropped, zeros smoothed.

    H[k]     counts of x in 2048 equal bins over [0, a], a = max |x|; negative values are in none
    D        H without its first bin, 2047 bins
    P        D[0 … i−1], and everything beyond added to its last bin
    groups   L of floor(i / L) bins each, what is left over belongs to the last one
    Q        the sum of a group divided by its number of bins with P > 0, on all of its bins; the last bin of
             all is out of its group: it stays 0 in Q and is not counted, though its sum is
    smooth   P and Q, with z zeros among n bins: zeros become ε = 0.0001, all others lose ε·z / (n − z)
    KL(i)    Σ P ln(P / Q), both scaled to sum 1; +inf where Q is 0 everywhere
    T        (i + ½) · a / 2048 of the smallest KL(i), i = L … 2046; of equal ones the smallest i

i is an index of D and is used as one of H: T is one bin lower than what was examined. All of this is how the
form does it. L is 128 for 8 bits. Where it smooths in float32, here it is float64.
"""

from __future__ import annotations

import numpy as np

from calib8._core import layouts as native
from calib8.calibration.layouts import LayoutCounts
from calib8.calibration.ranges.smallest import first_smallest
from calib8.calibration.ranges.threshold import threshold_range
from calib8.calibration.statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range


def entropy_smooth(counts: LayoutCounts, statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range of T as above.

    T = a where no candidate is finite, as where no value lies above the first bin or there are more levels
    than bins; the form itself ends with an error there.

    Args:
        counts: in the bins of ``calib8.calibration.layouts.PYTHON``.
        statistics: of the same values, one of them finite and not 0.
        spec: how the tensor will be coded; L = 2^(bits−1).
    """
    threshold = counts.limit
    kept = counts.bins[1:].copy()
    if kept.any():
        divergences = native.divergences_smooth(kept, spec.magnitude_levels)
        if np.isfinite(divergences).any():
            best = spec.magnitude_levels + first_smallest(divergences)
            threshold = (best + 0.5) * (counts.limit / 2048)
    return threshold_range(threshold, statistics, spec)
