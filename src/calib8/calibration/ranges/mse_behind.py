"""MSE behind a function: the range with the smallest mean squared error of what is computed from the tensor.

    E(range) = Σ_bins n(x) · (f(x) − f(x̂))²,    x̂ = s·(q(x) − z)

where nothing but f reads the tensor: SiLU, HardSwish, GELU, LeakyReLU, PReLU, Sigmoid … What f forgets needs
no codes: SiLU is almost 0 below −8, so a range that ends there loses nothing and has finer steps. No method
that looks at x alone offers such an end.

Every bin is cut into equal parts, and f is taken at their centres. With the sums of 1, f and f² over all
parts below b, which are C₀(b), C₁(b) and C₂(b), a code v that stands for b ≤ x < b′ costs one look-up per
bound:

    ΔC₂ − 2 f(v) ΔC₁ + f(v)² ΔC₀

    symmetric, or values of one sign   512 thresholds
    asymmetric with both signs         a 32 × 32 grid of (min, max) fractions, then finer ones around its best
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from calib8.calibration.ranges.mse import mse
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import QuantSpec, activation_qparams_of_many
from calib8.table import Range

Floats = npt.NDArray[np.float64]

Function: TypeAlias = Callable[[Floats], Floats]
"""Values [points] → what is computed from them, [versions, points]: one row, or one for every slope."""

PARTS: Final = 8
"""Parts of a bin."""

_THRESHOLDS: Final = 512
_GRID: Final = 32
_REFINEMENTS: Final = 4
_TOGETHER: Final = 256
"""Candidates that are judged at once."""


def mse_behind(statistics: TensorStatistics, spec: QuantSpec, function: Function | None = None) -> Range:
    """The range with the smallest error behind a function; of equal ones the widest. Without one: ``mse``.

    Args:
        statistics: of a tensor with a finite value other than 0.
        spec: how the tensor will be coded.
        function: what alone reads the tensor; where it is no number, ``mse`` chooses.

    Raises:
        CalibrationError: the statistics have no bins.
    """
    if function is None:
        return mse(statistics, spec)
    curve = Curve(statistics, function)
    if not curve.is_finite:
        return mse(statistics, spec)
    low, high = min(statistics.minimum, 0.0), max(statistics.maximum, 0.0)
    roots = np.arange(1, _GRID + 1) / _GRID
    if spec.symmetric or low == 0.0 or high == 0.0:
        fractions = (np.arange(1, _THRESHOLDS + 1) / _THRESHOLDS) ** 2
        if spec.symmetric:
            low, high = -statistics.magnitude, statistics.magnitude
        minima, maxima = low * fractions, high * fractions
        best = _last_argmin(curve.errors(minima, maxima, spec))
        return Range(float(minima[best]), float(maxima[best]))
    low_roots, high_roots, step = roots, roots, 1.0 / _GRID
    for _ in range(_REFINEMENTS + 1):
        lows, highs = np.repeat(low_roots, high_roots.size), np.tile(high_roots, low_roots.size)
        minima, maxima = low * lows**2, high * highs**2
        best = _last_argmin(curve.errors(minima, maxima, spec))
        moves = np.arange(-3, 4) * (step / 3)
        low_roots = np.unique(np.clip(lows[best] + moves, roots[0] / 4, 1.0))
        high_roots = np.unique(np.clip(highs[best] + moves, roots[0] / 4, 1.0))
        step /= 3
    return Range(float(minima[best]), float(maxima[best]))


@dataclass(frozen=True, eq=False)
class Curve:
    """A histogram with a function of its values.

    Attributes:
        statistics: of a tensor with a finite value other than 0.
        function: of its values.
    """

    statistics: TensorStatistics
    function: Function

    @cached_property
    def _grid(self) -> tuple[Floats, float, float]:
        """Counts of the parts, ascending; the lower edge of the first one, and their width."""
        histogram, width, below = self.statistics.signed_histogram()
        beyond = histogram.size // 255 + 1  # the outermost codes lie up to half a step beyond the range
        counts = np.repeat(np.pad(histogram, beyond) / PARTS, PARTS)
        return counts, -(below + beyond) * width, width / PARTS

    @cached_property
    def _values(self) -> Floats:
        """f at the edges and the centres of the parts in turn, [versions, 2 · parts + 1]."""
        counts, first, width = self._grid
        points = first + np.arange(2 * counts.size + 1) * (width / 2.0)
        return self.function(points.astype(np.float64))

    @property
    def is_finite(self) -> bool:
        """Whether f is a number wherever values were seen."""
        return bool(np.all(np.isfinite(self._values)))

    @cached_property
    def _sums(self) -> tuple[Floats, Floats, Floats]:
        """Of 1 and f over the parts below each edge, [edges] and [versions, edges]; of f² over all parts."""
        counts, _, _ = self._grid
        centres = self._values[:, 1::2]
        ones = np.concatenate([[0.0], np.cumsum(counts)])
        firsts = np.cumsum(counts * centres, axis=1)
        return ones, np.pad(firsts, ((0, 0), (1, 0))), np.sum(counts * centres**2, axis=1)

    def errors(self, minima: Floats, maxima: Floats, spec: QuantSpec) -> Floats:
        """E of the ranges [minima, maxima], a vector [candidates], summed over all values and versions."""
        parts = range(0, minima.size, _TOGETHER)
        pieces = [slice(first, first + _TOGETHER) for first in parts]
        return np.concatenate([self._errors(minima[piece], maxima[piece], spec) for piece in pieces])

    def _errors(self, minima: Floats, maxima: Floats, spec: QuantSpec) -> Floats:
        scales, points = activation_qparams_of_many(minima, maxima, spec)
        codes = np.arange(spec.qmin, spec.qmax + 1) - points[:, None].astype(np.float64)
        scales = scales[:, None].astype(np.float64)
        _, first, width = self._grid
        ones, firsts, seconds = self._sums
        bounds = (scales * (codes[:, 1:] - 0.5) - first) / width
        values = (scales * codes - first) / (width / 2.0)
        total: Floats = np.zeros(minima.size)
        below = _differences(_at(ones, bounds), ones[-1])
        for row, sums, second in zip(self._values, firsts, seconds, strict=True):
            f = _at(row, values)
            inside = 2.0 * f * _differences(_at(sums, bounds), sums[-1]) - f * f * below
            total += second - np.sum(inside, axis=1)
        return total


def _at(table: Floats, places: Floats) -> Floats:
    """The table between its entries, and beyond its ends what is there."""
    clipped = np.clip(places, 0.0, table.size - 1.0)
    index = np.minimum(clipped.astype(np.int64), table.size - 2)
    lower = table[index]
    result: Floats = lower + (clipped - index) * (table[index + 1] - lower)
    return result


def _differences(sums: Floats, everything: float) -> Floats:
    """What lies between the bounds, below the first and above the last one: [candidates, bounds + 1]."""
    result: Floats = np.diff(sums, axis=1, prepend=0.0, append=everything)
    return result


def _last_argmin(errors: Floats) -> int:
    """Index of the smallest error, the last of equal ones."""
    return errors.size - 1 - int(np.argmin(errors[::-1]))
