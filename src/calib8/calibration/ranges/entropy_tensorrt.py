"""TensorRT's entropy in its own bins and with its own threshold, half a bin beyond the last one included.

    H[k]     counts of |x| > 0 in 2048 equal bins over [0, a], a = max |x|
    KL(i)    as ``entropy`` has it, L = 128 levels, i = 128 … 2048
    T        (i + ½) · a / 2048 of the smallest KL(i); of equal ones the largest i

``entropy`` has the same formula on bins whose width is a power of two, and limits T to a. Here i = 2048 gives
T = 2048.5/2048 · a as in NVIDIA's caches: the scale 0x3c010a14 of a softmax with a = 1 is 1.0002441 / 127.
A symmetric range [−T, T] keeps that half bin; an asymmetric one has no use for it and ends at what was seen.
TensorRT's handling of zeros is not published; they are left out as in ``entropy``.
"""

from __future__ import annotations

from calib8.calibration.layouts import LayoutCounts
from calib8.calibration.ranges.entropy import kl_threshold
from calib8.calibration.ranges.threshold import unlimited_range
from calib8.calibration.statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range


def entropy_tensorrt_exact(counts: LayoutCounts, statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range of T as above; T = a where no candidate is finite or fewer than two bins are filled.

    Args:
        counts: in the bins of ``calib8.calibration.layouts.TENSORRT``.
        statistics: of the same values, one of them finite and not 0.
        spec: how the tensor will be coded; L = 2^(bits−1), for unsigned codes as well: TensorRT has none.
    """
    threshold = kl_threshold(counts.bins, counts.limit / 2048, spec.magnitude_levels)
    return unlimited_range(threshold, statistics, spec)
