"""Boxes: how many of FP32's are found again, and the average precision by COCO's definition.

    recall      share of FP32's boxes with a score above ``least_score`` for which the other model has one of
                its own above it, of the same class, with IoU ≥ ``overlap``; each counts once
    precision   share of the other model's boxes above ``least_score`` that FP32 has as well
    map, map50  mean average precision over IoU .5 … .95, and at .5 (``average_precision``)

Without labels FP32's boxes above ``least_score`` are the truth of all four.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from calib8.errors import DataError
from calib8.tasks.judges.average_precision import (
    AREAS,
    Matches,
    Sided,
    average_precisions,
    matched,
    mean_average_precision,
)
from calib8.tasks.judges.boxes import areas, overlaps
from calib8.tasks.judges.decode_boxes import Detections, detections
from calib8.tasks.judges.detection_heads import DetectionHead
from calib8.tasks.judges.interface import F64, I64, Array, Flags, told

MOST_PER_CLASS: Final = 100
"""Detections of one image and class that count (maxDets of COCO)."""

_WHOLE: Final = (AREAS["all"],)


@dataclass(frozen=True)
class BoxTruth:
    """What is in one image.

    Attributes:
        boxes: float64 [n, 4], corners in pixels of the model's input.
        classes: int64 [n].
        crowd: bool [n]: a box that stands for many objects.
        areas: float64 [n]: square pixels of the picture as it was labelled; of the outline where known.
        pixel_area: how many of its square pixels one of the model's input is.
        labelled: the user's labels, rather than the boxes of FP32.
    """

    boxes: F64
    classes: I64
    crowd: Flags
    areas: F64
    pixel_area: float = 1.0
    labelled: bool = True


@dataclass(frozen=True)
class BoxRecord:
    """What is kept of one image.

    Attributes:
        matches: for average precision.
        truths: boxes of the truth, without crowds.
        found: those found again.
        claimed: boxes of the model above the score.
        labelled: see ``BoxTruth``.
    """

    matches: Matches
    truths: int
    found: int
    claimed: int
    labelled: bool


@dataclass(frozen=True)
class DetectionJudge:
    """Judges boxes.

    Attributes:
        head: what the outputs mean.
        least_score: boxes of FP32 from here on are the truth.
        overlap: IoU from which a box is found.
    """

    head: DetectionHead
    least_score: float = 0.25
    overlap: float = 0.5

    task: ClassVar[str] = "detect"

    def read(self, outputs: Sequence[Array], name: str) -> Detections:
        """Boxes after NMS; see ``Judge``."""
        return detections(outputs, self.head, name)

    def as_truth(self, answer: Detections) -> BoxTruth:
        """Boxes with a score above ``least_score``."""
        good = answer.scores > self.least_score
        boxes = answer.boxes[good]
        return BoxTruth(
            boxes, answer.classes[good], np.zeros(len(boxes), np.bool_), areas(boxes), labelled=False
        )

    def compare(self, answer: Detections, truth: BoxTruth) -> BoxRecord:
        """Matches boxes with the truth.

        Raises:
            DataError: labels of more classes than the model has.
        """
        self._check(answer, truth)
        near = overlaps(answer.boxes, truth.boxes, truth.crowd)
        void = np.zeros(len(truth.boxes), np.bool_)
        own = areas(answer.boxes) * truth.pixel_area
        ranges = tuple(AREAS.values()) if truth.labelled else _WHOLE
        matches = matched(
            answer.scores, Sided(answer.classes, own), Sided(truth.classes, truth.areas), near,
            truth.crowd, void, MOST_PER_CLASS, ranges,
        )  # fmt: skip
        sure = answer.scores > self.least_score
        same = answer.classes[sure][:, None] == truth.classes[None, ~truth.crowd]
        found = _pairs(np.where(same, near[sure][:, ~truth.crowd], 0.0), self.overlap)
        return BoxRecord(matches, int(np.sum(~truth.crowd)), found, int(np.sum(sure)), truth.labelled)

    def _check(self, answer: Detections, truth: BoxTruth) -> None:
        highest = int(truth.classes.max(initial=-1))
        if truth.labelled and answer.class_count and highest >= answer.class_count:
            problem = f"hold the class {highest}, the model has {answer.class_count} classes"
            raise DataError("labels", problem, "Give labels of the classes that the model was trained on")

    def figures(self, records: Sequence[BoxRecord]) -> dict[str, float]:
        """Names as at the top of the file; with labels ``map_small``, ``map_medium``, ``map_large`` too."""
        truths, found = sum(one.truths for one in records), sum(one.found for one in records)
        claimed = sum(one.claimed for one in records)
        both = mean_average_precision(average_precisions([one.matches for one in records]))
        figures: dict[str, float | None] = {
            "recall": found / truths if truths else None,
            "precision": found / claimed if claimed else None,
            "map50": None if both is None else both[0],
            "map": None if both is None else both[1],
        }
        if records and all(one.labelled for one in records):
            for number, area in enumerate(AREAS):
                part = mean_average_precision(average_precisions([one.matches for one in records], number))
                if area != "all":
                    figures[f"map_{area}"] = None if part is None else part[1]
        return told(figures)


def _pairs(near: F64, least: float) -> int:
    """How many truths get a box of their own: boxes, best score first, each take the nearest free truth."""
    free = np.ones(near.shape[1], np.bool_)
    for values in near:
        open_ = np.where(free, values, -1.0)
        if len(open_) and float(open_.max()) >= least:
            free[int(np.argmax(open_))] = False
    return int(np.sum(~free))
