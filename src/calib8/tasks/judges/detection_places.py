"""Where a detector's outputs hold boxes and scores: as its graph has them, else as shapes and values show.

    graph   branches (``calib8.tasks.detections``) → layout, outputs, objectness, background, further columns
    shapes  4 columns beside others of as many rows, rows as many as a head of this size has cells …

What the numbers are (corners or centres, probabilities or not) is ``find_detection_head``'s to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from calib8.tasks.branches import Branch, Meaning, Piece
from calib8.tasks.judges.decode_maps import flat
from calib8.tasks.judges.detection_heads import STRIDES, Layout, blaze_priors, cell_count, cells
from calib8.tasks.judges.interface import F64, Array

_LISTS: Final = 2000
"""More rows than this are no list of boxes behind an NMS."""

_WIDE: Final = (32, 64, 68)
"""Columns of four distances in bins."""


@dataclass(frozen=True)
class Places:
    """Where boxes and scores lie; the fields are those of ``DetectionHead``.

    Attributes:
        layout, outputs, objectness, background, extra, bins: see there.
        told: the graph says so; False: shapes and values do.
    """

    layout: Layout
    outputs: tuple[int, ...]
    objectness: bool = False
    background: int | None = None
    extra: int = 0
    bins: int = 16
    told: bool = False


@dataclass(frozen=True)
class Shown:
    """The outputs of one sample.

    Attributes:
        names: of the outputs.
        parts: float64, the batch axis taken off where there are more than two.
        dropped: whether it was, per output.
        size: height and width of the model's input in pixels.
    """

    names: tuple[str, ...]
    parts: tuple[F64, ...]
    dropped: tuple[bool, ...]
    size: tuple[int, int]

    @classmethod
    def of(cls, names: Sequence[str], outputs: Sequence[Array], size: tuple[int, int]) -> Shown:
        """Takes the batch axis off."""
        dropped = tuple(array.ndim > 2 and len(array) == 1 for array in outputs)
        parts = (array[0] if batch else array for array, batch in zip(outputs, dropped, strict=True))
        return cls(tuple(names), tuple(np.asarray(part, np.float64) for part in parts), dropped, size)

    def index(self, piece: Piece) -> int:
        """Of the output of a piece; −1 where there is no such output."""
        return self.names.index(piece.output) if piece.output in self.names else -1

    def axis(self, piece: Piece) -> int | None:
        """Along which a piece is cut in its part; None: it is all of it."""
        return None if piece.axis is None else piece.axis - self.dropped[self.index(piece)]


def told_places(meaning: Meaning, shown: Shown) -> Places | None:
    """As the branches of the graph say; None where they tell of no boxes, or of rows chosen by values."""
    boxes, sure = meaning.kind("boxes"), meaning.kind("objectness")
    scores = meaning.kind("scores") or sure
    if boxes is None or scores is None or boxes.chosen:
        return None
    if any(shown.index(piece) < 0 for branch in (boxes, scores) for piece in branch.pieces):
        return None
    held = {branch: {piece.output for piece in branch.pieces} for branch in (boxes, scores)}
    if len(held[boxes]) != len(held[scores]):
        return None
    together, single = held[boxes] == held[scores], len(held[boxes]) == 1
    if together:
        objectness = None if sure is scores else sure
        return _told_table(boxes, objectness, scores, shown) if single else _told_maps(boxes, scores, shown)
    return _told_pair(boxes, scores, shown) if single else _told_levels(boxes, scores, shown)


def _told_table(boxes: Branch, sure: Branch | None, scores: Branch, shown: Shown) -> Places | None:
    """Boxes, objectness, scores and what comes with them, side by side in one output."""
    pieces = [*boxes.pieces, *(() if sure is None else sure.pieces), *scores.pieces]
    if len({piece.output for piece in pieces}) > 1:
        return None
    axis, index = shown.axis(pieces[0]), shown.index(pieces[0])
    ends = [end for piece in pieces for end in (piece.first, piece.last)]
    expected = [0, 4, 4, ends[-1]] if sure is None else [0, 4, 4, 5, 5, ends[-1]]
    if shown.parts[index].ndim != 2 or axis not in (0, 1) or ends != expected:
        return None
    extra = shown.parts[index].shape[axis] - ends[-1]
    layout: Layout = "rows" if axis == 1 else "columns"
    return Places(layout, (index,), objectness=sure is not None, extra=extra, told=True)


def _told_maps(boxes: Branch, scores: Branch, shown: Shown) -> Places | None:
    """Distances in bins and scores of classes in one map per stride."""
    wide, found = boxes.pieces[0].last, list[int]()
    for box, score in zip(boxes.pieces, scores.pieces, strict=False):
        index = shown.index(box)
        if shown.parts[index].ndim != 3 or shown.axis(box) != 0 or shown.index(score) != index:
            return None
        if (box.first, box.last, score.first, score.last) != (0, wide, wide, len(shown.parts[index])):
            return None
        found.append(index)
    return None if wide % 4 else Places("maps", tuple(found), bins=wide // 4, told=True)


def _told_pair(boxes: Branch, scores: Branch, shown: Shown) -> Places | None:
    """An output of boxes, other numbers behind them, and one of scores; no list with classes beside them."""
    box, score = boxes.pieces[0], scores.pieces[0]
    table, chance = shown.parts[shown.index(box)], shown.parts[shown.index(score)]
    background = _left_out(score, shown)
    if table.ndim != 2 or chance.ndim not in (1, 2) or len(table) != len(chance) or background is False:
        return None
    if _listed(shown) is not None:
        return None
    if shown.axis(box) not in (None, 1) or box.first != 0 or (box.last or table.shape[1]) != 4:
        return None
    outputs = (shown.index(box), shown.index(score))
    return Places("pair", outputs, background=background, extra=table.shape[1] - 4, told=True)


def _left_out(score: Piece, shown: Shown) -> int | bool | None:
    """The column of an output of scores that is none; None: there is no such; False: it has others."""
    if score.axis is None:
        return None
    columns = shown.parts[shown.index(score)].shape[-1]
    if (score.first, score.last) in ((1, columns), (0, columns - 1)):
        return 0 if score.first == 1 else -1
    return None if (score.first, score.last) == (0, columns) else False


def _told_levels(boxes: Branch, scores: Branch, shown: Shown) -> Places | None:
    """Scores and distances of every stride, as rows or maps."""
    background = _left_out(scores.pieces[0], shown)
    if background is False or any(piece.axis is not None for piece in boxes.pieces):
        return None
    reach, chance = ([shown.index(piece) for piece in branch.pieces] for branch in (boxes, scores))
    return _strides(chance, reach, shown, background=background, told=True)


def _strides(
    chance: Sequence[int], reach: Sequence[int], shown: Shown, *, background: int | None, told: bool
) -> Places | None:
    """Outputs of scores and of boxes by their rows, one or two for each cell; None where these differ."""
    rows = [len(flat(part)) for part in shown.parts]
    scores, boxes = list[int](), list[int]()
    for stride in STRIDES[: len(reach)]:
        fitting = [count * len(cells(shown.size, stride)) for count in (1, 2)]
        here = [[index for index in several if rows[index] in fitting] for several in (chance, reach)]
        if any(len(one) != 1 for one in here):
            return None
        scores, boxes = [*scores, *here[0]], [*boxes, *here[1]]
    if len(boxes) < 2 or len(boxes) < len(reach):
        return None
    return Places("levels", (*scores, *boxes), background=background, told=told)


def places_by_shape(shown: Shown) -> Places | None:
    """As shapes and values show; None where they do not."""
    found = (finder(shown) for finder in (_levels, _offsets, _listed, _pair, _single))
    return next((places for places in found if places is not None), None)


def _levels(shown: Shown) -> Places | None:
    """SCRFD, PicoDet: scores and distances (and points) of every stride, told by their rows."""
    if any(part.ndim not in (2, 3) for part in shown.parts):
        return None
    widths = [flat(part).shape[1] for part in shown.parts]
    reach = [index for index, width in enumerate(widths) if width in (4, *_WIDE)]
    rest = [index for index in range(len(widths)) if index not in reach]
    chance = [index for index in rest if widths[index] != 10] or rest
    if len(widths) not in (2 * len(reach), 3 * len(reach)):
        return None
    return _strides(chance, reach, shown, background=None, told=False)


def _offsets(shown: Shown) -> Places | None:
    """BlazeFace: boxes with points behind them, and one score each."""
    parts = shown.parts
    if len(parts) != 2 or any(part.ndim != 2 for part in parts):
        return None
    box = 0 if parts[0].shape[1] > parts[1].shape[1] else 1
    rows, width = parts[box].shape
    if not rows == len(parts[1 - box]) == len(blaze_priors(shown.size)) or width < 4:
        return None
    return Places("pair", (box, 1 - box), extra=width - 4)


def _listed(shown: Shown) -> Places | None:
    """Boxes, scores and classes behind an NMS inside the model, told apart by values and names."""
    parts = shown.parts
    boxes = [index for index, part in enumerate(parts) if part.ndim == 2 and part.shape[1] == 4]
    if len(boxes) != 1 or not 0 < len(parts[boxes[0]]) <= _LISTS:
        return None
    rows = len(parts[boxes[0]])
    rest = [i for i, part in enumerate(parts) if i not in boxes and part.size == rows and part.ndim <= 2]
    whole = [index for index in rest if _are_classes(shown.names[index], parts[index])]
    if len(rest) < 2 or not whole:
        return None
    scores = [index for index in rest if index != whole[-1]]
    return Places("listed", (boxes[0], scores[0], whole[-1]))


def _are_classes(name: str, part: F64) -> bool:
    told = "label" in name.lower() or "class" in name.lower()
    return bool(np.all(part == np.round(part))) and (told or float(np.max(np.abs(part), initial=0.0)) > 1.0)


def _pair(shown: Shown) -> Places | None:
    """Boxes [n, 4] and scores [n, c] as outputs of their own; other outputs, such as points, are left."""
    names, parts = shown.names, shown.parts
    wide = [index for index, part in enumerate(parts) if part.ndim == 2 and part.shape[1] == 4]
    if len(parts) < 2 or not wide:
        return None
    box = min(wide, key=lambda index: ("box" not in names[index].lower(), index))
    rows = len(parts[box])
    rest = [i for i, part in enumerate(parts) if i != box and part.ndim in (1, 2) and len(part) == rows]
    score = min(rest, key=lambda i: (faces(shown, rows) and parts[i].size == 10 * rows, i), default=None)
    return None if score is None else Places("pair", (box, score))


def faces(shown: Shown, rows: int) -> bool:
    """RetinaFace: beside the boxes of so many rows two scores and ten coordinates, and nothing else."""
    sizes = [part.size for part in shown.parts if part.ndim in (1, 2) and len(part) == rows]
    return sorted(size // rows for size in sizes) == [2, 4, 10]


def _single(shown: Shown) -> Places | None:
    """One output that holds boxes and scores; further ones are maps of masks."""
    parts = shown.parts
    tables = [index for index, part in enumerate(parts) if part.ndim == 2 and min(part.shape) >= 5]
    if not tables:
        return None
    index, maps = tables[0], [part for part in parts if part.ndim == 3]
    table, extra = parts[index], len(maps[0]) if maps else 0
    if table.shape[1] == 6 and _is_final(table):
        return Places("final", (index,))
    if table.shape[0] < table.shape[1]:
        return Places("columns", (index,), extra=extra)
    count, one = cell_count(shown.size), bool(np.all(table[:, 4] == 1.0))  # YOLOv6 has 1 in all rows
    offsets = len(table) == count and float(np.min(table[:, 2:4])) < 0.0
    more = count + len(cells(shown.size, STRIDES[3]))
    anchors = len(table) in (3 * count, 3 * more)
    known = offsets or anchors or one or len(table) == count
    return Places("rows", (index,), objectness=offsets or anchors or one, extra=extra) if known else None


def _is_final(table: F64) -> bool:
    scores, classes = table[:, 4], table[:, 5]
    whole = bool(np.all(classes == np.round(classes))) and float(classes.min()) >= -1.0
    return whole and float(scores.min()) >= 0.0 and float(scores.max()) <= 1.0
