"""Labels as COCO writes them: one JSON file with images, annotations and categories.

    {"images": [{"id", "file_name", "width", "height"}], "categories": [{"id", "name"}],
     "annotations": [{"image_id", "category_id", "bbox": [x, y, w, h], "area", "iscrowd", "keypoints"}]}

The class of a category is its place among the ids in ascending order, or its id: what fits the model.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np

from calib8.data.object_labels import Objects, Remarks, check_some, match_names, no_objects, within_picture
from calib8.errors import DataError
from calib8.files import check_file
from calib8.json_texts import parse_json
from calib8.parameters import parameter

LARGEST: Final = sys.float_info.max
"""JSON has whole numbers beyond it; NaN is not below it either."""

_ONE_EACH: Final = "a folder of YOLO text files, one for each picture"
_CURE: Final = "Give a JSON file of COCO's form, with images, annotations and categories"


@dataclass(frozen=True)
class CocoLabels:
    """Objects of image files.

    Attributes:
        objects: image file → what is in it; classes are places among ``category_ids``.
        sizes: image file → height and width that the labels tell.
        category_ids: in ascending order.
        remarks: sentences about what is odd.
    """

    objects: Mapping[str, Objects]
    sizes: Mapping[str, tuple[int, int]]
    category_ids: tuple[int, ...]
    remarks: tuple[str, ...] = ()


def read_coco(path: Path, files: Sequence[str], *, points: bool = False) -> CocoLabels:
    """Reads the labels of image files.

    Args:
        path: the JSON file.
        files: paths of the images relative to their folder, with ``/``.
        points: objects need ``keypoints``.

    Raises:
        DataError: unreadable, of another form, ids given twice or unknown, boxes that cannot be, an image
            that is not listed, no object at all, or ``points`` and no object that has them.
    """
    source, document = str(path), _document(path, files)
    images = _by_id(document["images"], "image", source)
    categories = tuple(sorted(_by_id(document["categories"], "category", source)))
    names: dict[str, int] = {}
    for number, image in images.items():
        name = image.get("file_name")
        if not isinstance(name, str) or name in names:
            why = "has no file_name" if not isinstance(name, str) else f"names '{name}' a second time"
            raise DataError(source, f"image {number} {why}", "List every image once")
        names[name] = number
    matched = match_names(files, list(names), source)
    wanted = {names[labelled] for labelled in matched.values()}
    grouped: dict[int, list[dict[str, Any]]] = {}
    for number, one in _by_id(document["annotations"], "annotation", source).items():
        _check_known(one, number, images, categories, source)
        if one["image_id"] in wanted:
            grouped.setdefault(one["image_id"], []).append(one)
    sizes = {file: _size(images[names[labelled]], source) for file, labelled in matched.items()}
    remarks, objects = Remarks(), dict[str, Objects]()
    count = _point_count(grouped, source) if points else None
    for file, labelled in matched.items():
        rows = grouped.get(names[labelled], [])
        objects[file] = _objects(rows, sizes[file], categories, f"{source}, {file}", count, remarks)
    check_some(objects, source)
    return CocoLabels(objects, sizes, categories, remarks.sentences())


def _document(path: Path, files: Sequence[str]) -> dict[str, list[Any]]:
    check_file(path, _CURE, DataError)
    if path.suffix.lower() == ".txt":
        of_picture = path.stem in {PurePosixPath(file).stem for file in files}
        folder = f"the folder of the YOLO text files, '{path.parent}'" if of_picture else _ONE_EACH
        cure = f"Give {folder}, or a JSON file of COCO's form"
        raise DataError(str(path), "is one text file, and objects are labelled by a folder of them", cure)
    try:
        document = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(str(path), f"cannot be read ({error})", _CURE) from error
    for key in ("images", "annotations", "categories"):
        if not isinstance(document, dict) or not isinstance(document.get(key), list):
            raise DataError(str(path), f"has no list '{key}'", _CURE)
    return dict(document)


def _by_id(rows: Sequence[Any], what: str, source: str) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for place, row in enumerate(rows):
        number = row.get("id") if isinstance(row, dict) else None
        if not isinstance(number, int) or isinstance(number, bool):
            raise DataError(source, f"{what} {place} of the list has no id", "Give every one a number as id")
        if number in found:
            raise DataError(source, f"the {what} id {number} is given twice", "Give every one its own")
        found[number] = row
    return found


def _check_known(
    one: Mapping[str, Any], number: int, images: Mapping[int, Any], categories: Sequence[int], source: str
) -> None:
    for key, known in (("image_id", images), ("category_id", frozenset(categories))):
        named = one.get(key)
        if not isinstance(named, int | float) or named not in known:
            problem = f"annotation {number} names the {key} {named}, which is not in the file"
            raise DataError(source, problem, "Give labels that are whole")


def _size(image: Mapping[str, Any], source: str) -> tuple[int, int]:
    size = image.get("height"), image.get("width")
    if not all(isinstance(side, int) and side > 0 for side in size):
        problem = f"image '{image['file_name']}' has no width and height"
        raise DataError(source, problem, "Give both in pixels")
    return int(image["height"]), int(image["width"])


def _point_count(grouped: Mapping[int, Sequence[Mapping[str, Any]]], source: str) -> int:
    given = (one["keypoints"] for rows in grouped.values() for one in rows if "keypoints" in one)
    lengths = {len(one) for one in given if isinstance(one, list)}
    if not lengths:
        problem = "holds no keypoints: labels of another task"
        raise DataError(
            source, problem, f"Give labels with keypoints, or judge boxes with {parameter('task', 'detect')}"
        )
    if len(lengths) > 1 or min(lengths) % 3 or not min(lengths):
        problem = f"holds keypoints of {', '.join(map(str, sorted(lengths)))} numbers"
        raise DataError(source, problem, "Give x, y and visibility of the same points everywhere")
    return min(lengths) // 3


def _objects(
    rows: Sequence[Mapping[str, Any]], size: tuple[int, int], categories: Sequence[int], where: str,
    points: int | None, remarks: Remarks,
) -> Objects:  # fmt: skip
    if not rows:
        return no_objects(points)
    boxes, areas, known = list[tuple[float, ...]](), list[float](), list[Any]()
    for one in rows:
        subject = f"{where}, annotation {one['id']}"
        box = _corners(one, subject)
        boxes.append(within_picture(box, size, subject, remarks))
        area = one.get("area", (box[2] - box[0]) * (box[3] - box[1]))
        areas.append(_number(area, subject, "area"))
        if points is not None:
            known.append(_points(one.get("keypoints", [0] * 3 * points), subject))
    place = {number: index for index, number in enumerate(categories)}
    return Objects(
        np.array([place[one["category_id"]] for one in rows], np.int64),
        np.array(boxes, np.float64),
        np.array(areas, np.float64),
        np.array([bool(one.get("iscrowd", 0)) for one in rows], np.bool_),
        None if points is None else np.array(known, np.float64).reshape(len(rows), points, 3),
    )


def _corners(one: Mapping[str, Any], subject: str) -> list[float]:
    box = one.get("bbox")
    if not isinstance(box, list) or len(box) != 4:
        raise DataError(subject, "has no bbox of 4 numbers: labels of another task", _CURE)
    x, y, w, h = (_number(value, subject, "bbox") for value in box)
    return [x, y, x + w, y + h]


def _points(values: object, subject: str) -> list[float]:
    if not isinstance(values, list):
        raise DataError(subject, "has keypoints that are no list", _CURE)
    return [_number(value, subject, "keypoints") for value in values]


def _number(value: object, subject: str, what: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST:
        raise DataError(subject, f"its {what} holds {value!r}, which is not a number", "Give finite numbers")
    return float(value)
