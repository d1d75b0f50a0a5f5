"""Labels as the truth of a task: moved into the input, and numbered as the model does."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from calib8.data.preprocess import Preprocess
from calib8.errors import Calib8Error, DataError, UsageError
from calib8.tasks.judges.ctc import CtcJudge
from calib8.tasks.judges.decode_points import PointHead
from calib8.tasks.judges.detection_heads import DetectionHead
from calib8.tasks.judges.detections import BoxTruth, DetectionJudge
from calib8.tasks.judges.embeddings import EmbeddingJudge
from calib8.tasks.judges.keypoints import KeypointJudge
from calib8.tasks.judges.masks import MaskHead, MaskJudge
from calib8.tasks.truths import Pictures, read_truths

DETECT = DetectionJudge(DetectionHead("columns", (64, 80)))
LETTERBOX = Preprocess(size=(64, 80), resize="letterbox")


@pytest.fixture
def pictures(tmp_path: Path) -> Pictures:
    folder = tmp_path / "images"
    folder.mkdir()
    Image.new("RGB", (120, 90)).save(folder / "a.png")
    Image.new("RGB", (50, 100)).save(folder / "b.png")
    return Pictures(folder, ("a.png", "b.png"), LETTERBOX)


def coco(folder: Path, ids: tuple[int, ...], annotations: list[dict[str, Any]], width: int = 120) -> Path:
    document = {
        "images": [
            {"id": 1, "file_name": "a.png", "height": 90, "width": width},
            {"id": 2, "file_name": "b.png", "height": 100, "width": 50},
        ],
        "categories": [{"id": number} for number in ids],
        "annotations": [{"id": n, "image_id": 1, **one} for n, one in enumerate(annotations)],
    }
    path = folder / "labels.json"
    path.write_text(json.dumps(document))
    return path


ONE = {"category_id": 90, "bbox": [30, 45, 60, 30], "area": 1000, "iscrowd": 0}


def test_coco_boxes_in_the_input(tmp_path: Path, pictures: Pictures) -> None:
    labels = coco(tmp_path, (1, 90), [ONE])
    truth: BoxTruth = read_truths(DETECT, labels, pictures, 2).of("a.png")
    # 90×120 becomes 60×80, two rows of padding above
    np.testing.assert_allclose(truth.boxes, [[20, 32, 60, 52]], rtol=0, atol=1e-12)
    assert truth.classes.tolist() == [1] and truth.areas.tolist() == [1000]
    assert truth.pixel_area == pytest.approx(2.25)


def test_classes_are_places_or_ids_as_the_model_counts(tmp_path: Path, pictures: Pictures) -> None:
    labels = coco(tmp_path, (1, 90), [ONE])
    for count, number in ((2, 1), (0, 1), (91, 90)):
        assert read_truths(DETECT, labels, pictures, count).of("a.png").classes.tolist() == [number]
    with pytest.raises(DataError, match="has 2 categories, the model 80 classes: labels of another model"):
        read_truths(DETECT, labels, pictures, 80)


def test_pictures_of_another_size(tmp_path: Path, pictures: Pictures) -> None:
    with pytest.raises(DataError, match=r"says 90×121 of 'a\.png', which is 90×120"):
        read_truths(DETECT, coco(tmp_path, (90,), [ONE], 121), pictures, 1)


def test_yolo_gives_the_same_boxes(tmp_path: Path, pictures: Pictures) -> None:
    folder = tmp_path / "txt"
    folder.mkdir()
    (folder / "a.txt").write_text(f"1 0.5 {60 / 90} 0.5 {30 / 90}\n")
    truth: BoxTruth = read_truths(DETECT, folder, pictures, 2).of("a.png")
    np.testing.assert_allclose(truth.boxes, [[20, 32, 60, 52]], rtol=0, atol=1e-9)
    assert truth.classes.tolist() == [1]
    assert read_truths(DETECT, folder, pictures, 0).of("a.png").classes.tolist() == [1], "not known"
    with pytest.raises(DataError, match=r"txt, a\.png: holds the class 1, the model has 1 class\."):
        read_truths(DETECT, folder, pictures, 1)


def test_objects_that_are_cut_away_do_not_count(tmp_path: Path, pictures: Pictures) -> None:
    middle = Pictures(pictures.folder, ("a.png",), Preprocess(size=(64, 64), resize="short-side"))
    left = {"category_id": 90, "bbox": [0, 45, 10, 30]}
    truth = read_truths(DETECT, coco(tmp_path, (90,), [left, ONE]), middle, 1).of("a.png")
    assert len(truth.boxes) == 1 and truth.areas.tolist() == [1000]


def test_points_in_the_input(tmp_path: Path, pictures: Pictures) -> None:
    one = {**ONE, "keypoints": [30, 45, 2, 90, 75, 1, 0, 0, 0]}
    judge = KeypointJudge(PointHead("columns", size=(64, 80)))
    truth = read_truths(judge, coco(tmp_path, (90,), [one]), pictures, 0).of("a.png")
    np.testing.assert_allclose(truth.points[0, :2], [[20, 32], [60, 52]], rtol=0, atol=1e-12)
    assert truth.labelled_points.tolist() == [[True, True, False]]
    assert truth.areas.tolist() == pytest.approx([1000 / 2.25])
    assert len(read_truths(judge, coco(tmp_path, (90,), [one]), pictures, 0).of("b.png").points) == 0


def masks(folder: Path, value: int) -> Path:
    labels = folder / "masks"
    labels.mkdir()
    for name, size in (("a", (90, 120)), ("b", (100, 50))):
        array = np.zeros(size, np.uint8)
        array[:10] = value
        Image.fromarray(array).save(labels / f"{name}.png")
    return labels


def test_maps_in_the_input(tmp_path: Path, pictures: Pictures) -> None:
    judge = MaskJudge(MaskHead(classes=4))
    truth = read_truths(judge, masks(tmp_path, 3), pictures, 0).of("a.png")
    assert truth.classes.shape == (64, 80)
    assert (truth.classes[:2] == -1).all() and (truth.classes[62:] == -1).all()  # padding
    assert (truth.classes[2:8] == 3).all() and (truth.classes[10:62] == 0).all()


@pytest.mark.parametrize(("head", "expected"), [(MaskHead(classes=4), -1), (MaskHead(threshold=0.5), 1)])
def test_255_is_void_or_what_is_looked_for(
    tmp_path: Path, pictures: Pictures, head: MaskHead, expected: int
) -> None:
    truth = read_truths(MaskJudge(head), masks(tmp_path, 255), pictures, 0).of("a.png")
    assert (truth.classes[2:8] == expected).all()


def test_labels_of_another_task(tmp_path: Path, pictures: Pictures) -> None:
    labels = coco(tmp_path, (90,), [ONE])
    with pytest.raises(DataError, match="is not a folder of masks: labels of another task"):
        read_truths(MaskJudge(MaskHead()), labels, pictures, 0)
    with pytest.raises(UsageError, match="labels of task embed are not read from files"):
        read_truths(EmbeddingJudge(), labels, pictures, 0)
    with pytest.raises(DataError, match="labels of another task"):
        read_truths(KeypointJudge(PointHead("columns")), labels, pictures, 0)
    four = masks(tmp_path, 4)
    with pytest.raises(DataError, match="holds the class 4, the model has 4 classes"):
        read_truths(MaskJudge(MaskHead(classes=4)), four, pictures, 0).of("a.png")


def texts(folder: Path, text: str) -> Path:
    path = folder / "texts.txt"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", ["a.png\tabba\nb.png\t\n", "a.png abba\n\nb.png \n"])
def test_lines_are_numbers_of_characters(tmp_path: Path, pictures: Pictures, text: str) -> None:
    first = CtcJudge(characters=("", "b", "a"))
    truths = read_truths(first, texts(tmp_path, text), pictures, 0)
    assert truths.of("a.png") == (2, 1, 1, 2) and truths.of("b.png") == ()
    last = CtcJudge(blank=-1, characters=("b", "a", "-"))
    assert read_truths(last, texts(tmp_path, text), pictures, 0).of("a.png") == (1, 0, 0, 1)


@pytest.mark.parametrize(
    ("characters", "text", "problem"),
    [
        (None, "a.png ab\nb.png b", "the characters of the model are not known"),
        (("", "a"), "a.png ab\nb.png a", "a.png: its text holds 'b', which is none of the 1 characters"),
        (("-", "a"), "a.png a-\nb.png a", "its text holds '-'"),
        (("", "a"), "a.png a", "lacks 1 of 2 images, such as 'b.png'"),
        (("", "a"), "a.png a\na.png a\nb.png a", "line 2: lists 'a.png' a second time"),
        (("", "a"), "a.png a\nb.png", "line 2: 'b.png' is not a file and its text"),
        (("", "a"), "a.png\t\nb.png\t", "holds no text for any of the 2 pictures"),
    ],
)
def test_texts_that_do_not_fit(
    tmp_path: Path, pictures: Pictures, characters: Any, text: str, problem: str
) -> None:
    with pytest.raises(Calib8Error) as caught:
        read_truths(CtcJudge(characters=characters), texts(tmp_path, text), pictures, 0)
    assert problem in str(caught.value)
