"""The running sums of one model that is evaluated: in any order they add up to the same bits.

    counts    integers
    energies  Σ r² and Σ (r − y)² of each sample in float64, and the sum of these without any rounding

So an evaluation does not depend on batches, and parts of the data may be evaluated by several machines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import CrashError

Array = npt.NDArray[Any]

_EXPONENT: Final = 1074
"""Every finite float64 is a multiple of 2^−1074."""


@dataclass
class ExactSum:
    """A sum of float64 values.

    Attributes:
        total: of the finite ones, in units of 2^−1074.
        finite: all of them were.
    """

    total: int = 0
    finite: bool = True

    def add(self, value: float) -> None:
        """One more value."""
        if math.isfinite(value):
            numerator, denominator = value.as_integer_ratio()  # a power of two
            self.total += numerator << (_EXPONENT + 1 - denominator.bit_length())
        else:
            self.finite = False

    def joined(self, other: ExactSum) -> ExactSum:
        """Of the values of both."""
        return ExactSum(self.total + other.total, self.finite and other.finite)

    @property
    def value(self) -> float:
        """The sum, rounded once; NaN where a value was not finite."""
        return self.total / (1 << _EXPONENT) if self.finite else math.nan


@dataclass
class Energies:
    """Signal and noise of one output or branch."""

    signal: ExactSum = field(default_factory=ExactSum)
    noise: ExactSum = field(default_factory=ExactSum)

    def add(self, signal: float, noise: float) -> None:
        """Those of a sample."""
        self.signal.add(signal)
        self.noise.add(noise)

    def joined(self, other: Energies) -> Energies:
        """Of the samples of both."""
        return Energies(self.signal.joined(other.signal), self.noise.joined(other.noise))

    @property
    def sqnr_db(self) -> float | None:
        """``10 log10(signal / noise)``; None where there is no signal or no noise to speak of."""
        return sqnr_db(self.signal.value, self.noise.value)

    @property
    def why_no_sqnr(self) -> str:
        """Why there is none, in words that stand in its place; empty where there is one."""
        if self.sqnr_db is not None:
            return ""
        signal, noise = self.signal.value, self.noise.value
        if noise == 0.0:
            return "without a difference"
        return (
            "without a signal: FP32 is 0 throughout, INT8 is not" if signal == 0.0 < noise else "not finite"
        )


@dataclass
class Tally:
    """Of one model.

    Attributes:
        images: samples seen.
        labelled, top1, top5: samples with a label, and those of them that are right.
        above, below: those whose class is the one beside the label.
        classes: that the model knows.
        classified, agreeing: samples with classes, and those whose best is the reference's.
        outputs: energies of all float outputs together.
        branches: of every branch; None where they are not known.
        not_finite: samples for which an output is NaN or infinite.
        first_not_finite: the lowest of their names; empty without.
        labels_asked: a label beyond the classes is an error.
        misfit: the label that does not fit, of several that of the lowest name; empty where all do. Labels
            do not count then.
        crash: what ended the runtime.
    """

    images: int = 0
    labelled: int = 0
    top1: int = 0
    top5: int = 0
    above: int = 0
    below: int = 0
    classes: int = 0
    classified: int = 0
    agreeing: int = 0
    outputs: Energies = field(default_factory=Energies)
    branches: list[Energies] | None = None
    not_finite: int = 0
    first_not_finite: str = ""
    labels_asked: bool = True
    misfit: str = ""
    crash: CrashError | None = None

    def joined(self, other: Tally) -> Tally:
        """Of the samples of both; a model that ended its runtime in one of them has no figures."""
        counts = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        found = Tally(
            **counts,
            classes=max(self.classes, other.classes),
            outputs=self.outputs.joined(other.outputs),
            branches=_joined(self.branches, other.branches),
            first_not_finite=min(filter(None, (self.first_not_finite, other.first_not_finite)), default=""),
            labels_asked=self.labels_asked,
            misfit=lowest_text(self.misfit, other.misfit),
            crash=_either(self.crash, other.crash),
        )
        if found.misfit:
            found.labelled = 0
        return found

    def does_not_fit(self, told: str) -> None:
        """A label that is not one of the model's classes, in words that begin with its sample's name."""
        self.misfit = lowest_text(self.misfit, told)
        self.labelled = 0


_COUNTS: Final = (
    "images",
    "labelled",
    "top1",
    "top5",
    "above",
    "below",
    "classified",
    "agreeing",
    "not_finite",
)


def lowest_text(*texts: str) -> str:
    """The first in the order in which people count: ``a[9]`` before ``a[10]``; empty ones are none."""
    return min(filter(None, texts), key=_counting, default="")


def _counting(text: str) -> tuple[list[str | int], str]:
    # Every second piece is a number, so that pieces of one kind meet.
    pieces = re.split(r"(\d+)", text)
    return [int(piece) if place % 2 else piece for place, piece in enumerate(pieces)], text


def _either(first: CrashError | None, second: CrashError | None) -> CrashError | None:
    return min(filter(None, (first, second)), key=lambda crash: crash.text, default=None)


def _joined(first: list[Energies] | None, second: list[Energies] | None) -> list[Energies] | None:
    if first is None or second is None:
        return first if second is None else second
    return [one.joined(other) for one, other in zip(first, second, strict=True)]


def by_sample(*outputs: Sequence[Array], rows: int) -> list[tuple[list[Array], ...]]:
    """Outputs of several models for a batch, sample by sample; at once where axis 0 does not divide."""
    arrays = [array for one in outputs for array in one]
    if rows < 2 or any(not array.ndim or array.shape[0] % rows for array in arrays):
        return [tuple(list(one) for one in outputs)]
    split = [[np.split(array, rows) for array in one] for one in outputs]
    return [tuple([parts[row] for parts in one] for one in split) for row in range(rows)]


def sqnr_db(signal: float, noise: float) -> float | None:
    """``10 log10(signal / noise)``; None where there is no signal or no noise to speak of."""
    if not signal > 0 or not noise > 0 or not math.isfinite(noise):
        return None
    return 10.0 * math.log10(signal / noise)
