"""Objects of one image, boxes or points, beside those of the truth: what both judges compare and keep.

likeness    IoU or OKS of every object with every truth, float64 [d, g]
each        objects above the score, best first, each take the free truth of their class that is most like
            them: for every truth the likeness of the one that takes it, 0 where none does
map, map50  mean average precision over likenesses of .5 … .95, and at .5 (``average_precision``)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calib8.tasks.judges.average_precision import (
    AREAS,
    Matches,
    Sided,
    average_precisions,
    matched,
    mean_average_precision,
)
from calib8.tasks.judges.interface import F64, Flags

WHOLE: tuple[tuple[float, float], ...] = (AREAS["all"],)


@dataclass(frozen=True)
class ObjectRecord:
    """What is kept of one image.

    Attributes:
        matches: for average precision.
        each: likeness of every truth's object, crowds and truths that do not count left out.
        claimed: objects of the model above the score.
        labelled: the truth is the user's labels.
    """

    matches: Matches
    each: tuple[float, ...]
    claimed: int
    labelled: bool

    @property
    def truths(self) -> int:
        """How many objects of the truth count."""
        return len(self.each)

    @property
    def found(self) -> int:
        """How many of them an object was found for."""
        return sum(value > 0.0 for value in self.each)


@dataclass(frozen=True)
class Truths:
    """The objects to be found.

    Attributes:
        objects: their classes and areas.
        crowd: bool [g]: stands for many.
        void: bool [g]: does not count for other reasons.
        labelled: they are the user's labels.
    """

    objects: Sided
    crowd: Flags
    void: Flags
    labelled: bool


def compared(
    scores: F64, found: Sided, truths: Truths, likeness: F64, *, least_score: float, least: float, most: int,
    ranges: Sequence[tuple[float, float]] = WHOLE,
) -> ObjectRecord:  # fmt: skip
    """Compares the objects of one image with the truth.

    Args:
        scores: float64 [d], highest first.
        found: the objects, d of them.
        truths: those to be found, g of them.
        likeness: float64 [d, g].
        least_score: objects above it are claimed.
        least: from this likeness on a truth is taken.
        most, ranges: see ``matched``; where FP32 is the truth, no fewer objects of a class count than it
            has.
    """
    if not truths.labelled:
        most = max(most, *np.unique(truths.objects.classes, return_counts=True)[1], 0)
    matches = matched(scores, found, truths.objects, likeness, truths.crowd, truths.void, most, ranges)
    sure, counted = scores > least_score, ~(truths.crowd | truths.void)
    same = found.classes[sure][:, None] == truths.objects.classes[None, counted]
    each = _taken(np.where(same, likeness[sure][:, counted], 0.0), least)
    return ObjectRecord(matches, tuple(map(float, each)), int(np.sum(sure)), truths.labelled)


def _taken(likeness: F64, least: float) -> F64:
    """For every truth the likeness of the object that takes it."""
    result = np.zeros(likeness.shape[1])
    free = np.ones(likeness.shape[1], np.bool_)
    for values in likeness:
        open_ = np.where(free, values, 0.0)
        best = int(np.argmax(open_)) if len(open_) else 0
        if len(open_) and open_[best] > 0.0 and open_[best] >= least:
            result[best], free[best] = values[best], False
    return result


def precisions(records: Sequence[ObjectRecord], area: int = 0) -> dict[str, float | None]:
    """``map50`` and ``map`` of an area, an index of the ranges that were matched."""
    both = mean_average_precision(average_precisions([one.matches for one in records], area))
    return {"map50": None if both is None else both[0], "map": None if both is None else both[1]}
