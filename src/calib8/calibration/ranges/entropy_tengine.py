"""Tengine's entropy (quant_tool, -a 1): nothing smoothed; a filled bin of P that Q lacks costs 1.

    h[k]     shares of |x| > 0 in 2048 bins without the first, h[0] = 0, Σh = 1; the bin of x is
             |x| / (a / 2047) rounded to the nearest, a = max |x|
    P        h[0 … i−1], and all shares beyond added to its last bin
    groups   L of i/L bins each; a bin on the border of two belongs to both, by the shares that they cover
    v_g      (Σ h over group g) / (number of bins with h > 0 in group g, border bins by their share)
    Q        Σ_g (share of the bin in group g) · v_g where h > 0, else 0
    KL(i)    Σ_{P>0, Q>0} P ln(P / Q) + number of bins with P > 0 and Q = 0, neither scaled to sum 1
    T        (i + ½) · a / 2048 of the smallest KL(i), i = L … 2047; of equal ones the smallest i

That bins are a/2047 wide and T is taken for bins of a/2048 is the tool's. L is 128 for 8 bits. Every sum is
in float32 in the order of the tool (of a group the border bins first), a product that is added not rounded
before, as its build for x86 fuses them; P ln(P / Q) is float64. For rounding chooses where the curve is flat:
exact sums kept 1801 bins where the tool keeps 1945. Where rounding makes the last bin of P negative the tool
has no number, and i is no candidate. T itself is rounded to float32 as in the tool. Not clipping is no
candidate.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calib8._core import layouts as native
from calib8.calibration.layouts import LayoutCounts
from calib8.calibration.ranges.smallest import first_smallest
from calib8.calibration.ranges.threshold import threshold_range
from calib8.calibration.statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range


def entropy_tengine(counts: LayoutCounts, statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range of T as above; T = a where there are more levels than bins.

    Args:
        counts: in the bins of ``calib8.calibration.layouts.TENGINE``.
        statistics: of the same values, one of them finite and not 0.
        spec: how the tensor will be coded; L = 2^(bits−1).
    """
    shares = counts.bins.copy()
    shares[0] = 0
    if shares.size <= spec.magnitude_levels:
        return threshold_range(counts.limit, statistics, spec)
    kept = bins_kept(shares, spec.magnitude_levels)
    threshold = float(np.float32((kept + 0.5) * (counts.limit / 2048)))
    return threshold_range(threshold, statistics, spec)


def bins_kept(shares: npt.NDArray[np.int64], levels: int) -> int:
    """The i of the smallest KL(i), of equal ones the smallest.

    Args:
        shares: counts of the bins, more than levels.
        levels: L.
    """
    return levels + first_smallest(native.divergences_tengine(np.ascontiguousarray(shares), levels))
