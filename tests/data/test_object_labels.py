"""Labels of objects and pixels: COCO JSON, YOLO text, PNGs; and everything that can be wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from calib8.data.coco_labels import read_coco
from calib8.data.labels import read_label_list
from calib8.data.mask_labels import mask_file, read_mask
from calib8.data.object_labels import match_names, upright_size
from calib8.data.yolo_labels import read_yolo
from calib8.errors import DataError

FILES = ["a.jpg", "sub/b.jpg"]
SIZES = {"a.jpg": (100, 200), "sub/b.jpg": (50, 60)}

Document = dict[str, Any]


def document() -> Document:
    return {
        "images": [
            {"id": 7, "file_name": "a.jpg", "height": 100, "width": 200},
            {"id": 3, "file_name": "b.jpg", "height": 50, "width": 60},
            {"id": 9, "file_name": "elsewhere.jpg", "height": 50, "width": 60},
        ],
        "categories": [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 18, "bbox": [10, 20, 30, 40], "area": 900.5,
             "iscrowd": 1},
            {"id": 2, "image_id": 7, "category_id": 1, "bbox": [0, 0, 5, 6]},
            {"id": 3, "image_id": 9, "category_id": 1, "bbox": [0, 0, 5, 6]},
        ],
    }  # fmt: skip


def written(folder: Path, content: Document | str) -> Path:
    path = folder / "labels.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_coco(tmp_path: Path) -> None:
    labels = read_coco(written(tmp_path, document()), FILES)
    assert labels.category_ids == (1, 18) and labels.remarks == () and labels.sizes == SIZES
    found = labels.objects["a.jpg"]
    assert found.classes.tolist() == [1, 0] and found.crowd.tolist() == [True, False]
    assert found.boxes.tolist() == [[10, 20, 40, 60], [0, 0, 5, 6]] and found.areas.tolist() == [900.5, 30]
    assert len(labels.objects["sub/b.jpg"].classes) == 0 and found.points is None


def test_coco_points(tmp_path: Path) -> None:
    content = document()
    content["annotations"][0]["keypoints"] = [1, 2, 2, 3, 4, 0]
    labels = read_coco(written(tmp_path, content), FILES, points=True)
    points = labels.objects["a.jpg"].points
    assert points is not None and points.tolist() == [[[1, 2, 2], [3, 4, 0]], [[0, 0, 0], [0, 0, 0]]]
    empty = labels.objects["sub/b.jpg"].points
    assert empty is not None and empty.shape == (0, 2, 3)


def test_boxes_beyond_the_picture_are_cut_and_told(tmp_path: Path) -> None:
    content = document()
    content["annotations"][0]["bbox"] = [190, 90, 30, 9]
    content["annotations"][1]["bbox"] = [-0.5, 0, 5, 6]
    labels = read_coco(written(tmp_path, content), FILES)
    assert labels.objects["a.jpg"].boxes.tolist() == [[190, 90, 200, 99], [0, 0, 4.5, 6]]
    [remark] = labels.remarks
    assert remark.startswith("1 box reaches beyond its picture and is cut: ")
    assert remark.endswith("a.jpg, annotation 1")
    content["annotations"][1]["bbox"] = [-9, 0, 15, 6]
    [remark] = read_coco(written(tmp_path, content), FILES).remarks
    assert remark.startswith("2 boxes reach beyond their picture and are cut, such as ")


def spoilt(change: Callable[[Document], Any]) -> Document:
    content = document()
    change(content)
    return content


def changed(place: int, **fields: object) -> Document:
    """With other fields of an annotation."""
    return spoilt(lambda d: d["annotations"][place].update(fields))


def one_with_points() -> Document:
    """Another annotation has null in their place."""
    content = changed(1, keypoints=[1, 1, 1])
    content["annotations"][0]["keypoints"] = None
    return content


def other_image(place: int, **fields: object) -> Document:
    return spoilt(lambda d: d["images"][place].update(fields))


@pytest.mark.parametrize(
    ("content", "points", "problem"),
    [
        ("{", False, "cannot be read"),
        ("[]", False, "has no list 'images'"),
        (spoilt(lambda d: d.pop("annotations")), False, "has no list 'annotations'"),
        (other_image(1, id=7), False, "the image id 7 is given twice"),
        (changed(1, id=1), False, "the annotation id 1 is given twice"),
        (spoilt(lambda d: d["categories"][0].update(id=1)), False, "the category id 1 is given twice"),
        (spoilt(lambda d: d["categories"][0].pop("id")), False, "category 0 of the list has no id"),
        (other_image(1, file_name="a.jpg"), False, "names 'a.jpg' a second time"),
        (other_image(1, file_name="c.jpg"), False, "lacks 1 of 2 images, such as 'sub"),
        (spoilt(lambda d: d["images"][0].pop("width")), False, "image 'a.jpg' has no width and height"),
        (changed(0, image_id=5), False, "annotation 1 names the image_id 5"),
        (changed(0, category_id=5), False, "annotation 1 names the category_id 5"),
        (spoilt(lambda d: d["annotations"][0].pop("bbox")), False, "labels of another task"),
        (changed(0, bbox=[1, 2, -3, 4]), False, "is not a box"),
        (changed(0, bbox=[1, 2, "w", 4]), False, "its bbox holds 'w'"),
        (changed(0, bbox=[300, 2, 3, 4]), False, "outside of the picture of 100×200"),
        (spoilt(lambda d: d.update(annotations=[])), False, "holds no object for any of the 2 pictures"),
        (spoilt(lambda d: None), True, "holds no keypoints: labels of another task"),
        (changed(0, keypoints=[1, 2]), True, "holds keypoints of 2 numbers"),
        (changed(0, image_id=[7]), False, "annotation 1 names the image_id [7]"),
        (changed(0, category_id={"id": 1}), False, "annotation 1 names the category_id {'id': 1}"),
        (changed(0, category_id=None), False, "annotation 1 names the category_id None"),
        (changed(0, bbox=[10**400, 2, 3, 4]), False, "which is not a number"),
        (changed(0, keypoints=None), True, "holds no keypoints: labels of another task"),
        (one_with_points(), True, "annotation 1: has keypoints that are no list"),
    ],
)  # fmt: skip
def test_coco_files_that_do_not_fit(
    tmp_path: Path, content: Document | str, points: bool, problem: str
) -> None:
    with pytest.raises(DataError) as caught:
        read_coco(written(tmp_path, content), FILES, points=points)
    assert problem in str(caught.value) and "labels.json" in str(caught.value)


def test_a_name_that_several_folders_hold_is_not_guessed() -> None:
    assert match_names(["x/a.jpg"], ["val/a.jpg"], "l") == {"x/a.jpg": "val/a.jpg"}
    with pytest.raises(DataError, match="lacks 1 of 1 images"):
        match_names(["x/a.jpg"], ["val/a.jpg", "train/a.jpg"], "l")


def yolo(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = folder / (name.replace("__", "/") + ".txt")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


def test_yolo(tmp_path: Path) -> None:
    folder = yolo(tmp_path, a="2 0.5 0.5 0.1 0.2\n\n0 0.1 0.1 0.9 0.1 0.9 0.6 0.1 0.6 \n")
    labels = read_yolo(folder, SIZES)
    found = labels.objects["a.jpg"]
    assert found.classes.tolist() == [2, 0]
    np.testing.assert_allclose(found.boxes, [[90, 40, 110, 60], [20, 10, 180, 60]], rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.areas, [400, 8000], rtol=0, atol=1e-9)
    assert len(labels.objects["sub/b.jpg"].classes) == 0 and labels.remarks == ()


def test_yolo_files_beside_each_other_and_in_folders(tmp_path: Path) -> None:
    flat = tmp_path / "x"
    flat.mkdir()
    assert len(read_yolo(yolo(flat, b="0 .5 .5 .1 .1"), SIZES).objects["sub/b.jpg"].classes) == 1
    nested = tmp_path / "y"
    nested.mkdir()
    assert len(read_yolo(yolo(nested, sub__b="0 .5 .5 .1 .1"), SIZES).objects["sub/b.jpg"].classes) == 1


def test_yolo_points(tmp_path: Path) -> None:
    folder = yolo(tmp_path, a="0 .5 .5 .2 .2 .5 .5 2 .1 .1 0", sub__b="")
    points = read_yolo(folder, SIZES, points=True).objects["a.jpg"].points
    assert points is not None and points.tolist() == [[[100, 50, 1], [20, 10, 0]]]
    two = tmp_path / "two"
    two.mkdir()
    found = read_yolo(yolo(two, a="0 .5 .5 .2 .2 .5 .5 0 0"), SIZES, points=True).objects["a.jpg"].points
    assert found is not None and found.tolist() == [[[100, 50, 1], [0, 0, 0]]]


def test_yolo_boxes_beyond_the_picture(tmp_path: Path) -> None:
    labels = read_yolo(yolo(tmp_path, a="0 .95 .5 .2 .2"), SIZES)
    assert labels.objects["a.jpg"].boxes[0, 2] == 200
    assert len(labels.remarks) == 1 and "line 1" in labels.remarks[0]


@pytest.mark.parametrize(
    ("text", "points", "problem"),
    [
        ("cat .5 .5 .1 .1", False, "are not numbers"),
        ("1.5 .5 .5 .1 .1", False, "'1.5' is not a class number"),
        ("-1 .5 .5 .1 .1", False, "'-1' is not a class number"),
        ("1e30 .5 .5 .1 .1", False, "'1e30' is not a class number"),
        ("nan .5 .5 .1 .1", False, "line 1: holds 'nan', which is not a finite number"),
        ("0 nan .5 .1 .1", False, "line 1: holds 'nan', which is not a finite number"),
        ("0 .5 .5 .1 inf", False, "line 1: holds 'inf', which is not a finite number"),
        ("0 .5 .5 .1", False, "holds 4 numbers"),
        ("0 .5 .5 .1 .1 .9", False, "holds 6 numbers"),
        ("0 320 240 50 50", False, "which is not a part of a picture but pixels"),
        ("0 1.4 .5 .1 .1", False, "lies outside of the picture"),
        ("0 .5 .5 -.1 .1", False, "is not a box"),
        ("0 .5 .5 .1 .1", True, "not a box with points: labels of another task"),
        ("0 .5 .5 .1 .1 .2 .2 .3 .3 .1", True, "holds 5 numbers behind the box"),
        ("", False, "holds no object for any of the 2 pictures"),
    ],
)
def test_yolo_lines_that_do_not_fit(tmp_path: Path, text: str, points: bool, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        read_yolo(yolo(tmp_path, a=text), SIZES, points=points)
    assert problem in str(caught.value)


def test_a_folder_of_other_labels(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no file for any of the 2 pictures, such as 'a\.txt'"):
        read_yolo(yolo(tmp_path, other="0 .5 .5 .1 .1"), SIZES)


def test_masks(tmp_path: Path) -> None:
    classes = np.arange(12, dtype=np.uint8).reshape(3, 4)
    palette = Image.fromarray(classes).convert("P")
    palette.putdata(list(range(12)))
    palette.save(tmp_path / "a.png")
    Image.fromarray(classes).save(tmp_path / "b.png")
    for file in ("a.jpg", "sub/b.jpg"):
        assert read_mask(mask_file(tmp_path, file), (3, 4)).tolist() == classes.tolist()
    with pytest.raises(DataError, match=r"is 3×4, its picture 3×5"):
        read_mask(tmp_path / "a.png", (3, 5))
    Image.new("RGB", (4, 3)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match="is a picture of colours"):
        read_mask(tmp_path / "a.png", (3, 4))
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\njunk")
    with pytest.raises(DataError, match="cannot be decoded") as refused:
        read_mask(tmp_path / "a.png", (3, 4))
    assert refused.value.cure == "Repair the label, or leave its picture out", "--skip-bad is for pictures"
    with pytest.raises(DataError, match=r"lacks the label of 'c\.jpg', 'c\.png'"):
        mask_file(tmp_path, "c.jpg")


def test_sizes_are_those_of_the_upright_picture(tmp_path: Path) -> None:
    image = Image.new("RGB", (30, 20))
    image.save(tmp_path / "a.jpg")
    assert upright_size(tmp_path / "a.jpg", "a") == (20, 30)
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "b.jpg", exif=exif)
    assert upright_size(tmp_path / "b.jpg", "b") == (30, 20)
    (tmp_path / "c.jpg").write_text("no image")
    with pytest.raises(DataError, match=r"^c\.jpg: cannot be decoded"):
        upright_size(tmp_path / "c.jpg", "c.jpg")


def test_one_text_file_is_no_folder_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 0.5 0.5 0.2 0.2\n")
    (tmp_path / "labels.txt").write_text("a.jpg 0\n")
    said = {"a": f"the folder of the YOLO text files, '{tmp_path}'", "labels": "a folder of YOLO text files"}
    for name, cure in said.items():
        with pytest.raises(DataError, match=rf"{name}\.txt: is one text file.* Give {cure}") as caught:
            read_coco(tmp_path / f"{name}.txt", FILES)
        assert str(caught.value).count(" Give ") == 1
        assert str(caught.value).endswith("or a JSON file of COCO's form.")


@pytest.mark.parametrize("name", ["labels", "coco.json"])
def test_labels_of_objects_are_no_class_numbers(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "labels":
        path.mkdir()
    else:
        path.write_text('{"images": []}')
    with pytest.raises(
        DataError, match=r"holds labels of objects or pixels.*evaluate and tune judge by such"
    ):
        read_label_list(path)
