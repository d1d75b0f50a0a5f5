"""The methods that choose a range from statistics, and the choice itself.

A method is a pure function of one tensor's statistics and its code; it sees no graph. ``mse-behind`` is given
the function that reads the tensor, and is ``mse`` without. To add one, write its file and its line in
``METHODS``. ``power_of_two`` is no method but what can follow one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from calib8.calibration.ranges.aciq import aciq
from calib8.calibration.ranges.aciq_tengine import aciq_tengine
from calib8.calibration.ranges.entropy import entropy
from calib8.calibration.ranges.mean_minmax import mean_minmax
from calib8.calibration.ranges.minmax import minmax
from calib8.calibration.ranges.mse import mse
from calib8.calibration.ranges.mse_behind import mse_behind
from calib8.calibration.ranges.percentile import percentile
from calib8.calibration.tensor_statistics import BINS, TensorStatistics
from calib8.qparams import FLOAT32_TINY, QuantSpec
from calib8.table import Range

RangeMethod: TypeAlias = Callable[[TensorStatistics, QuantSpec], Range]

METHODS: Final[dict[str, RangeMethod]] = {
    "minmax": minmax,
    "mean-minmax": mean_minmax,
    "percentile": percentile,
    "mse": mse,
    "entropy": entropy,
    "aciq": aciq,
    "aciq-tengine": aciq_tengine,
    "mse-behind": mse_behind,
}

BEHIND: Final = "mse-behind"
"""The method that needs the function behind a tensor."""

WITHOUT_BINS: Final = frozenset({"minmax", "mean-minmax", "aciq-tengine"})
"""The methods that need extrema and counts alone."""


def choose_range(statistics: TensorStatistics, spec: QuantSpec, method: RangeMethod) -> Range:
    """The range of one tensor by a method, for statistics of any kind.

    The range holds 0. An asymmetric one lies within the hull of 0 and the finite values seen, a symmetric
    one is [−T, T] with T at most their largest magnitude. Nothing seen, zeros only, or values so small that
    the scale would be no normal float32: [0, 0]. A constant tensor is not clipped, nor is one of which the
    method would leave no more than that.
    """
    if statistics.is_degenerate:
        return Range(0.0, 0.0)
    everything = minmax(statistics, spec)
    if not _has_scale(everything, spec):
        return Range(0.0, 0.0)
    if statistics.minimum == statistics.maximum:
        return everything
    chosen = method(statistics, spec)
    return chosen if _has_scale(chosen, spec) else everything


def _has_scale(chosen: Range, spec: QuantSpec) -> bool:
    steps = spec.magnitude_levels - 1 if spec.symmetric else spec.qmax - spec.qmin
    length = chosen.max if spec.symmetric else chosen.max - chosen.min
    return bool(np.float32(length / steps) >= FLOAT32_TINY)


def clipped_share(statistics: TensorStatistics, chosen: Range) -> float:
    """Share of the finite values that lie outside a range that holds 0: 0 … 1, 0 where nothing was seen.

    Whether anything lies beyond a bound is known exactly from the extrema. How much is read from the bins:
    a bin is outside when its centre is, and at least the extremum itself is. Without bins that is all.
    Outside [0, 0] are all values but the zeros.
    """
    if statistics.finite == 0:
        return 0.0
    if chosen.magnitude == 0.0:
        return (statistics.finite - statistics.zeros) / statistics.finite
    centres = (np.arange(BINS) + 0.5) * statistics.width
    outside = 0
    if statistics.maximum > chosen.max:
        outside += max(int(statistics.positive[centres > chosen.max].sum()), 1)
    if statistics.minimum < chosen.min:
        outside += max(int(statistics.negative[centres > -chosen.min].sum()), 1)
    return outside / statistics.finite
