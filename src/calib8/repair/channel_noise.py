"""Factors per channel that make rounding noise least: that of activations against that of weights.

    s        a factor per class of channels (passes/channel_classes)         x = ln s
    R        range of a tensor        max s h − min s l                      h, l: highest, lowest value
    D        step of a weight row     max |W| / s / 127
    J(x) =   Σ tensors  (R / 255)² / 12 · Σ channels  i / s²
           + Σ layers   mean over outputs of  D² / 12 · taps · (Σ inputs  s² m) / P

    i        what noise on a channel does:  Σ readers  mean over outputs of  Σ taps W² / P
    m, P     mean square of a layer's input channel and of its output channel

The louder a channel, the more of the codes of its tensor it has, and the finer is what it carries; but the
smaller are the weights that read it beside the others of their row, and the coarser. J knows both. Maxima
are taken as norms of order 16, so that J is smooth. Its derivative by every x has a part that rises with s,
at most as s¹⁶, and one that falls, at most as s⁻¹⁶; where they are equal, J is least:

    dJ/dx = rising − falling        x ← x + ln (falling / rising) / 20        until nothing moves

Factors are rounded to eighths of a power of two, so that the last bits of a processor's logarithm do not
matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.passes.channel_classes import Classes
from calib8.passes.fold_affine import Vector

ORDER: Final = 16
"""Of the norms that stand for maxima."""

MOST_STEPS: Final = 200
STILL: Final = 1e-3
"""Largest change of x below which nothing moves any more."""

DAMPING: Final = 20.0
"""More than the sum of both orders with which one channel's parts can rise and fall, 16 and 2."""

LARGEST: Final = 1e3
"""Factors are 1/1000 … 1000."""

PARTS: Final = 8
"""Parts of a power of two that factors are rounded to."""

_TINY: Final = 1e-200


@dataclass(frozen=True)
class Slopes:
    """Both parts of the derivative of J.

    Attributes:
        rising, falling: 0 or more, float64 [classes].
    """

    rising: Vector
    falling: Vector


@dataclass(frozen=True)
class TensorTerm:
    """A tensor with codes.

    Attributes:
        classes: of its channels, int64 [channels].
        above, below: how far each channel reaches above and below zero, float64 [channels], 0 or more.
        importance: i of every channel, float64 [channels].
    """

    classes: Classes
    above: Vector
    below: Vector
    importance: Vector

    def noise(self, factors: Vector, slopes: Slopes) -> float:
        """The term of J; adds both parts of its derivative by x to ``slopes``."""
        s = factors[self.classes]
        largest = max(float(np.max(self.above)), float(np.max(self.below)), _TINY)
        high, by_high = _norm(s * self.above / largest)
        low, by_low = _norm(s * self.below / largest)
        width, heard = high + low, self.importance / (s * s)
        share = (largest / 255.0) ** 2 / 12.0
        total = float(np.sum(heard))
        np.add.at(slopes.rising, self.classes, 2.0 * share * width * total * (by_high + by_low))
        np.add.at(slopes.falling, self.classes, 2.0 * share * width * width * heard)
        return share * width * width * total


@dataclass(frozen=True)
class LayerTerm:
    """A layer with coded weights.

    Attributes:
        classes: of what it reads, int64 [groups, inputs of a group].
        magnitudes: largest |weight| of its taps to the power ``ORDER``, float64 [groups, outputs, inputs].
        power: m, float64 [groups, inputs of a group].
        share: what D² · Σ s² m of an output counts, float64 [groups, outputs].
    """

    classes: Classes
    magnitudes: Vector
    power: Vector
    share: Vector

    def noise(self, factors: Vector, slopes: Slopes) -> float:
        """The term of J; adds both parts of its derivative by x to ``slopes``."""
        s = factors[self.classes]
        inverse = s**-ORDER
        rows = np.einsum("goi,gi->go", self.magnitudes, inverse, optimize=True) + _TINY
        squares = self.share * rows ** (2.0 / ORDER)
        heard, steps = self.power * s * s, np.sum(squares, axis=1)
        total = np.sum(heard, axis=1)
        back = np.einsum("goi,go->gi", self.magnitudes, squares / rows, optimize=True)
        np.add.at(slopes.rising, self.classes, 2.0 * heard * steps[:, None])
        np.add.at(slopes.falling, self.classes, 2.0 * inverse * back * total[:, None])
        return float(np.sum(steps * total))


@dataclass(frozen=True)
class LeastNoise:
    """What was found.

    Attributes:
        factors: per class, float64 [classes].
        before, after: J without and with them.
    """

    factors: Vector
    before: float
    after: float


def least_noise(terms: Sequence[TensorTerm | LayerTerm], free: npt.NDArray[np.bool_]) -> LeastNoise:
    """The factors of least J.

    Args:
        terms: of J.
        free: which classes may have a factor, bool [classes]; the others have 1.
    """
    x, limit = np.zeros(free.size), np.log(LARGEST)
    before = noise_of(terms, np.ones(free.size))[0]
    for _ in range(MOST_STEPS):
        slopes = noise_of(terms, np.exp(x))[1]
        moves = free & (slopes.rising > 0.0) & (slopes.falling > 0.0)
        ratio = np.where(moves, slopes.falling, 1.0) / np.where(moves, slopes.rising, 1.0)
        old, x = x, np.clip(x + np.log(ratio) / DAMPING, -limit, limit)
        if np.max(np.abs(x - old), initial=0.0) < STILL:
            break
    factors: Vector = np.exp2(np.round(PARTS * x / np.log(2.0)) / PARTS)
    return LeastNoise(factors, before, noise_of(terms, factors)[0])


def noise_of(terms: Sequence[TensorTerm | LayerTerm], factors: Vector) -> tuple[float, Slopes]:
    """J, and its derivative by x in two parts."""
    slopes = Slopes(np.zeros(factors.size), np.zeros(factors.size))
    return sum(term.noise(factors, slopes) for term in terms), slopes


def _norm(values: Vector) -> tuple[float, Vector]:
    """The norm of order ``ORDER`` of values that are 0 or more, and its derivative by their logarithms."""
    largest = float(np.max(values, initial=0.0))
    if largest == 0.0:
        return 0.0, np.zeros(values.size)
    powers = (values / largest) ** ORDER
    total = float(np.sum(powers))
    norm = largest * total ** (1.0 / ORDER)
    return norm, norm * powers / total
