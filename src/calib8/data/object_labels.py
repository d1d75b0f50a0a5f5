"""Labelled objects of pictures: boxes, classes and points, and what is wrong with them in all formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from calib8.data.images import eight_bit, read_image
from calib8.errors import DataError

NEAR: Final = 1.0
"""Pixels by which a box may reach beyond its picture without a word: labels are rounded."""

EXIF_ORIENTATION: Final = 0x0112
_TURNED: Final = (5, 6, 7, 8)


@dataclass(frozen=True)
class Objects:
    """What is in one picture, in pixels of the upright picture.

    Attributes:
        classes: int64 [n]: numbers from 0.
        boxes: float64 [n, 4], corners x1, y1, x2, y2.
        areas: float64 [n]: square pixels; of the outline where it is known.
        crowd: bool [n]: stands for many objects.
        points: float64 [n, k, 3]: x, y, and 0 where the point is not labelled; None without points.
    """

    classes: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.float64]
    areas: npt.NDArray[np.float64]
    crowd: npt.NDArray[np.bool_]
    points: npt.NDArray[np.float64] | None = None


def no_objects(points: int | None = None) -> Objects:
    """A picture in which nothing is labelled; ``points`` per object, None where there are none."""
    nothing = np.zeros(0)
    found = None if points is None else np.zeros((0, points, 3))
    return Objects(np.zeros(0, np.int64), np.zeros((0, 4)), nothing, np.zeros(0, np.bool_), found)


@dataclass
class Remarks:
    """What is odd about labels and does not stop them: counted, the first one shown."""

    _seen: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)

    def add(self, what: tuple[str, str], where: str) -> None:
        """Once more: ``what`` is two sentences, of one and of ``{count}``."""
        count, first = self._seen.get(what, (0, where))
        self._seen[what] = (count + 1, first)

    def sentences(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(
            f"{what[count > 1].format(count=count)}{', such as' if count > 1 else ':'} {first}"
            for what, (count, first) in self._seen.items()
        )


BEYOND: Final = (
    "1 box reaches beyond its picture and is cut",
    "{count} boxes reach beyond their picture and are cut",
)


def within_picture(
    box: Sequence[float], size: tuple[int, int], where: str, remarks: Remarks
) -> tuple[float, float, float, float]:
    """A box x1, y1, x2, y2 cut where its picture ends.

    Raises:
        DataError: no four finite numbers, a negative width or height, or nothing of it is in the picture.
    """
    if len(box) != 4 or not np.all(np.isfinite(box)) or box[2] < box[0] or box[3] < box[1]:
        problem = f"{[float(value) for value in box]} is not a box"
        raise DataError(where, problem, "Give finite numbers, and no negative width or height")
    height, width = size
    if box[0] > width or box[1] > height or box[2] < 0 or box[3] < 0:
        shown = ", ".join(f"{value:g}" for value in box)
        problem = f"its box {shown} lies outside of the picture of {height}×{width}"
        raise DataError(where, problem, "Check that the labels belong to these pictures")
    if min(box[0], box[1]) < -NEAR or box[2] > width + NEAR or box[3] > height + NEAR:
        remarks.add(BEYOND, where)
    x1, y1, x2, y2 = (
        min(max(float(value), 0.0), side) for value, side in zip(box, (width, height) * 2, strict=True)
    )
    return x1, y1, x2, y2


def upright_size(path: Path, name: str) -> tuple[int, int]:
    """Height and width of an image as ``apply_preprocess`` sees it: turned upright by its EXIF orientation.

    Raises:
        DataError: the file is no image.
    """
    try:
        with Image.open(path) as image:
            turned = image.getexif().get(EXIF_ORIENTATION) in _TURNED
            width, height = image.size
    except Exception:  # what a decoder raises on broken files is told by the reader of images
        upright = eight_bit(read_image(path, name), False, name)
        return upright.height, upright.width
    return (width, height) if turned else (height, width)


def check_some(objects: Mapping[str, Objects], source: str) -> None:
    """Refuses labels without a single object.

    Raises:
        DataError: there is none in any of the pictures.
    """
    if not any(len(one.classes) for one in objects.values()):
        problem = f"holds no object for any of the {len(objects)} pictures"
        raise DataError(source, problem, "Check that the labels belong to these pictures")


def match_names(files: Sequence[str], labelled: Sequence[str], source: str) -> dict[str, str]:
    """Image file → name under which it is labelled: its path, or else its last part where that is unique.

    Raises:
        DataError: images without a label.
    """
    by_path, last = set(labelled), dict[str, list[str]]()
    for name in labelled:
        last.setdefault(name.rsplit("/", 1)[-1], []).append(name)
    found: dict[str, str] = {}
    for file in files:
        same = last.get(file.rsplit("/", 1)[-1], [])
        if file in by_path:
            found[file] = file
        elif len(same) == 1:
            found[file] = same[0]
    lacking = [file for file in files if file not in found]
    if lacking:
        problem = f"lacks {len(lacking)} of {len(files)} images, such as '{lacking[0]}'"
        raise DataError(source, problem, "Give labels of these pictures, or remove the images")
    return found
