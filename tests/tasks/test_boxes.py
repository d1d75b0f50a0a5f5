"""Overlap and NMS against plain loops."""

from typing import Any

import numpy as np
import pytest

from calib8.tasks.judges.boxes import corners, overlaps, suppressed


def overlap(left: Any, right: Any) -> float:
    wide = min(left[2], right[2]) - max(left[0], right[0])
    high = min(left[3], right[3]) - max(left[1], right[1])
    common = wide * high if wide > 0 and high > 0 else 0.0
    both = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (left, right))
    return common / (both - common) if both > common else 0.0


def slow_nms(boxes: Any, scores: Any, classes: Any, threshold: float, most: int) -> list[int]:
    kept: list[int] = []
    for index in sorted(range(len(boxes)), key=lambda row: (-scores[row], row)):
        clear = all(
            classes[index] != classes[one] or overlap(boxes[index], boxes[one]) <= threshold for one in kept
        )
        if clear and len(kept) < most:
            kept.append(index)
    return kept


def random_boxes(rng: np.random.Generator, count: int) -> Any:
    low = rng.uniform(0, 60, (count, 2))
    return np.concatenate([low, low + rng.uniform(5, 40, (count, 2))], axis=1)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("threshold", "most"), [(0.5, 300), (0.2, 300), (0.7, 5), (1.0, 300)])
def test_nms_as_a_plain_loop(seed: int, threshold: float, most: int) -> None:
    rng = np.random.default_rng(seed)
    boxes = random_boxes(rng, 60)
    scores, classes = np.round(rng.random(60), 1), rng.integers(0, 3, 60)  # scores tie
    found = suppressed(boxes, scores, classes, threshold, most)
    assert found.tolist() == slow_nms(boxes, scores, classes, threshold, most)


def test_a_box_goes_above_the_threshold_alone() -> None:
    """The IoU of a box with its half is 0.5 exactly."""
    boxes = np.array([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.0]])
    scores, classes = np.array([0.9, 0.8]), np.zeros(2, np.int64)
    assert suppressed(boxes, scores, classes, 0.5, 9).tolist() == [0, 1]
    assert suppressed(boxes, scores, classes, 0.4999, 9).tolist() == [0]


def test_overlap_as_a_plain_loop_and_of_boxes_without_area() -> None:
    rng = np.random.default_rng(1)
    left, right = random_boxes(rng, 20), random_boxes(rng, 30)
    right[3] = [9, 9, 9, 20]
    slow = [[overlap(a, b) for b in right] for a in left]
    np.testing.assert_allclose(overlaps(left, right), slow, rtol=0, atol=1e-15)
    nothing = np.zeros((1, 4))
    assert overlaps(nothing, nothing) == 0.0


def test_a_crowd_holds_what_lies_in_it() -> None:
    crowd = np.array([[0.0, 0.0, 100.0, 100.0]])
    inside = np.array([[10.0, 10.0, 20.0, 20.0]])
    assert overlaps(inside, crowd, np.array([True])) == 1.0
    assert overlaps(inside, crowd, np.array([False])) == pytest.approx(0.01)


def test_centres_become_corners() -> None:
    assert corners(np.array([[10, 20, 4, 6]])).tolist() == [[8.0, 17.0, 12.0, 23.0]]


def test_no_boxes() -> None:
    nothing = np.zeros((0, 4))
    assert overlaps(nothing, nothing).shape == (0, 0)
    assert len(suppressed(nothing, np.zeros(0), np.zeros(0, np.int64), 0.5, 10)) == 0
