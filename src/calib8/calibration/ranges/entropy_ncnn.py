"""ncnn's entropy (ncnn2table, method kl): ε on every bin, a group's mean on all of its bins, empty ones too.

    h[k]     shares of |x| > 0 in 2048 bins, Σh = 1; bin k holds floor((|x| / a) · 2048) = k, a = max |x|
    P        h[0 … i−1] + ε, and all shares beyond added to its last bin                       ε = 0.0001
    groups   L of i/L bins each; a bin on the border of two belongs to both, by the shares that they cover
    m_g      (Σ h over group g) / (i/L)
    Q        ε + Σ_g (share of the bin in group g) · m_g                   h without the outliers
    KL(i)    Σ P ln(P / Q), neither scaled to sum 1
    T        (i + ½) · a / 2048 of the smallest KL(i), i = L … 2047; of equal ones the smallest i

L is 128 for 8 bits, for unsigned codes as well: ncnn has none. The tool sums in float32; here it is float64,
which may choose a neighbour where the curve is flat. T itself is rounded to float32 as in the tool. Not
clipping is no candidate: T is at most 2047.5/2048 of a.
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


def entropy_ncnn(counts: LayoutCounts, statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range of T as above; T = a where there are more levels than bins.

    Args:
        counts: in the bins of ``calib8.calibration.layouts.NCNN``.
        statistics: of the same values, one of them finite and not 0.
        spec: how the tensor will be coded; L = 2^(bits−1).
    """
    divergences = native.divergences_ncnn(counts.bins, spec.magnitude_levels)
    if divergences.size == 0:
        return threshold_range(counts.limit, statistics, spec)
    kept = spec.magnitude_levels + first_smallest(divergences)
    threshold = float(np.float32((kept + 0.5) * (counts.limit / 2048)))
    return threshold_range(threshold, statistics, spec)
