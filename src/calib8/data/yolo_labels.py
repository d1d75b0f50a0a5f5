"""Labels as YOLO writes them: a text file per image, a line per object, in parts of the picture (0 … 1).

    class cx cy w h                       a box
    class x1 y1 x2 y2 x3 y3 …             an outline; its box is around it
    class cx cy w h x y v x y v …         points with visibility, or x y alone (``points``)

``sub/a.jpg`` is labelled by ``sub/a.txt`` or ``a.txt``; an image without a file has no object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np

from calib8.data.object_labels import Objects, Remarks, check_some, no_objects, within_picture
from calib8.errors import DataError

_CURE: Final = "Write 'class cx cy w h' per line, in parts of the picture"
_BEYOND_ONE: Final = 1.5
"""Larger numbers are pixels, not parts of a picture that an object leaves."""
_MOST_CLASSES: Final = 2**31 - 1


@dataclass(frozen=True)
class YoloLabels:
    """Objects of image files, and sentences about what is odd."""

    objects: Mapping[str, Objects]
    remarks: tuple[str, ...] = ()


def read_yolo(folder: Path, sizes: Mapping[str, tuple[int, int]], *, points: bool = False) -> YoloLabels:
    """Reads the labels of image files.

    Args:
        folder: of the text files.
        sizes: image file → height and width of the upright picture.
        points: lines hold points behind the box.

    Raises:
        DataError: no file for any image, an unreadable one, lines of another form, boxes that cannot be, no
            object at all, or ``points`` and lines without.
    """
    remarks, objects, found = Remarks(), dict[str, Objects](), 0
    for file, size in sizes.items():
        path = _file_of(folder, file)
        if path is None:
            objects[file] = no_objects()
            continue
        found += 1
        objects[file] = _read(path, size, points, remarks)
    if not found:
        first = next(iter(sizes), "")
        problem = (
            f"holds no file for any of the {len(sizes)} pictures, such as '{PurePosixPath(first).stem}.txt'"
        )
        raise DataError(str(folder), problem, "Give the folder of the text files")
    check_some(objects, str(folder))
    counts = {one.points.shape[1] for one in objects.values() if one.points is not None and len(one.classes)}
    if len(counts) > 1:
        problem = f"holds objects of {', '.join(map(str, sorted(counts)))} points"
        raise DataError(str(folder), problem, "Give the same points everywhere")
    if counts:
        empty = no_objects(min(counts))
        objects = {file: one if len(one.classes) else empty for file, one in objects.items()}
    return YoloLabels(objects, remarks.sentences())


def _file_of(folder: Path, file: str) -> Path | None:
    relative = PurePosixPath(file).with_suffix(".txt")
    for path in (folder / relative, folder / relative.name):
        if path.is_file():
            return path
    return None


def _read(path: Path, size: tuple[int, int], points: bool, remarks: Remarks) -> Objects:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(str(path), f"cannot be read ({error})", _CURE) from error
    rows = [
        _line(line.split(), f"{path}, line {number}", size, points, remarks)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not rows:
        return no_objects()
    boxes = np.array([row[1] for row in rows])
    sides = boxes[:, 2:] - boxes[:, :2]
    known = [row[2] for row in rows]
    if len({len(one) for one in known}) > 1:
        raise DataError(str(path), "holds lines with several numbers of points", "Give the same everywhere")
    return Objects(
        np.array([row[0] for row in rows], np.int64), boxes, sides[:, 0] * sides[:, 1],
        np.zeros(len(rows), np.bool_), np.array(known).reshape(len(rows), -1, 3) if points else None,
    )  # fmt: skip


_Row = tuple[int, tuple[float, float, float, float], list[float]]


def _line(words: Sequence[str], where: str, size: tuple[int, int], points: bool, remarks: Remarks) -> _Row:
    try:
        numbers = [float(word) for word in words]
    except ValueError as error:
        raise DataError(where, f"'{' '.join(words)}' are not numbers", _CURE) from error
    odd = next((word for word, number in zip(words, numbers, strict=True) if not np.isfinite(number)), None)
    if odd is not None:
        raise DataError(where, f"holds '{odd}', which is not a finite number", _CURE)
    if numbers[0] != int(numbers[0]) or not 0 <= numbers[0] <= _MOST_CLASSES:
        raise DataError(where, f"'{words[0]}' is not a class number", "Begin with a class number, 0 or more")
    count = len(numbers)
    outline = not points and count >= 7 and count % 2 == 1
    if not outline and (count < 5 or (points and count == 5) or (not points and count != 5)):
        wanted = "a box with points" if points else "'class cx cy w h' or an outline"
        raise DataError(where, f"holds {count} numbers, not {wanted}: labels of another task", _CURE)
    if max(map(abs, numbers[1:5])) > _BEYOND_ONE:
        problem = f"holds {max(numbers[1:5]):g}, which is not a part of a picture but pixels"
        raise DataError(where, problem, "Divide by width and height of the picture")
    height, width = size
    if outline:
        x, y = np.array(numbers[1::2]) * width, np.array(numbers[2::2]) * height
        box = [float(x.min()), float(y.min()), float(x.max()), float(y.max())]
    else:
        cx, cy, w, h = (value * side for value, side in zip(numbers[1:5], (width, height) * 2, strict=True))
        box = [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]
    known = _points(numbers[5:], size, where) if points else []
    return int(numbers[0]), within_picture(box, size, where, remarks), known


def _points(values: Sequence[float], size: tuple[int, int], where: str) -> list[float]:
    """x, y in pixels and 1 or 0 per point; without visibility, those at 0, 0 are not labelled."""
    each = 3 if len(values) % 3 == 0 else 2
    if len(values) % each:
        problem = f"holds {len(values)} numbers behind the box"
        raise DataError(where, problem, "Give x, y (and visibility) of every point")
    table = np.array(values).reshape(-1, each)
    marks = table[:, 2:] if each == 3 else table
    seen = np.max(marks, axis=1, keepdims=True) > 0
    pixels = table[:, :2] * np.array([size[1], size[0]])
    return [float(value) for value in np.concatenate([pixels, seen], axis=1).reshape(-1)]
