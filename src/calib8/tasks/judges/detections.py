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

from calib8.requests import fit_fields
from calib8.tasks.judges.average_precision import AREAS, Sided
from calib8.tasks.judges.boxes import areas, overlaps
from calib8.tasks.judges.decode_boxes import Detections, detections
from calib8.tasks.judges.detection_heads import DetectionHead
from calib8.tasks.judges.interface import F64, I64, Array, Flags, check_head, told
from calib8.tasks.judges.objects import WHOLE, ObjectRecord, Truths, compared, precisions

MOST_PER_CLASS: Final = 100
"""Detections of one image and class that count (maxDets of COCO)."""


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

    def __post_init__(self) -> None:
        """Checks types."""
        check_head(self, self.head, DetectionHead)
        fit_fields(self)

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

    def compare(self, answer: Detections, truth: BoxTruth) -> ObjectRecord:
        """Matches boxes with the truth."""
        own = Sided(answer.classes, areas(answer.boxes) * truth.pixel_area)
        void = np.zeros(len(truth.boxes), np.bool_)
        wanted = Truths(Sided(truth.classes, truth.areas), truth.crowd, void, truth.labelled)
        return compared(
            answer.scores, own, wanted, overlaps(answer.boxes, truth.boxes, truth.crowd),
            least_score=self.least_score, least=self.overlap, most=MOST_PER_CLASS,
            ranges=tuple(AREAS.values()) if truth.labelled else WHOLE,
        )  # fmt: skip

    def figures(self, records: Sequence[ObjectRecord]) -> dict[str, float]:
        """Names as at the top of the file; with labels ``map_small``, ``map_medium``, ``map_large`` too."""
        truths, found = sum(one.truths for one in records), sum(one.found for one in records)
        claimed = sum(one.claimed for one in records)
        figures: dict[str, float | None] = {
            "recall": found / truths if truths else None,
            "precision": found / claimed if claimed else None,
            **precisions(records),
        }
        if records and all(one.labelled for one in records):
            for number, area in enumerate(AREAS):
                if area != "all":
                    figures[f"map_{area}"] = precisions(records, number)["map"]
        return told(figures)
