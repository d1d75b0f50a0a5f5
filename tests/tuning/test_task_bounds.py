"""What records of boxes prove of a promise: figures by hand, and bounds where nothing failed."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.tasks.judges.decode_boxes import Detections
from calib8.tasks.judges.detection_heads import DetectionHead
from calib8.tasks.judges.detections import BoxTruth, DetectionJudge
from calib8.tuning.promise import Kind, Promise
from calib8.tuning.task_evidence import Pair, TaskEvidence, Wanted

JUDGE = DetectionJudge(DetectionHead("final", (400, 400), nms=None))
SAMPLES, BOXES = 10, 3


def told(kind: Kind, shift: float) -> tuple[float, float]:
    """Figure and bound where every box of the int8 model lies beside that of FP32, by a part of its width."""
    low = np.array([[50.0, 50.0], [150.0, 50.0], [250.0, 50.0]])
    boxes = np.concatenate([low, low + 40.0], axis=1)
    kinds, scores = np.zeros(BOXES, np.int64), np.array([0.9, 0.8, 0.7])
    truth = BoxTruth(boxes, kinds, np.zeros(BOXES, np.bool_), np.full(BOXES, 1600.0), labelled=False)
    records = []
    for number in range(SAMPLES):
        moved = boxes + np.array([40.0 * shift, 0.0, 40.0 * shift, 0.0])
        coded, real = (
            JUDGE.compare(Detections(found, scores - 0.001 * number, kinds, kinds, 1), truth)
            for found in (moved, boxes)
        )
        records.append(Pair(coded, real))
    return TaskEvidence(Wanted(Promise(kind, 0.5), JUDGE), ["y"], None).told(records)


@pytest.mark.parametrize("kind", ["recall", "precision", "map_ratio"])
def test_boxes_that_are_all_there_prove_what_their_number_does(kind: Kind) -> None:
    """Of n without a failure 0.05^(1/n) is proved, however alike the samples are."""
    value, bound = told(kind, 0.0)
    assert value == pytest.approx(1.0)
    assert bound == pytest.approx(0.05 ** (1 / (SAMPLES * BOXES)), abs=0.01)


@pytest.mark.parametrize(("shift", "passed"), [(0.05, 9), (0.16, 5), (0.3, 1)])
def test_a_share_of_map_is_one_over_all_thresholds(shift: float, passed: int) -> None:
    """A box beside its truth by s of its width has an IoU of (1 − s) / (1 + s)."""
    value, _ = told("map_ratio", shift)
    assert sum((1 - shift) / (1 + shift) >= 0.5 + 0.05 * step for step in range(10)) == passed
    assert value == pytest.approx(passed / 10)
