"""Which ``DetectionHead`` a detector has, told by shapes, names and values of its outputs for one sample.

Shapes say where boxes lie, values what they are: corners never cross, centres and sizes in parts of the input
stay near 0 … 1, scores outside of 0 … 1 are not through their sigmoid or softmax yet. What cannot be told is
an error that says what would be needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from calib8.errors import UsageError
from calib8.tasks.judges.decode_maps import flat
from calib8.tasks.judges.detection_heads import (
    STRIDES,
    BoxForm,
    DetectionHead,
    ScoreForm,
    blaze_priors,
    cell_count,
    cells,
    face_priors,
)
from calib8.tasks.judges.interface import F64, Array
from calib8.tensors import shape_text

_SIZED: Final = 2.0
"""Boxes in parts of the input stay below; those in pixels do not."""

_NEARLY_ALL: Final = 0.99
_LISTS: Final = 2000
"""More rows than this are no list of boxes behind an NMS."""

_NMS_OF_PAIRS: Final = 0.5
_NMS_OF_OBJECTNESS: Final = 0.45
"""What the families are deployed with."""


def find_detection_head(
    names: Sequence[str], outputs: Sequence[Array], size: tuple[int, int]
) -> DetectionHead:
    """The head of a detector.

    Args:
        names: of the outputs.
        outputs: of the float model for one sample, batch axis of length 1 included.
        size: height and width of the model's input in pixels.

    Raises:
        UsageError: the decoding is unknown, or several fit; the outputs are listed.
    """
    parts = [
        np.asarray(array[0] if array.ndim > 2 and len(array) == 1 else array, np.float64) for array in outputs
    ]
    for finder in (_levels, _listed, _offsets, _pair, _single):
        head = finder(names, parts, size)
        if head is not None:
            return head
    raise _unknown(names, outputs, "no decoding of boxes is known for them")


def _unknown(names: Sequence[str], outputs: Sequence[Array], why: str) -> UsageError:
    listed = ", ".join(
        f"{name} {shape_text(array.shape)}" for name, array in zip(names, outputs, strict=True)
    )
    cure = (
        "Export the model with its boxes decoded (as rows of 4 numbers and scores), or from Python give a "
        "DetectionHead that says what the outputs are, or a judge of your own"
    )
    return UsageError("--task detect", f"outputs {listed}: {why}", cure)


def _levels(names: Sequence[str], parts: Sequence[F64], size: tuple[int, int]) -> DetectionHead | None:
    """SCRFD, PicoDet: scores and distances (and points) of every stride, told by their rows."""
    if any(part.ndim not in (2, 3) for part in parts):
        return None
    parts = [flat(part) for part in parts]
    scores, boxes = list[int](), list[int]()
    for stride in STRIDES:
        count = len(cells(size, stride))
        group = [index for index, part in enumerate(parts) if len(part) in (count, 2 * count)]
        reach = [index for index in group if parts[index].shape[1] in (4, 32, 64, 68)]
        chance = [index for index in group if index not in reach and parts[index].shape[1] != 10]
        chance = chance or [index for index in group if index not in reach][:1]
        if len(reach) != 1 or len(chance) != 1:
            break
        scores, boxes = [*scores, chance[0]], [*boxes, reach[0]]
    if len(boxes) < 2 or len(parts) not in (2 * len(boxes), 3 * len(boxes)):
        return None
    form, _ = _scores(np.concatenate([parts[index] for index in scores]))
    form = "sigmoid" if form == "softmax" else form
    return DetectionHead("levels", size, (*scores, *boxes), "distances", form, nms=_NMS_OF_PAIRS)


def _offsets(names: Sequence[str], parts: Sequence[F64], size: tuple[int, int]) -> DetectionHead | None:
    """BlazeFace: boxes with points behind them, and one score each."""
    if len(parts) != 2 or any(part.ndim != 2 for part in parts):
        return None
    box = 0 if parts[0].shape[1] > parts[1].shape[1] else 1
    priors, table = blaze_priors(size), parts[box]
    if len(table) != len(priors) or len(parts[1 - box]) != len(priors) or table.shape[1] < 4:
        return None
    form, _ = _scores(parts[1 - box])
    return DetectionHead(
        "pair", size, (box, 1 - box), "offsets", form, extra=table.shape[1] - 4, nms=_NMS_OF_PAIRS,
        priors=priors,
    )  # fmt: skip


def _listed(names: Sequence[str], parts: Sequence[F64], size: tuple[int, int]) -> DetectionHead | None:
    """Boxes, scores and classes behind an NMS inside the model, told apart by values and names."""
    boxes = [index for index, part in enumerate(parts) if part.ndim == 2 and part.shape[1] == 4]
    if len(boxes) != 1 or not 0 < len(parts[boxes[0]]) <= _LISTS:
        return None
    rows = len(parts[boxes[0]])
    rest = [i for i, part in enumerate(parts) if i not in boxes and part.size == rows and part.ndim <= 2]
    whole = [index for index in rest if _are_classes(names[index], parts[index])]
    if len(rest) < 2 or not whole:
        return None
    scores = [index for index in rest if index != whole[-1]]
    form = _boxes(names[boxes[0]], parts[boxes[0]])
    if form is None:
        return None
    outputs = (boxes[0], scores[0], whole[-1])
    return DetectionHead("listed", size, outputs, form, normalized=_in_parts(parts[boxes[0]]), nms=None)


def _are_classes(name: str, part: F64) -> bool:
    told = "label" in name.lower() or "class" in name.lower()
    return bool(np.all(part == np.round(part))) and (told or float(np.max(np.abs(part), initial=0.0)) > 1.0)


def _pair(names: Sequence[str], parts: Sequence[F64], size: tuple[int, int]) -> DetectionHead | None:
    """Boxes [n, 4] and scores [n, c] as outputs of their own; other outputs, such as points, are left."""
    wide = [index for index, part in enumerate(parts) if part.ndim == 2 and part.shape[1] == 4]
    if len(parts) < 2 or not wide:
        return None
    box = min(wide, key=lambda index: ("box" not in names[index].lower(), index))
    rows = len(parts[box])
    rest = [i for i, part in enumerate(parts) if i != box and part.ndim in (1, 2) and len(part) == rows]
    faces = {parts[i].reshape(rows, -1).shape[1] for i in rest} == {2, 10}
    score = min(rest, key=lambda i: (_points(parts[i], faces), i), default=None)
    if score is None:
        return None
    chance = parts[score].reshape(rows, -1)
    scores, background = _scores(chance)
    form = _boxes(names[box], parts[box])
    head = DetectionHead("pair", size, (box, score), scores=scores, background=background, nms=_NMS_OF_PAIRS)
    if form is not None:
        nms = None if _are_queries(names, parts, box) else _NMS_OF_PAIRS
        return replace(head, boxes=form, normalized=_in_parts(parts[box]), nms=nms)
    if faces and len(face_priors(size)) == rows:
        return replace(head, boxes="priors", priors=face_priors(size), background=0)
    why = f"the {rows} boxes are neither corners nor centres with sizes, so they are measured from priors"
    arrays = [part[None] for part in parts]
    raise _unknown(names, arrays, f"{why}, which a DetectionHead(boxes='priors', priors=…) has to give")


def _points(part: F64, faces: bool) -> bool:
    return faces and part.reshape(len(part), -1).shape[1] == 10


def _are_queries(names: Sequence[str], parts: Sequence[F64], box: int) -> bool:
    """DETR: some hundred boxes as centres in parts of the input, each object found once."""
    return len(parts[box]) <= 1000 and _in_parts(parts[box]) and _boxes(names[box], parts[box]) == "centre"


def _single(names: Sequence[str], parts: Sequence[F64], size: tuple[int, int]) -> DetectionHead | None:
    """One output that holds boxes and scores; further ones are maps of masks."""
    tables = [index for index, part in enumerate(parts) if part.ndim == 2 and min(part.shape) >= 5]
    if not tables:
        return None
    index, maps = tables[0], [part for part in parts if part.ndim == 3]
    table, extra = parts[index], len(maps[0]) if maps else 0
    if table.shape[1] == 6 and _is_final(table):
        form = _boxes(names[index], table[:, :4]) or "corners"
        return DetectionHead("final", size, (index,), form, normalized=_in_parts(table[:, :4]), nms=None)
    if table.shape[0] < table.shape[1]:
        return _table(table.T, DetectionHead("columns", size, (index,), extra=extra))
    head = DetectionHead("rows", size, (index,), extra=extra)
    count = cell_count(size)
    if len(table) == count and float(np.min(table[:, 2:4])) < 0.0:
        return replace(_table(table, replace(head, boxes="grid", objectness=True)), normalized=False)
    anchors = len(table) == 3 * count or len(table) == 3 * (count + len(cells(size, 64)))
    one = _holds_objectness(table)
    if not (anchors or one or len(table) == count):
        why = "column 5 may be a class or the score of the box"
        raise _unknown(
            names, [part[None] for part in parts], f"{why}; a DetectionHead(objectness=…) has to say it"
        )
    return _table(table, replace(head, objectness=anchors or one))


def _table(table: F64, head: DetectionHead) -> DetectionHead:
    first = 5 if head.objectness else 4
    end = table.shape[1] - head.extra
    form, background = _scores(table[:, first:end]) if end > first else ("probability", None)
    if form == "softmax" or background is not None:  # of a class that is everywhere
        form = "sigmoid" if form == "softmax" else form
    nms = _NMS_OF_OBJECTNESS if head.objectness else head.nms
    return replace(head, scores=form, normalized=_in_parts(table[:, :4]), nms=nms)


def _holds_objectness(table: F64) -> bool:
    """Column 4 is 1 in all rows, as YOLOv6 exports it."""
    return bool(np.all(table[:, 4] == 1.0))


def _is_final(table: F64) -> bool:
    scores, classes = table[:, 4], table[:, 5]
    whole = bool(np.all(classes == np.round(classes))) and float(classes.min()) >= -1.0
    return whole and float(scores.min()) >= 0.0 and float(scores.max()) <= 1.0


def _boxes(name: str, boxes: F64) -> BoxForm | None:
    """Corners or centres; None where the numbers are neither."""
    if not np.all(np.isfinite(boxes)):
        return None
    ordered = float(np.mean((boxes[:, 2] >= boxes[:, 0]) & (boxes[:, 3] >= boxes[:, 1])))
    if ordered >= _NEARLY_ALL and float(np.mean(boxes)) > 0.0:
        return "yx" if name.lower().startswith("detection_boxes") else "corners"
    sized = float(np.mean((boxes[:, 2] >= 0.0) & (boxes[:, 3] >= 0.0)))
    inside = float(np.mean((boxes[:, 0] >= 0.0) & (boxes[:, 1] >= 0.0)))
    return "centre" if min(sized, inside) >= _NEARLY_ALL else None


def _in_parts(boxes: F64) -> bool:
    return float(np.max(np.abs(boxes), initial=0.0)) <= _SIZED


def _scores(scores: F64) -> tuple[ScoreForm, int | None]:
    """What makes probabilities of scores [n, c], and the column of the background."""
    columns = scores.shape[1]
    if float(scores.min()) >= -1e-6 and float(scores.max()) <= 1.0 + 1e-6:
        if columns == 1 or not np.allclose(scores.sum(axis=1), 1.0, atol=1e-3):
            return "probability", None
        return "probability", _common_column(scores)
    if columns == 1 or float(np.median(scores.max(axis=1))) < 0.0:
        return "sigmoid", None
    background = _common_column(scores)
    most = float(np.mean(np.argmax(scores, axis=1) == background % columns))
    return ("softmax", background) if most > 0.5 else ("sigmoid", None)


def _common_column(scores: F64) -> int:
    """The first or the last column: what most rows say."""
    best = np.argmax(scores, axis=1)
    return 0 if int(np.sum(best == 0)) >= int(np.sum(best == scores.shape[1] - 1)) else -1
