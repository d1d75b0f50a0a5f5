"""Where the points of a picture lie in the input of a model, as ``Preprocess`` resizes, cuts and pads it.

x' = x·(w'/w) + left,  y' = y·(h'/h) + top      (h, w): the upright picture, (h', w'): after the resize
left, top                                       of the padding of a letterbox; negative where it is cut
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calib8.data.preprocess import Preprocess, box_size
from calib8.data.resize import cover_size, letterbox_size

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Geometry:
    """The way of one picture into the input.

    Attributes:
        picture: its height and width, upright.
        resized: after the resize.
        top, left: where its corner lies in the input.
        size: height and width of the input, before ``focus``.
    """

    picture: tuple[int, int]
    resized: tuple[int, int]
    top: int
    left: int
    size: tuple[int, int]

    @property
    def pixel_area(self) -> float:
        """How many square pixels of the picture one of the input is."""
        return self.picture[0] * self.picture[1] / (self.resized[0] * self.resized[1])

    def points(self, points: F64) -> F64:
        """x, y [..., 2] of the picture as those of the input."""
        high, wide = (b / a for a, b in zip(self.picture, self.resized, strict=True))
        return np.asarray(points * np.array([wide, high]) + np.array([self.left, self.top]))

    def boxes(self, boxes: F64) -> F64:
        """Corners [n, 4] of the picture as those of the input, cut where the input ends."""
        moved = self.points(boxes.reshape(-1, 2, 2))
        return np.asarray(np.clip(moved, 0.0, [self.size[1], self.size[0]]).reshape(-1, 4))

    def back(self, boxes: F64) -> F64:
        """Corners [n, 4] of the input as those of the picture, cut where the picture ends."""
        high, wide = (a / b for a, b in zip(self.picture, self.resized, strict=True))
        moved = (boxes.reshape(-1, 2, 2) - np.array([self.left, self.top])) * np.array([wide, high])
        return np.asarray(np.clip(moved, 0.0, [self.picture[1], self.picture[0]]).reshape(-1, 4))

    def map(self, classes: I64, outside: int) -> I64:
        """Numbers per pixel [h, w] of the picture as those of the input; the nearest pixel's each.

        Args:
            classes: of the picture.
            outside: what stands where the picture does not reach.
        """
        rows, inside_rows = self._sources(0, self.top)
        columns, inside_columns = self._sources(1, self.left)
        moved = classes[rows][:, columns]
        return np.where(inside_rows[:, None] & inside_columns[None, :], moved, outside)

    def _sources(self, axis: int, start: int) -> tuple[I64, npt.NDArray[np.bool_]]:
        """Row or column of the picture for each of the input, and whether there is one."""
        place = np.arange(self.size[axis]) - start
        inside = (place >= 0) & (place < self.resized[axis])
        found = (2 * place + 1) * self.picture[axis] // (2 * self.resized[axis])
        return np.clip(found, 0, self.picture[axis] - 1), inside


def geometry_of(p: Preprocess, picture: tuple[int, int]) -> Geometry:
    """How ``apply_preprocess`` places a picture.

    Args:
        p: with a size, unless ``resize`` is ``none``.
        picture: height and width, upright.
    """
    size = picture if p.size is None else p.size
    if p.resize == "none":
        return Geometry(picture, picture, 0, 0, size)
    if p.resize == "letterbox":
        resized = letterbox_size(picture, size)
        return Geometry(picture, resized, (size[0] - resized[0]) // 2, (size[1] - resized[1]) // 2, size)
    box = box_size(p, size)
    resized = cover_size(picture, box) if p.resize == "short-side" else box
    return Geometry(picture, resized, -((resized[0] - size[0]) // 2), -((resized[1] - size[1]) // 2), size)
