"""Moving averages of the extremes of single samples, for the method ``ema``.

    first sample with a finite value    m = min,  M = max
    every later one                     m ← m + (1 − d)(min − m),  M likewise           d the decay, 0 < d < 1
    range                               [min(m, 0), max(M, 0)];  symmetric [−T, T],  T = max(|m|, |M|)

(Jacob et al., 2018.) The result depends on the order of the samples, unlike everything else here: it cannot
be merged and is not part of the statistics. A run of a model with a fixed batch is one step, with the mean of
the extremes of its samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calib8.calibration import exact_sum
from calib8.calibration.statistics import Statistics
from calib8.errors import UsageError
from calib8.parameters import parameter
from calib8.qparams import QuantSpec
from calib8.table import Range

EMA: Final = "ema"
DEFAULT_DECAY: Final = 0.99

Averages = Mapping[str, tuple[float, float]]
"""Tensor → average of the minima and of the maxima; a tensor without a finite value is missing."""


def check_decay(decay: float) -> float:
    """The decay itself.

    Raises:
        UsageError: it is not within (0, 1).
    """
    if not 0.0 < decay < 1.0:
        raise UsageError(parameter("decay", decay), "must be above 0 and below 1", "Try 0.99")
    return decay


def ema_range(average: tuple[float, float], spec: QuantSpec) -> Range:
    """The range of a tensor with the averages (m, M), see the top of the file."""
    low, high = min(average[0], 0.0), max(average[1], 0.0)
    if spec.symmetric:
        low, high = -max(-low, high), max(-low, high)
    return Range(low, high)


class MovingExtremes:
    """Follows the statistics of a run from sample to sample."""

    def __init__(self, decay: float = DEFAULT_DECAY, averages: Averages | None = None) -> None:
        """Begins a run, or goes on with the averages of one that was left."""
        self._decay = check_decay(decay)
        self._averages = dict(averages or {})
        self._before: dict[str, tuple[int, int, int]] = {}

    @property
    def averages(self) -> Averages:
        """The averages so far."""
        return dict(self._averages)

    def update(self, statistics: Statistics) -> None:
        """Takes in what came since the last call.

        Args:
            statistics: of all samples of the run so far, which began when this object was made.
        """
        for name, found in statistics.tensors.items():
            samples, minima, maxima = self._before.get(name, (0, 0, 0))
            self._before[name] = (found.samples, found.minima, found.maxima)
            new = found.samples - samples
            if new:
                low = exact_sum.mean(found.minima - minima, new)
                high = exact_sum.mean(found.maxima - maxima, new)
                self._averages[name] = self._moved(self._averages.get(name), low, high)

    def _moved(self, old: tuple[float, float] | None, low: float, high: float) -> tuple[float, float]:
        if old is None:
            return low, high
        weight = 1.0 - self._decay
        return old[0] + weight * (low - old[0]), old[1] + weight * (high - old[1])
