"""Points: similarity and average precision against pycocotools, and every known form of the outputs."""

import contextlib
import io
from typing import Any

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from calib8.errors import DataError, UsageError
from calib8.tasks.branches import Branch, Meaning, Piece
from calib8.tasks.judges.decode_points import PointHead, Poses, find_point_head, poses
from calib8.tasks.judges.find import find_judge
from calib8.tasks.judges.keypoints import PEOPLE, KeypointJudge, PointTruth, around, similarities

SIZE = (64, 96)
JUDGE = KeypointJudge(PointHead("coordinates"))


def random_image(rng: np.random.Generator) -> tuple[Poses, PointTruth]:
    count = int(rng.integers(0, 5))
    points = rng.uniform(0, 200, (count, 1, 2)) + rng.uniform(0, 60, (count, 17, 2))
    known = rng.random((count, 17)) < rng.choice([0.0, 0.5, 1.0], (count, 1), p=[0.2, 0.3, 0.5])
    boxes = around(points)
    truth = PointTruth(points, known, boxes, rng.uniform(500, 5000, count), rng.random(count) < 0.15)
    found = np.repeat(points, 2, axis=0) + rng.normal(0, 5, (2 * count, 17, 2)) * rng.random(
        (2 * count, 1, 1)
    )
    found = np.concatenate([found, rng.uniform(0, 200, (int(rng.integers(0, 25)), 17, 2))])
    scores = np.sort(np.ceil(rng.random(len(found)) * 20) / 20)[::-1]
    low, high = found.min(axis=1), found.max(axis=1)
    return Poses(found[rng.permutation(len(found))], scores, np.prod(high - low, axis=1)), truth


def oracle(images: list[tuple[Poses, PointTruth]]) -> COCOeval:
    truths: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for number, (answer, truth) in enumerate(images, 1):
        rows = zip(truth.points, truth.labelled_points, truth.boxes, truth.areas, truth.crowd, strict=True)
        for points, known, box, area, crowd in rows:
            table = np.concatenate([points, 2 * known[:, None]], axis=1)
            truths.append(
                {
                    "id": len(truths) + 1, "image_id": number, "category_id": 1, "area": float(area),
                    "keypoints": table.reshape(-1).tolist(), "num_keypoints": int(known.sum()),
                    "bbox": [box[0], box[1], box[2] - box[0], box[3] - box[1]], "iscrowd": int(crowd),
                }
            )  # fmt: skip
        for points, score in zip(answer.points, answer.scores, strict=True):
            table = np.concatenate([points, np.ones((17, 1))], axis=1)
            found.append(
                {
                    "image_id": number, "category_id": 1, "score": float(score),
                    "keypoints": table.reshape(-1).tolist(),
                }
            )  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {
            "info": {}, "annotations": truths, "images": [{"id": n + 1} for n in range(len(images))],
            "categories": [{"id": 1}],
        }  # fmt: skip
        coco.createIndex()
        judge = COCOeval(coco, coco.loadRes(found), "keypoints")
        judge.params.areaRng, judge.params.areaRngLbl = [[0, 1e10]], ["all"]
        judge.evaluate()
        judge.accumulate()
    return judge


@pytest.mark.parametrize("seed", range(6))
def test_as_pycocotools(seed: int) -> None:
    rng = np.random.default_rng(seed)
    images = [random_image(rng) for _ in range(8)]
    judge = oracle(images)
    precision = judge.eval["precision"][:, :, 0, 0, 0]
    figures = JUDGE.figures([JUDGE.compare(*image) for image in images])
    assert figures["map"] == pytest.approx(float(precision.mean()), rel=0, abs=1e-12)
    assert figures["map50"] == pytest.approx(float(precision[0].mean()), rel=0, abs=1e-12)
    assert 0.02 < figures["map"] < 0.98
    for number, (answer, truth) in enumerate(images, 1):
        theirs = judge.ious[(number, 1)]
        if len(theirs):
            ours = similarities(answer.points, truth, np.array(PEOPLE))
            np.testing.assert_allclose(
                ours[np.argsort(-answer.scores, kind="stable")[:20]], theirs, atol=1e-12
            )


def test_the_same_points_are_all_found() -> None:
    points = np.random.default_rng(1).uniform(0, 60, (1, 5, 2)).astype(np.float32)
    answer = poses([points], PointHead("coordinates", each=2), "a")
    record = JUDGE.compare(answer, JUDGE.as_truth(answer))
    assert JUDGE.figures([record]) == {
        "oks": 1.0,
        "found": 1.0,
        "map50": pytest.approx(1.0),
        "map": pytest.approx(1.0),
    }
    away = JUDGE.compare(poses([points + 500], PointHead("coordinates", each=2), "a"), JUDGE.as_truth(answer))
    assert JUDGE.figures([away])["oks"] < 1e-6 and JUDGE.figures([away])["found"] == 0.0


def yolo_pose() -> Any:
    rows = 8 * 12 + 4 * 6 + 2 * 3
    table = np.zeros((1, 5 + 17 * 3, rows), np.float32)
    table[0, :4] = [[30], [30], [20], [30]]
    table[0, 4, 7] = 0.9
    table[0, 5:, 7] = np.arange(51)
    return table


def counted(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def coordinates(each: int, swapped: bool = False) -> PointHead:
    return PointHead("coordinates", 0, each, swapped, SIZE)


def test_poses_of_any_strides_are_found() -> None:
    """By their number where three or more levels follow each other, else where the graph shows them."""
    for strides in ((8, 16, 32, 64), (4, 8, 16), (8,)):
        rows = sum((64 // stride) * -(-96 // stride) for stride in strides)
        array, posed = np.zeros((1, 5 + 3 * 7, rows), np.float32), ["y"] if len(strides) == 1 else []
        assert find_point_head(["y"], [array], SIZE, posed) == PointHead("columns", 0, 3, size=SIZE)
    branches = [("boxes", 0, 4), ("scores", 4, 5), ("keypoints", 5, 26)]
    pieces = [Branch(kind, kind, (Piece("y", 0, 1, a, b),), "likely", "") for kind, a, b in branches]  # type: ignore[arg-type]
    fed = {"x": np.zeros((1, 3, *SIZE), np.float32)}
    found = find_judge("keypoints", ["y"], [array], fed, Meaning(tuple(pieces), "detect"))
    assert isinstance(found, KeypointJudge) and found.head.layout == "columns"
    with pytest.raises(UsageError, match="none is known to hold points"):
        find_judge("keypoints", ["y"], [array], fed)


def test_maps_that_are_too_coarse_say_so() -> None:
    with pytest.raises(UsageError, match="maps of fewer than 9 rows or columns are too coarse"):
        find_point_head(["maps"], [np.zeros((1, 5, 8, 12), np.float32)], SIZE)


@pytest.mark.parametrize(
    ("array", "head", "first"),
    [
        (yolo_pose(), PointHead("columns", 0, 3, size=SIZE), [0, 1]),
        (counted(1, 212), coordinates(2), [0, 1]),
        (counted(1, 1404, 1, 1), coordinates(3), [0, 1]),
        (counted(1, 195), coordinates(5), [0, 1]),
        (counted(1, 1, 17, 3), coordinates(3, True), [1, 0]),
        (counted(1, 17, 2), coordinates(2), [0, 1]),
    ],
)
def test_points_are_found(array: Any, head: PointHead, first: list[float]) -> None:
    found = find_point_head(["points"], [array], SIZE)
    assert found == head
    answer = poses([array], found, "a")
    assert len(answer.scores) == 1 and answer.points[0, 0].tolist() == first


def test_maps_are_scaled_to_the_input() -> None:
    maps = np.zeros((1, 3, 16, 24), np.float32)
    maps[0, 0, 4, 6] = maps[0, 1, 15, 0] = maps[0, 2, 0, 23] = 1
    head = find_point_head(["maps"], [maps], SIZE)
    answer = poses([maps], head, "a")
    assert answer.points[0].tolist() == [[26.0, 18.0], [2.0, 62.0], [94.0, 2.0]]


def test_outputs_of_another_model() -> None:
    with pytest.raises(DataError, match="does not fit the head"):
        poses([np.zeros((1, 8))], PointHead("columns", size=SIZE), "a")
    with pytest.raises(DataError, match="no number 2"):
        poses([np.zeros((1, 8))], PointHead("maps", 2), "a")
    with pytest.raises(UsageError, match="none is known to hold points"):
        find_point_head(["x"], [np.zeros((1, 8), np.float32)], SIZE)
