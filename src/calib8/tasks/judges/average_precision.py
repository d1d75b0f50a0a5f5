"""Average precision by the definition of COCO: detections matched to the truth, precision over recall.

    per image, class, area range and threshold t = 0.50, 0.55 … 0.95 of the similarity (IoU, OKS):
        detections, best score first, each take the free truth of highest similarity ≥ min(t, 1 − 1e-10);
        truth outside of the area range, or a crowd, is ignored: taken only where nothing else is near
        enough, and what takes it counts neither as hit nor as miss; so do unmatched detections outside of it
    over all images:   p(k), r(k) = TP / (TP + FP), TP / truths   of the k best detections
        AP = 1/101 Σ_{R = 0, 0.01 … 1} max { p(k) : r(k) ≥ R };   mAP = mean over classes with truth, and t

At most ``most`` detections per image and class count. Equal scores: the sample that comes first in the order
of names (of arrays: of digests), then the detection that comes first in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from calib8.tasks.judges.interface import F64, I64, Flags

THRESHOLDS: Final = np.linspace(0.5, 0.95, 10)
RECALLS: Final = np.linspace(0.0, 1.0, 101)
_NEARLY_ONE: Final = 1.0 - 1e-10

AREAS: Final = {
    "all": (0.0, 1e10),
    "small": (0.0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e10),
}
"""In pixels of the picture as it was labelled, both ends included."""


@dataclass(frozen=True)
class Matches:
    """What became of the detections of one image.

    Attributes:
        scores: float64 [d], highest first within each class.
        classes: int [d].
        hit: bool [areas, thresholds, d]: took a truth that counts.
        ignored: bool [areas, thresholds, d]: counts neither as hit nor as miss.
        truth_classes: int [g].
        counted: bool [areas, g]: truths that count.
    """

    scores: F64
    classes: I64
    hit: Flags
    ignored: Flags
    truth_classes: I64
    counted: Flags


@dataclass(frozen=True)
class Sided:
    """Detections or truths of one image, for matching.

    Attributes:
        classes: int [n].
        areas: float64 [n], square pixels of the labelled picture.
    """

    classes: I64
    areas: F64


def matched(
    scores: F64, found: Sided, truth: Sided, similarity: F64, crowd: Flags, void: Flags, most: int,
    ranges: Sequence[tuple[float, float]] = tuple(AREAS.values()),
) -> Matches:  # fmt: skip
    """Matches the detections of one image.

    Args:
        scores: float64 [d].
        found: the detections.
        truth: the truths, g of them.
        similarity: float64 [d, g].
        crowd: bool [g]: several detections may take it; ignored.
        void: bool [g]: ignored for other reasons.
        most: detections per class that count.
        ranges: of areas.
    """
    order = _best_per_class(scores, found.classes, most)
    outside = np.stack([(found.areas < low) | (found.areas > high) for low, high in ranges])
    other = np.stack([(truth.areas < low) | (truth.areas > high) for low, high in ranges])
    aside = other | crowd | void
    hit = np.zeros((len(ranges), len(THRESHOLDS), len(scores)), np.bool_)
    ignored = np.broadcast_to(outside[:, None, :], hit.shape).copy()
    for number in np.unique(found.classes[order]):
        rows = order[found.classes[order] == number]
        columns = np.flatnonzero(truth.classes == number)
        if not len(columns):
            continue
        for area in range(len(ranges)):
            front = columns[np.argsort(aside[area, columns], kind="stable")]
            taken = _taken(similarity[np.ix_(rows, front)], aside[area, front], crowd[front])
            void_hit = (taken >= 0) & aside[area, front][taken]
            hit[area][:, rows] = (taken >= 0) & ~void_hit
            ignored[area][:, rows] = np.where(taken >= 0, void_hit, outside[area, rows])
    return Matches(
        scores[order], found.classes[order], hit[:, :, order], ignored[:, :, order], truth.classes, ~aside
    )


def _best_per_class(scores: F64, classes: I64, most: int) -> I64:
    """Indices by falling score, at most ``most`` per class."""
    order = np.argsort(-scores, kind="stable")
    kept = [order[classes[order] == number][:most] for number in np.unique(classes)]
    chosen = np.concatenate(kept) if kept else np.zeros(0, np.int64)
    return np.asarray(chosen[np.argsort(-scores[chosen], kind="stable")], np.int64)


def _taken(similarity: F64, aside: Flags, crowd: Flags) -> I64:
    """Index of the truth that each detection takes, −1 for none: int [thresholds, d]; ignored truths last."""
    taken = np.full((len(THRESHOLDS), len(similarity)), -1, np.int64)
    for level, threshold in enumerate(THRESHOLDS):
        free, least = np.ones(len(aside), np.bool_), min(float(threshold), _NEARLY_ONE)
        for row in np.flatnonzero(similarity.max(axis=1) >= least):
            choice = _choice(similarity[row], free | crowd, aside, least)
            taken[level, row] = choice
            if choice >= 0:
                free[choice] = False
    return taken


def _choice(values: F64, free: Flags, aside: Flags, threshold: float) -> int:
    """The most similar free truth, the last among equals; one that counts before one that is ignored."""
    for group in (free & ~aside, free & aside):
        near = np.where(group, values, -1.0)
        best = float(near.max(initial=-1.0))
        if best >= threshold:
            return int(np.flatnonzero(near == best)[-1])
    return -1


def average_precisions(
    images: Sequence[Matches], area: int = 0, copies: Sequence[int] | None = None
) -> dict[int, F64]:
    """Class → AP float64 [thresholds], of the classes that have truths.

    Args:
        images: in the order of the names of their samples.
        area: index of the range.
        copies: how often each image counts; None: once.
    """
    if not images:
        return {}
    many = np.ones(len(images)) if copies is None else np.asarray(copies, np.float64)
    each = np.repeat(many, [len(one.scores) for one in images])
    scores, classes = (
        np.concatenate([getattr(one, name) for one in images]) for name in ("scores", "classes")
    )
    hit = np.concatenate([one.hit[area] for one in images], axis=1)
    ignored = np.concatenate([one.ignored[area] for one in images], axis=1)
    truths: dict[int, float] = {}
    for one, times in zip(images, many, strict=True):
        for number in one.truth_classes[one.counted[area]]:
            truths[int(number)] = truths.get(int(number), 0.0) + float(times)
    order = np.argsort(-scores, kind="stable")
    found: dict[int, F64] = {}
    for number, positives in sorted(truths.items()):
        rows = order[(classes[order] == number) & (each[order] > 0)]
        if positives > 0:
            found[number] = _precision(hit[:, rows] * each[rows], ~ignored[:, rows] * each[rows], positives)
    return found


def _precision(hits: F64, counted: F64, positives: float) -> F64:
    """AP per threshold of detections of one class, best first."""
    result = np.zeros(len(hits))
    if not hits.shape[1]:
        return result
    right, all_ = np.cumsum(hits, axis=1), np.cumsum(counted, axis=1)
    precision = right / (all_ + np.spacing(1))
    ceiling = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    recall = right / positives
    for level in range(len(hits)):
        places = np.searchsorted(recall[level], RECALLS, side="left")
        inside = places < recall.shape[1]
        result[level] = float(np.sum(ceiling[level, places[inside]])) / len(RECALLS)
    return result


def mean_average_precision(found: dict[int, F64]) -> tuple[float, float] | None:
    """mAP at 0.5, and mean over all thresholds; None without a truth."""
    if not found:
        return None
    table = np.stack([found[number] for number in sorted(found)])
    return float(np.mean(table[:, 0])), float(np.mean(table))
