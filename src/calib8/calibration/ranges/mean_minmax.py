"""Mean min-max: the mean of the samples' smallest and largest values, instead of the extremes of them all.

    low, high    mean over the samples of their smallest, of their largest finite value
    asymmetric   [min(low, 0), max(high, 0)]
    symmetric    [−T, T],  T = max(|low|, |high|)

    one value a sample   min-max: the mean of the values says nothing of how large they are

One odd sample moves the range by its share only. The sums are exact integers, rounded once at the end, so
order and batches do not matter.
"""

from __future__ import annotations

from calib8.calibration.ranges.minmax import minmax
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range


def mean_minmax(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range of the mean extremes; see the top of the file.

    Args:
        statistics: of a tensor with a finite value other than 0; bins are not needed.
        spec: how the tensor will be coded; only its symmetry matters.
    """
    if statistics.finite == statistics.samples:
        return minmax(statistics, spec)
    low, high = statistics.mean_minimum, statistics.mean_maximum
    if spec.symmetric:
        threshold = max(-low, high)
        return Range(-threshold, threshold)
    return Range(min(low, 0.0), max(high, 0.0))
