"""Labels by which nothing, or only a part, can be measured: told, and before a model runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from test_evaluate_tasks import HEIGHT, PLAIN, WIDTH, embedder
from test_truths import coco

import calib8
from calib8.data.preprocess import Preprocess
from calib8.errors import DataError
from calib8.tasks.countable import check_identities, why_no_pairs
from calib8.tasks.judges.decode_points import PointHead, Poses
from calib8.tasks.judges.detection_heads import DetectionHead
from calib8.tasks.judges.detections import DetectionJudge
from calib8.tasks.judges.embeddings import EmbeddingJudge
from calib8.tasks.judges.keypoints import KeypointJudge, PointTruth
from calib8.tasks.judges.masks import MaskHead, MaskJudge
from calib8.tasks.truths import Pictures, read_truths

DETECT = DetectionJudge(DetectionHead("columns", (64, 80)))
POINTS = KeypointJudge(PointHead("columns", size=(64, 80)))
STRETCHED = Preprocess(size=(64, 80), resize="warp")


@pytest.fixture
def pictures(tmp_path: Path) -> Pictures:
    folder = tmp_path / "images"
    folder.mkdir()
    Image.new("RGB", (120, 90)).save(folder / "a.png")
    Image.new("RGB", (50, 100)).save(folder / "b.png")
    return Pictures(folder, ("a.png", "b.png"), STRETCHED)


def box(*sides: float, **more: Any) -> dict[str, Any]:
    return {"category_id": 0, "bbox": [20, 30, *sides], **more}


def test_boxes_that_no_model_can_find(tmp_path: Path, pictures: Pictures) -> None:
    flat = coco(tmp_path, (0,), [box(0, 0), box(5, 0)])
    why = r"labels\.json: holds no object that a model could find \(2 objects: 2 without width or height\)"
    with pytest.raises(DataError, match=why):
        read_truths(DETECT, flat, pictures, 1)
    crowd = coco(tmp_path, (0,), [box(9, 9, iscrowd=1), box(0, 0)])
    with pytest.raises(DataError, match=r"2 objects: 1 without width or height, 1 of crowds"):
        read_truths(DETECT, crowd, pictures, 1)
    some = coco(tmp_path, (0,), [box(9, 9), box(0, 0)])
    assert read_truths(DETECT, some, pictures, 1).remarks == (
        "1 object of 2 has no width or height: no model can find them",
    )
    assert read_truths(DETECT, coco(tmp_path, (0,), [box(9, 9)]), pictures, 1).remarks == ()


def test_boxes_that_are_all_cut_away(tmp_path: Path, pictures: Pictures) -> None:
    cropped = Pictures(pictures.folder, pictures.files, Preprocess(size=(20, 20), resize="short-side"))
    labels = coco(tmp_path, (0,), [{"category_id": 0, "bbox": [0, 0, 3, 3]}])
    with pytest.raises(DataError, match=r"1 object: 1 cut away by the preprocessing"):
        read_truths(DETECT, labels, cropped, 1)


def test_points_of_which_none_is_labelled(tmp_path: Path, pictures: Pictures) -> None:
    blank = coco(tmp_path, (0,), [box(9, 9, area=81, keypoints=[0] * 6)])
    with pytest.raises(DataError, match=r"1 object: 1 without a labelled point"):
        read_truths(POINTS, blank, pictures, 1)
    known = coco(tmp_path, (0,), [box(9, 9, area=81, keypoints=[22, 33, 2, 0, 0, 0])])
    assert read_truths(POINTS, known, pictures, 1).remarks == ()


def test_points_of_another_set(pictures: Pictures) -> None:
    """One point would be laid over all of a model's; other numbers of them were a traceback."""
    none, three = np.zeros(1, np.bool_), np.zeros((1, 3, 2))
    for labelled in (1, 2, 5):
        known = np.ones((1, labelled), np.bool_)
        truth = PointTruth(np.zeros((1, labelled, 2)), known, np.zeros((1, 4)), np.ones(1), none)
        with pytest.raises(DataError, match=f"hold {labelled} points for each object, the model has 3"):
            POINTS.compare(Poses(three, np.ones(1), np.ones(1)), truth)


def maps(folder: Path, *values: int) -> Path:
    """A map for each picture, of one value each; of the last one half is 0."""
    folder.mkdir(exist_ok=True)
    for name, (height, width), value in zip("ab", ((90, 120), (100, 50)), values, strict=True):
        Image.fromarray(np.full((height, width), value, np.uint8)).save(folder / f"{name}.png")
    return folder


CLASSES = MaskJudge(MaskHead(axis=0, classes=3))
ONE_SCORE = MaskJudge(MaskHead(axis=0, threshold=0.5))


def test_maps_by_which_nothing_is_measured(tmp_path: Path, pictures: Pictures) -> None:
    with pytest.raises(DataError, match="masks: no pixel of the 2 maps counts: all are 255"):
        read_truths(CLASSES, maps(tmp_path / "masks", 255, 255), pictures, 3)
    with pytest.raises(DataError, match="masks: no pixel of the 2 maps is above 0: nothing is marked"):
        read_truths(ONE_SCORE, maps(tmp_path / "masks", 0, 0), pictures, 0)


@pytest.mark.parametrize(
    ("judge", "values", "why"),
    [
        (CLASSES, (0, 0), "every pixel of the 2 maps that counts has the class 0"),
        (CLASSES, (255, 2), "every pixel of the 2 maps that counts has the class 2"),
        (ONE_SCORE, (255, 1), "every pixel of the 2 maps that counts is foreground"),
    ],
)
def test_maps_of_one_class(
    tmp_path: Path, pictures: Pictures, judge: MaskJudge, values: tuple[int, int], why: str
) -> None:
    [remark] = read_truths(judge, maps(tmp_path / "masks", *values), pictures, 3).remarks
    assert remark.startswith(why)


def test_maps_that_tell_something(tmp_path: Path, pictures: Pictures) -> None:
    """No more are read than it takes; a picture that cannot be read is told in its turn."""
    marks = maps(tmp_path / "masks", 1, 0)
    (pictures.folder / "a.png").write_bytes(b"no picture")
    truths = read_truths(CLASSES, marks, pictures, 3)
    assert truths.remarks == ("every pixel of the map that counts has the class 0: what INT8 confuses with "
                              "other classes does not show",)  # fmt: skip
    with pytest.raises(DataError, match=r"a\.png"):
        truths.of("a.png")
    Image.new("RGB", (120, 90)).save(pictures.folder / "a.png")
    assert read_truths(CLASSES, marks, pictures, 3).remarks == ()


def test_identities_without_a_pair() -> None:
    assert why_no_pairs([1, 1, 2]) == ""
    assert why_no_pairs([4, 4, 4]) == ("all 3 samples have the label 4: there is no pair of two identities")
    assert "each of the 3 samples has a label of its own" in why_no_pairs([1, 2, 3])
    assert why_no_pairs([1]) == "1 label tells of no pair of samples"
    for task in ("embed", EmbeddingJudge()):
        with pytest.raises(
            DataError, match=r"labels: all 2 samples have the label 1.*Give each identity one"
        ):
            check_identities(task, [1, None, 1])
    check_identities("classify", [1, 1])
    check_identities("embed", [])


@pytest.mark.parametrize("alike", [True, False])
def test_identities_that_tell_no_pair(tmp_path: Path, alike: bool) -> None:
    folder, rng = tmp_path / "people", np.random.default_rng(1)
    folder.mkdir()
    for number in range(4):
        pixels = rng.integers(0, 256, (HEIGHT, WIDTH, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
    lines = [f"{number}.png {0 if alike else number}" for number in range(4)]
    models = [embedder(tmp_path / "float.onnx", 1.0), embedder(tmp_path / "blind.onnx", 0.5)]
    why = "all 4 samples have the label 0" if alike else "each of the 4 samples has a label of its own"
    (tmp_path / "who.txt").write_text("\n".join(lines))
    with pytest.raises(DataError, match=why):
        calib8.evaluate(
            models, folder, preprocess=PLAIN, task="embed", labels=tmp_path / "who.txt", threads=1
        )
    (folder / "labels.txt").write_text("\n".join(lines))  # found, not asked for
    first, second = calib8.evaluate(models, folder, preprocess=PLAIN, task="embed", threads=1)
    assert second.task is not None and "cosine" in second.task.against_float
    assert [why in one for one in first.warnings] == [True]
