"""Points of people, faces and hands: how near they lie to where they belong (object keypoint similarity).

    OKS    mean over the points that are labelled of exp(−d² / (2·A·(2σ)²))
           d: distance, A: area of the object, σ: how exactly a point of its kind can be labelled
    oks    mean over the truth's objects of the OKS of the one that is found for them, 0 where none is
    found  share of the truth's objects that are found with an OKS of at least .5
    map, map50   average precision over OKS .5 … .95, and at .5 (``average_precision``)

Objects, best score first, each take the free truth of the highest OKS. Without labels FP32's objects above
``least_score`` are the truth, and A is 0.53 times the area of the box around their points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from calib8.errors import DataError, UsageError
from calib8.requests import fit_fields
from calib8.tasks.judges.average_precision import Sided
from calib8.tasks.judges.decode_points import PointHead, Poses, poses
from calib8.tasks.judges.interface import F64, Array, Flags, check_head, mean, told
from calib8.tasks.judges.objects import ObjectRecord, Truths, compared, precisions

MOST: Final = 20
"""Objects of one image that count (maxDets of COCO)."""

PART_OF_BOX: Final = 0.53
"""Area of an object over that of the box around its points."""

PEOPLE: Final = (
    0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072, 0.062, 0.062, 0.107, 0.107, 0.087, 0.087,
    0.089, 0.089,
)  # fmt: skip
"""σ of COCO's 17 points of people."""

OTHERS: Final = 0.026
"""σ of the points of other sets: that of a nose, which can be placed exactly."""

FOUND: Final = 0.5
"""OKS from which an object is found."""


@dataclass(frozen=True)
class PointTruth:
    """The objects of one image.

    Attributes:
        points: float64 [n, k, 2], x and y in pixels of the model's input.
        labelled_points: bool [n, k]: whether a point is known.
        boxes: float64 [n, 4], corners.
        areas: float64 [n], square pixels of the model's input.
        crowd: bool [n]: stands for many objects.
        labelled: the user's labels, rather than the points of FP32.
    """

    points: F64
    labelled_points: Flags
    boxes: F64
    areas: F64
    crowd: Flags
    labelled: bool = True


@dataclass(frozen=True)
class KeypointJudge:
    """Judges points.

    Attributes:
        head: what the outputs mean.
        least_score: objects of FP32 from here on are the truth.
        sigmas: σ per point; None: COCO's for 17 points, else ``OTHERS``.
    """

    head: PointHead
    least_score: float = 0.25
    sigmas: tuple[float, ...] | None = None
    task: ClassVar[str] = "keypoints"

    def __post_init__(self) -> None:
        """Checks types.

        Raises:
            UsageError: a field of another type, or a σ that is none.
        """
        check_head(self, self.head, PointHead)
        fit_fields(self)
        if self.sigmas is not None and not all(0.0 < one < np.inf for one in self.sigmas):
            raise UsageError("sigmas", f"are {list(self.sigmas)}, not all above 0", "Give one σ per point")

    def read(self, outputs: Sequence[Array], name: str) -> Poses:
        """Objects, best score first; see ``Judge``."""
        return poses(outputs, self.head, name)

    def as_truth(self, answer: Poses) -> PointTruth:
        """Objects with a score above ``least_score``."""
        good = answer.scores > self.least_score
        points = answer.points[good]
        boxes = around(points)
        sides = boxes[:, 2:] - boxes[:, :2]
        area = PART_OF_BOX * sides[:, 0] * sides[:, 1]
        known = np.ones(points.shape[:2], np.bool_)
        return PointTruth(points, known, boxes, area, np.zeros(len(points), np.bool_), labelled=False)

    def compare(self, answer: Poses, truth: PointTruth) -> ObjectRecord:
        """Matches objects with the truth's.

        Raises:
            DataError: labels of more or fewer points than the model has, or not one σ for each.
        """
        own, wanted = answer.points.shape[1], truth.points.shape[1]
        if len(truth.points) and own != wanted:
            problem = f"hold {wanted} points for each object, the model has {own}"
            raise DataError("labels", problem, "Give labels of the points that the model was trained on")
        none = np.zeros(len(truth.points), np.int64)
        void: Flags = np.logical_not(np.any(truth.labelled_points, axis=1))
        return compared(
            answer.scores, Sided(np.zeros(len(answer.scores), np.int64), answer.areas),
            Truths(Sided(none, truth.areas), truth.crowd, void, truth.labelled),
            similarities(answer.points, truth, self._sigmas(truth.points.shape[1])),
            least_score=self.least_score, least=0.0, most=MOST,
        )  # fmt: skip

    def _sigmas(self, count: int) -> F64:
        if self.sigmas is not None:
            if len(self.sigmas) != count:
                problem = f"are {len(self.sigmas)} for {count} points"
                raise DataError("sigmas", problem, "Give a KeypointJudge with one σ per point")
            return np.asarray(self.sigmas, np.float64)
        return np.array(PEOPLE) if count == len(PEOPLE) else np.full(count, OTHERS)

    def figures(self, records: Sequence[ObjectRecord]) -> dict[str, float]:
        """Names as at the top of the file."""
        each = [value for one in records for value in one.each]
        found = mean(float(value >= FOUND) for value in each)
        return told({"oks": mean(each), "found": found, **precisions(records)})


def around(points: F64) -> F64:
    """Corners of the boxes around points [n, k, 2]."""
    if not len(points):
        return np.zeros((0, 4))
    return np.concatenate([points.min(axis=1), points.max(axis=1)], axis=1)


def similarities(points: F64, truth: PointTruth, sigmas: F64) -> F64:
    """OKS float64 [d, g] of points [d, k, 2] with a truth's.

    Of an object without a labelled point the distance to its box, made twice as large, counts.
    """
    result = np.zeros((len(points), len(truth.points)))
    for column, (goal, known, area) in enumerate(
        zip(truth.points, truth.labelled_points, truth.areas, strict=True)
    ):
        if known.any():
            apart = points - goal
        else:
            apart = _outside(points, truth.boxes[column])
            known = np.ones_like(known)
        square = np.sum(apart * apart, axis=2) / (2.0 * sigmas) ** 2 / (area + np.spacing(1)) / 2.0
        result[:, column] = np.mean(np.exp(-square[:, known]), axis=1)
    return result


def _outside(points: F64, box: F64) -> F64:
    """How far points lie outside of a box twice as large."""
    side = box[2:] - box[:2]
    low, high = box[:2] - side, box[:2] + 2.0 * side
    return np.asarray(np.maximum(0.0, low - points) + np.maximum(0.0, points - high))
