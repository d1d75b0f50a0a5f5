"""Outputs of a network for points → objects with their points, as its ``PointHead`` says.

layout       output                                                     objects
columns      [1, 5+c·k, n]   YOLOv8-pose: box (centre), score, points   those left by an NMS of the boxes
maps         [1, k, H, W]    one map per point, highest where it is     one
coordinates  [1, k, c] or [1, k·c], the first two of each: x, y         one
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from calib8.errors import DataError, UsageError
from calib8.parameters import one_of, parameter
from calib8.requests import fit_fields
from calib8.tasks.judges.boxes import areas
from calib8.tasks.judges.decode_boxes import detections
from calib8.tasks.judges.detection_heads import DetectionHead, cell_counts
from calib8.tasks.judges.interface import F64, Array, output_of
from calib8.tensors import shape_text

Layout: TypeAlias = Literal["columns", "maps", "coordinates"]
LAYOUTS: Final[tuple[Layout, ...]] = get_args(Layout)

COLUMNS: Final = {136: 2, 196: 2, 212: 2, 10: 2, 63: 3, 51: 3, 1404: 3, 1434: 3, 195: 5}
"""Numbers per point of flat outputs of known networks: faces of 5, 68, 98, 106, 468 and 478 points, hands,
people."""

_FAR: Final = 1e9
"""Pixels; no picture is as large."""

COARSEST: Final = 9
"""The fewest rows and columns of maps that are read without a ``PointHead``: fewer hardly place a point."""


@dataclass(frozen=True)
class PointHead:
    """How an output becomes points; see the top of the file.

    Attributes:
        layout: where they lie.
        output: index of the output.
        each: numbers per point, with ``columns`` and ``coordinates``.
        swapped: y stands before x (MoveNet).
        size: height and width of the model's input; with ``maps`` points are scaled to it.
        nms: IoU above which the weaker of two boxes goes, with ``columns``.
    """

    layout: Layout
    output: int = 0
    each: int = 3
    swapped: bool = False
    size: tuple[int, int] = (0, 0)
    nms: float = 0.7

    def __post_init__(self) -> None:
        """Checks types, and that the layout is known.

        Raises:
            UsageError: a field of another type, an unknown layout, or less than two numbers per point.
        """
        fit_fields(self)
        if self.layout not in LAYOUTS:
            raise UsageError(f"layout {self.layout}", "is unknown", one_of(self.layout, LAYOUTS))
        if self.each < 2:
            problem = "are too few for a point"
            raise UsageError(f"PointHead(each={self.each})", problem, "Give 2 for x and y, 3 with a score")


@dataclass(frozen=True)
class Poses:
    """Objects of one image, best score first.

    Attributes:
        points: float64 [n, k, 2], x and y.
        scores: float64 [n].
        areas: float64 [n] of their boxes.
    """

    points: F64
    scores: F64
    areas: F64


def poses(outputs: Sequence[Array], head: PointHead, name: str) -> Poses:
    """The objects of one image.

    Raises:
        DataError: the output has another shape than the head.
    """
    array = output_of(outputs, head.output, name, "Mend the PointHead")
    if head.layout == "columns":
        return _columns(array, head, name)
    points = _from_maps(array, head) if head.layout == "maps" else _coordinates(array, head)
    if points is None:
        cure = "Give a PointHead that says what the outputs are"
        raise DataError(name, f"an output of shape {list(array.shape)} does not fit the head", cure)
    points = _finite(points)[None]
    low, high = points.min(axis=1), points.max(axis=1)
    return Poses(points, np.ones(1), np.prod(high - low, axis=1))


def _columns(array: Array, head: PointHead, name: str) -> Poses:
    wide = array.shape[1] - 5 if array.ndim == 3 and len(array) == 1 else -1
    if wide < head.each or wide % head.each:
        cure = "Give a PointHead that says what the outputs are"
        raise DataError(name, f"an output of shape {list(array.shape)} does not fit the head", cure)
    found = detections([array], DetectionHead("columns", head.size, extra=wide, nms=head.nms), name)
    rows = np.asarray(array[0], np.float64).T[found.rows, 5:]
    rows = rows.reshape(len(rows), wide // head.each, head.each)
    points = rows[:, :, 1::-1] if head.swapped else rows[:, :, :2]
    return Poses(_finite(points), found.scores, areas(found.boxes))


def _finite(points: F64) -> F64:
    """Points that are nowhere, far away."""
    return np.asarray(np.clip(np.nan_to_num(points, nan=_FAR), -_FAR, _FAR))


def _from_maps(array: Array, head: PointHead) -> F64 | None:
    """The highest place of every map, in pixels of the input; the first among equals."""
    if array.ndim != 4 or len(array) != 1:
        return None
    count, height, width = array.shape[1:]
    best = np.argmax(np.nan_to_num(array[0], nan=-np.inf).reshape(count, -1), axis=1)
    rows, columns = np.divmod(best, width)
    high, wide = head.size if all(head.size) else (height, width)
    return np.stack([(columns + 0.5) * wide / width, (rows + 0.5) * high / height], axis=1)


def _coordinates(array: Array, head: PointHead) -> F64 | None:
    if array.size % head.each or head.each < 2:
        return None
    table = np.asarray(array, np.float64).reshape(-1, head.each)
    return table[:, 1::-1] if head.swapped else table[:, :2]


def find_point_head(
    names: Sequence[str], outputs: Sequence[Array], size: tuple[int, int], posed: Collection[str] = ()
) -> PointHead:
    """The first output that holds points.

    Args:
        names: of the outputs.
        outputs: of the float model for one sample.
        size: height and width of the model's input in pixels.
        posed: names of those of which the graph shows boxes, scores and points in columns.

    Raises:
        UsageError: there is none that is known.
    """
    counts = cell_counts(size)
    for index, array in enumerate(outputs):
        inner = array.shape[1:]
        if array.dtype.kind != "f" or array.ndim < 2 or len(array) != 1:
            continue
        if array.ndim == 3 and inner[0] > 5 and (names[index] in posed or inner[1] in counts):
            each = 3 if (inner[0] - 5) % 3 == 0 else 2
            return PointHead("columns", index, each, size=size)
        if array.size == max(inner) and array.size in COLUMNS:
            return PointHead("coordinates", index, COLUMNS[array.size], size=size)
        if inner[-1] in (2, 3) and array.size // inner[-1] == max(inner[:-1], default=0):
            swapped = array.ndim == 4 and inner[0] == 1 and inner[2] == 3  # MoveNet: y, x, score
            return PointHead("coordinates", index, inner[-1], swapped, size)
        if array.ndim == 4 and min(inner[1:]) >= COARSEST:
            return PointHead("maps", index, size=size)
    listed = ", ".join(f"{name} {shape_text(a.shape)}" for name, a in zip(names, outputs, strict=True))
    if any(array.ndim == 4 and min(array.shape[2:]) < COARSEST for array in outputs):
        listed += f" (maps of fewer than {COARSEST} rows or columns are too coarse)"
    cure = "From Python give a PointHead that says what the outputs are, or a judge of your own"
    raise UsageError(parameter("task", "keypoints"), f"outputs {listed}: none is known to hold points", cure)
