"""Min-max: the range of everything that was seen.

asymmetric   [min(min, 0), max(max, 0)]
symmetric    [−T, T],  T = max |x|
"""

from __future__ import annotations

from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range


def minmax(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range of everything that was seen; see the top of the file.

    Args:
        statistics: of a tensor with a finite value other than 0.
        spec: how the tensor will be coded; only its symmetry matters.
    """
    if spec.symmetric:
        return Range(-statistics.magnitude, statistics.magnitude)
    return Range(min(statistics.minimum, 0.0), max(statistics.maximum, 0.0))
