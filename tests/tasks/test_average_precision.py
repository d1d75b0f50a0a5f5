"""Average precision against pycocotools on random detections, and in any order of the images."""

import contextlib
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from calib8.tasks.judges.average_precision import (
    AREAS,
    Matches,
    average_precisions,
    mean_average_precision,
)
from calib8.tasks.judges.decode_boxes import Detections
from calib8.tasks.judges.detection_heads import DetectionHead
from calib8.tasks.judges.detections import BoxTruth, DetectionJudge
from calib8.tasks.judges.interface import Kept

HEAD = DetectionHead("final", (400, 400), nms=None)
CLASSES = 3

Image = tuple[Detections, BoxTruth]


def boxes_of(rng: np.random.Generator, count: int) -> Any:
    side = np.exp(rng.uniform(np.log(8), np.log(200), (count, 2)))
    low = rng.uniform(0, 400 - side)
    return np.concatenate([low, low + side], axis=1)


def random_image(rng: np.random.Generator, steps: int) -> Image:
    """Truths, and detections some of which lie near them; with ``steps`` scores tie often."""
    count = int(rng.integers(0, 8))
    truth = boxes_of(rng, count)
    sizes = (truth[:, 2] - truth[:, 0]) * (truth[:, 3] - truth[:, 1])
    classes = rng.integers(0, CLASSES, count)
    crowd = rng.random(count) < 0.2
    held = BoxTruth(truth, classes, crowd, sizes * rng.uniform(0.5, 1.0, count))
    near = np.repeat(truth, 3, axis=0) + rng.normal(0, 6, (3 * count, 4))
    near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
    found = np.concatenate([near, boxes_of(rng, int(rng.integers(0, 130)))])
    kinds = np.concatenate([np.repeat(classes, 3), rng.integers(0, CLASSES, len(found) - 3 * count)])
    likely = np.where(np.arange(len(found)) < 3 * count, 0.3, 1.5)
    scores = np.ceil(rng.random(len(found)) ** likely * steps) / steps
    order = np.argsort(-scores, kind="stable")
    return Detections(found[order], scores[order], kinds[order], order, CLASSES), held


def oracle(images: list[Image]) -> tuple[Any, Any]:
    """Precision [T, R, K, A, M] of pycocotools, and its summary."""
    truths, found = [], []
    for number, (detected, truth) in enumerate(images, 1):
        for box, kind, crowd, area in zip(truth.boxes, truth.classes, truth.crowd, truth.areas, strict=True):
            truths.append(
                {
                    "id": len(truths) + 1, "image_id": number, "category_id": int(kind) + 1,
                    "bbox": [box[0], box[1], box[2] - box[0], box[3] - box[1]],
                    "iscrowd": int(crowd), "area": float(area),
                }
            )  # fmt: skip
        for box, kind, score in zip(detected.boxes, detected.classes, detected.scores, strict=True):
            side = [box[0], box[1], box[2] - box[0], box[3] - box[1]]
            found.append(
                {"image_id": number, "category_id": int(kind) + 1, "bbox": side, "score": float(score)}
            )
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {
            "info": {}, "annotations": truths, "images": [{"id": n + 1} for n in range(len(images))],
            "categories": [{"id": n + 1} for n in range(CLASSES)],
        }  # fmt: skip
        coco.createIndex()
        judge = COCOeval(coco, coco.loadRes(found), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return judge.eval["precision"], judge.stats


def records_of(images: list[Image]) -> list[Any]:
    return [DetectionJudge(HEAD).compare(*image) for image in images]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("steps", [7, 10**9])
def test_as_pycocotools_on_random_images(seed: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    images = [random_image(rng, steps) for _ in range(9)]
    precision, stats = oracle(images)
    records = records_of(images)
    matches = [record.matches for record in records]
    for area in range(len(AREAS)):
        ours = average_precisions(matches, area)
        for number in range(CLASSES):
            theirs = precision[:, :, number, area, -1]
            if number in ours:
                np.testing.assert_allclose(ours[number], theirs.mean(axis=1), rtol=0, atol=1e-12)
            else:
                assert (theirs == -1).all()
    figures = DetectionJudge(HEAD).figures(records)
    pairs = (("map", 0), ("map50", 1), ("map_small", 3), ("map_medium", 4), ("map_large", 5))
    for name, place in pairs:
        if stats[place] == -1:
            assert name not in figures
        else:
            assert figures[name] == pytest.approx(stats[place], rel=0, abs=1e-12)
    assert 0.05 < figures["map"] < 0.95  # neither all nor nothing


def image_of(found: list[list[float]], truth: list[list[float]]) -> Image:
    """Detections, the first one best, and truths of one class."""
    boxes, scores = np.array(found), 0.9 - 0.1 * np.arange(len(found))
    kinds, held = np.zeros(len(found), np.int64), np.array(truth)
    sizes = (held[:, 2] - held[:, 0]) * (held[:, 3] - held[:, 1])
    none = np.zeros(len(held), np.bool_)
    truths = BoxTruth(held, np.zeros(len(held), np.int64), none, sizes)
    return Detections(boxes, scores, kinds, np.arange(len(found)), CLASSES), truths


SPECIAL = {
    "between two truths": image_of([[10, 10, 30, 30], [14, 10, 34, 30]], [[6, 10, 26, 30], [14, 10, 34, 30]]),
    "between two truths, in the other order": image_of(
        [[10, 10, 30, 30], [6, 10, 26, 30]], [[14, 10, 34, 30], [6, 10, 26, 30]]
    ),
    "a miss at the end of small": image_of(
        [[100, 100, 132, 132], [10, 10, 30, 30]], [[10, 10, 30, 30], [50, 50, 70, 70]]
    ),
    "an object at the end of small that is not found": image_of(
        [[150, 10, 200, 60]], [[150, 10, 200, 60], [100, 100, 132, 132]]
    ),
    "an object at the end of medium that is not found": image_of(
        [[10, 100, 130, 220]], [[10, 100, 130, 220], [200, 200, 296, 296]]
    ),
    "a miss at the end of medium": image_of(
        [[200, 200, 296, 296], [10, 10, 60, 60]], [[10, 10, 60, 60], [100, 100, 150, 150]]
    ),
}
"""Equal overlaps: the last truth is taken. Areas of 32² and 96²: they count on both sides."""


@pytest.mark.parametrize("name", SPECIAL)
def test_as_pycocotools_where_figures_are_equal(name: str) -> None:
    precision, _ = oracle([SPECIAL[name]])
    [record] = records_of([SPECIAL[name]])
    for area in range(len(AREAS)):
        theirs = precision[:, :, 0, area, -1].mean(axis=1)
        ours = average_precisions([record.matches], area)
        np.testing.assert_allclose(ours.get(0, np.full(10, -1.0)), theirs, rtol=0, atol=1e-12)


def test_order_of_samples_does_not_count() -> None:
    rng = np.random.default_rng(3)
    images = [random_image(rng, 5) for _ in range(12)]
    named = [(f"{index:02}.png", record) for index, record in enumerate(records_of(images))]
    judge = DetectionJudge(HEAD)
    expected = judge.figures(Kept(named).in_order())
    for _ in range(5):
        shuffled = [named[index] for index in rng.permutation(len(named))]
        assert judge.figures(Kept(shuffled).in_order()) == expected


def test_copies_count_like_an_image_left_out() -> None:
    rng = np.random.default_rng(4)
    matches = [record.matches for record in records_of([random_image(rng, 10**9) for _ in range(6)])]
    less = average_precisions(matches, 0, [1, 1, 0, 1, 0, 1])
    kept = average_precisions([matches[index] for index in (0, 1, 3, 5)])
    assert less.keys() == kept.keys()
    for number, values in kept.items():
        np.testing.assert_allclose(less[number], values, rtol=0, atol=1e-15)


def matches_of(*, truths: int) -> Matches:
    nothing = np.zeros(0)
    flags = np.zeros((1, 10, 0), np.bool_)
    return Matches(
        nothing,
        nothing.astype(np.int64),
        flags,
        flags,
        np.zeros(truths, np.int64),
        np.ones((1, truths), np.bool_),
    )


def test_nothing_found_is_zero_and_nothing_to_find_is_no_figure() -> None:
    assert mean_average_precision(average_precisions([matches_of(truths=2)])) == (0.0, 0.0)
    assert mean_average_precision(average_precisions([matches_of(truths=0)])) is None
    assert mean_average_precision(average_precisions([])) is None


def test_perfect_detections_score_one() -> None:
    rng = np.random.default_rng(5)
    _, truth = random_image(rng, 10**9)
    truth = replace(truth, crowd=np.zeros(len(truth.boxes), np.bool_))
    same = Detections(truth.boxes, np.full(len(truth.boxes), 0.9), truth.classes, truth.classes, CLASSES)
    figures = DetectionJudge(HEAD).figures([DetectionJudge(HEAD).compare(same, truth)])
    assert figures["recall"] == figures["precision"] == 1.0
    assert figures["map"] == pytest.approx(1.0, abs=1e-12)
