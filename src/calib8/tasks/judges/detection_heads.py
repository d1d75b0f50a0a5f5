"""What the outputs of a detector mean, as data, and how they become boxes with scores of classes.

layout        outputs, in this order                                                         boxes
rows          [1, n, 4+c], [1, n, 5+c]   YOLOv5, YOLOX; YOLOv8 transposed            as ``boxes`` says
columns       [1, 4+c, n]                YOLOv8, YOLO11 (+ k coefficients of masks)  as ``boxes`` says
final         [1, n, 6]                  YOLOv10, YOLO26: box, score, class          as ``boxes`` says
pair          [1, n, 4], [1, n, c]       SSD, UltraFace, DETR, RetinaFace            as ``boxes`` says
listed        [1, n, 4], [1, n], [1, n]  boxes, scores and classes behind an NMS     as ``boxes`` says
levels        scores then boxes of every stride: [1, a·h·w, 1] … [1, a·h·w, 4] …     distances (SCRFD)

boxes         centre     x, y, w, h                       corners    x1, y1, x2, y2
              yx         y1, x1, y2, x2                   distances  left, top, right, bottom from the cell
              grid       (x + column)·s, (y + row)·s, exp(w)·s, exp(h)·s          s: stride (YOLOX)
              priors     x = px + dx·v0·pw, w = pw·exp(dw·v1); y and h likewise   p: prior, v: variances

scores        probability | sigmoid | softmax; ``objectness``: times that of column 4
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from calib8.errors import UsageError
from calib8.parameters import one_of
from calib8.tasks.judges.interface import F64

Layout: TypeAlias = Literal["rows", "columns", "final", "pair", "listed", "levels", "maps"]
BoxForm: TypeAlias = Literal[
    "centre", "corners", "yx", "distances", "grid", "priors", "offsets", "anchors", "anchors-exp"
]
ScoreForm: TypeAlias = Literal["probability", "sigmoid", "softmax"]

OUTPUTS: Final[dict[Layout, int]] = {
    "rows": 1, "columns": 1, "final": 1, "pair": 2, "listed": 3, "levels": 6, "maps": 3,
}  # fmt: skip
"""How many outputs a layout reads; ``levels`` two per stride, ``maps`` one or more."""

STRIDES: Final = (8, 16, 32, 64)
"""Pixels of the input per cell, of a head's levels in their order."""

FIRST_STRIDES: Final = STRIDES[:3]
"""Those of most heads."""


@dataclass(frozen=True, eq=False)
class DetectionHead:
    """How outputs become boxes; see the top of the file.

    Attributes:
        layout: where boxes and scores lie.
        size: height and width of the model's input in pixels.
        outputs: indices of the outputs, in the order of the layout.
        boxes: what four numbers say.
        scores: what makes probabilities of them.
        normalized: boxes count in parts of the input, not in pixels.
        objectness: column 4 is that of the box.
        background: column of the scores that is no class, such as 0 or −1; None: each is a class.
        extra: columns behind the classes that belong to masks or points.
        nms: IoU above which the weaker of two boxes goes; None: the model has done that.
        priors: float64 [n, 4], centre x, y, w, h in parts of the input, for ``priors`` and ``offsets``.
        variances: factors of priors, of the centre and of the size.
        bins: scores per distance in ``maps``; 1: distances as they are.
        anchors: width and height in pixels of every anchor, per output of ``maps``, for ``anchors`` and
            ``anchors-exp``.
        planes: per output of ``maps`` the axes, without that of the batch, in the order channels (or anchors
            and numbers of an anchor), rows, columns; None: as they are.
        assumed: the anchors are not those of the network, as far as is known: no box is where labels are.
    """

    layout: Layout
    size: tuple[int, int]
    outputs: tuple[int, ...] = (0,)
    boxes: BoxForm = "centre"
    scores: ScoreForm = "probability"
    normalized: bool = False
    objectness: bool = False
    background: int | None = None
    extra: int = 0
    nms: float | None = 0.7
    priors: npt.NDArray[np.floating] | None = None
    variances: tuple[float, float] = (0.1, 0.2)
    bins: int = 16
    anchors: tuple[tuple[tuple[float, float], ...], ...] | None = None
    planes: tuple[tuple[int, ...], ...] | None = None
    assumed: bool = False

    def __post_init__(self) -> None:
        """Refuses what cannot be decoded.

        Raises:
            UsageError: too few outputs for the layout, or boxes that lack what they are measured from.
        """
        if self.layout not in OUTPUTS:
            raise UsageError(f"layout {self.layout}", "is unknown", one_of(self.layout, OUTPUTS))
        count, wanted = len(self.outputs), str(OUTPUTS[self.layout])
        fits = count == OUTPUTS[self.layout]
        if self.layout in ("levels", "maps"):
            wanted = "two per stride" if self.layout == "levels" else "one or more"
            fits = count > 0 and (self.layout == "maps" or count % 2 == 0)
        if not fits:
            problem = f"reads {count} outputs, not {wanted}"
            raise UsageError(f"layout {self.layout}", problem, "Give their indices in its order")
        self._check_measures()

    def _check_measures(self) -> None:
        of_anchors = self.boxes in ("anchors", "anchors-exp")
        if of_anchors != (self.anchors is not None) or (of_anchors and self.layout != "maps"):
            problem = f"layout {self.layout}, boxes '{self.boxes}' and anchors do not go together"
            raise UsageError("detection head", problem, "Give anchors for maps of 'anchors' or 'anchors-exp'")
        if (self.boxes in ("priors", "offsets")) != (self.priors is not None):
            problem = f"boxes '{self.boxes}' and priors do not go together"
            raise UsageError("detection head", problem, "Give priors for boxes 'priors' or 'offsets'")
        if self.nms is not None and not 0.0 < self.nms <= 1.0:
            raise UsageError(f"nms {self.nms:g}", "is no IoU", "Give one above 0, at most 1, or None")


def face_priors(size: tuple[int, int]) -> F64:
    """Priors of RetinaFace: centres of cells of 8, 16 and 32 pixels, squares of 16 · 2^k pixels, two each."""
    height, width = size
    rows: list[F64] = []
    for stride, sides in zip(FIRST_STRIDES, ((16, 32), (64, 128), (256, 512)), strict=True):
        centre = cells(size, stride) + 0.5
        for side in sides:
            whole = np.empty((len(centre), 4))
            whole[:, 0], whole[:, 1] = centre[:, 0] * stride / width, centre[:, 1] * stride / height
            whole[:, 2], whole[:, 3] = side / width, side / height
            rows.append(whole)
        rows[-2:] = [np.stack(rows[-2:], axis=1).reshape(-1, 4)]
    return np.concatenate(rows)


def blaze_priors(size: tuple[int, int]) -> F64:
    """Priors of BlazeFace, as large as the input: two per cell of 8 pixels, six per cell of 16."""
    rows: list[F64] = []
    for stride, each in ((8, 2), (16, 6)):
        centre = (cells(size, stride) + 0.5) * stride / np.array([size[1], size[0]])
        rows.append(np.repeat(np.concatenate([centre, np.ones_like(centre)], axis=1), each, axis=0))
    return np.concatenate(rows)


def cells(size: tuple[int, int], stride: int) -> F64:
    """Column and row of the cells of an input, row by row: float64 [h·w, 2]; sides are rounded up."""
    high, wide = (-(-side // stride) for side in size)
    down, across = np.divmod(np.arange(high * wide), wide)
    return np.stack([across, down], axis=1).astype(np.float64)


def cell_counts(size: tuple[int, int]) -> frozenset[int]:
    """Cells of three or more neighbouring strides of 4, 8 … 64: the rows of detectors with such levels."""
    each = [len(cells(size, stride)) for stride in (4, *STRIDES)]
    ends = range(3, len(each) + 1)
    return frozenset(sum(each[first:end]) for end in ends for first in range(end - 2))


def cell_count(size: tuple[int, int]) -> int:
    """Cells of ``FIRST_STRIDES`` together: the rows of a detector without anchors."""
    return sum(len(cells(size, stride)) for stride in FIRST_STRIDES)
