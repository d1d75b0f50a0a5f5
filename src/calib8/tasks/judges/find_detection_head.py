"""Which ``DetectionHead`` a detector has, for outputs of one sample whose places are known.

``detection_places`` says where boxes and scores lie: the graph, where it shows that, else shapes. Values say
what they are: corners never cross, centres and sizes in parts of the input stay near 0 … 1, scores outside of
0 … 1 are not through their sigmoid or softmax yet. What cannot be told is an error that says what would be
needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from calib8.errors import UsageError
from calib8.parameters import entry, parameter
from calib8.tasks.branches import Meaning
from calib8.tasks.judges.anchors import grid_head
from calib8.tasks.judges.decode_maps import flat
from calib8.tasks.judges.detection_heads import (
    BoxForm,
    DetectionHead,
    ScoreForm,
    blaze_priors,
    cell_count,
    face_priors,
)
from calib8.tasks.judges.detection_places import Places, Shown, faces, places_by_shape, told_places
from calib8.tasks.judges.interface import F64, Array
from calib8.tasks.judges.named_places import check_places
from calib8.tensors import shape_text

_SIZED: Final = 2.0
"""Boxes in parts of the input stay below; those in pixels do not."""

_NEARLY_ALL: Final = 0.99
_NMS_OF_PAIRS: Final = 0.5
_NMS_OF_OBJECTNESS: Final = 0.45
"""What the families are deployed with."""


def find_detection_head(
    names: Sequence[str], outputs: Sequence[Array], size: tuple[int, int], meaning: Meaning | None = None
) -> DetectionHead:
    """The head of a detector.

    Args:
        names: of the outputs.
        outputs: of the float model for one sample, batch axis of length 1 included.
        size: height and width of the model's input in pixels.
        meaning: branches of the outputs as the graph has them; None: it is not known.

    Raises:
        UsageError: the decoding is unknown, or several fit; the outputs are listed. Or parts that the user
            named would be read as something else.
    """
    shown = Shown.of(names, outputs, size)
    grids = () if meaning is None else meaning.grids
    if grids and all(grid.output in shown.names for grid in grids):
        shapes = [part.shape for part in shown.parts]
        return grid_head(grids, shown.names, shapes, size)
    places = None if meaning is None else told_places(meaning, shown)
    places = places_by_shape(shown) if places is None else places
    if places is None:
        raise _unknown(shown, _why_unknown(shown))
    places = _with_background(places, shown)
    if meaning is not None:
        check_places(meaning, places, shown)
    if places.layout == "pair":
        return _pair(places, shown)
    if places.layout in ("levels", "maps"):
        return _strides(places, shown)
    table = shown.parts[places.outputs[0]]
    if places.layout in ("listed", "final"):
        form = _boxes(shown.names[places.outputs[0]], table[:, :4])
        if form is None and places.layout == "listed":
            raise _unknown(shown, "the boxes are neither corners nor centres with sizes")
        normalized = _in_parts(table[:, :4])
        return DetectionHead(
            places.layout, size, places.outputs, form or "corners", normalized=normalized, nms=None
        )
    return _table(table.T if places.layout == "columns" else table, places, size)


def _unknown(shown: Shown, why: str) -> UsageError:
    shapes = (
        shape_text((1, *part.shape) if dropped else part.shape)
        for part, dropped in zip(shown.parts, shown.dropped, strict=True)
    )
    listed = ", ".join(f"{name} {shape}" for name, shape in zip(shown.names, shapes, strict=True))
    cure = (
        "Export the model with its boxes decoded (as rows of 4 numbers and scores), name the form of a raw "
        f"grid of anchors, such as {entry('branches', 'NAME', 'yolov3-grid')}, or from Python give a "
        "DetectionHead that says what the outputs are, or a judge of your own"
    )
    return UsageError(parameter("task", "detect"), f"outputs {listed}: {why}", cure)


def _why_unknown(shown: Shown) -> str:
    if any(part.ndim == 2 and min(part.shape) >= 5 for part in shown.parts):
        why = "column 5 may be a class or the score of the box"
        return f"{why}; a DetectionHead(objectness=…) has to say it"
    return "no decoding of boxes is known for them"


def _strides(places: Places, shown: Shown) -> DetectionHead:
    """Outputs of several strides; scores that are not yet probabilities become such by a sigmoid."""
    parts = [flat(shown.parts[index]) for index in places.outputs]
    maps = places.layout == "maps"
    scores = [part[:, 4 * places.bins :] for part in parts] if maps else parts[: len(parts) // 2]
    form, _ = _scores(np.concatenate(scores))
    return DetectionHead(
        places.layout, shown.size, places.outputs, "distances", "sigmoid" if form == "softmax" else form,
        background=places.background, nms=0.7 if maps else _NMS_OF_PAIRS, bins=places.bins,
    )  # fmt: skip


def _with_background(places: Places, shown: Shown) -> Places:
    """Boxes and scores as outputs of their own: which class is the background, if the numbers tell."""
    if places.layout != "pair" or places.background is not None:
        return places
    box, score = places.outputs
    _, background = _scores(shown.parts[score].reshape(len(shown.parts[box]), -1))
    return replace(places, background=background)


def _pair(places: Places, shown: Shown) -> DetectionHead:
    """Boxes and scores as outputs of their own."""
    box, score = places.outputs
    table, name, size = shown.parts[box], shown.names[box], shown.size
    rows = len(table)
    scores, _ = _scores(shown.parts[score].reshape(rows, -1))
    head = DetectionHead(
        "pair", size, places.outputs, scores=scores, background=places.background, extra=places.extra,
        nms=_NMS_OF_PAIRS,
    )  # fmt: skip
    if places.extra and len(blaze_priors(size)) == rows:
        return replace(head, boxes="offsets", priors=blaze_priors(size), background=None)
    form = _boxes(name, table[:, :4])
    if form is not None:
        normalized = _in_parts(table[:, :4])
        # DETR: some hundred boxes as centres in parts of the input, each object found once
        queries = rows <= 1000 and normalized and form == "centre"
        return replace(head, boxes=form, normalized=normalized, nms=None if queries else _NMS_OF_PAIRS)
    if faces(shown, rows) and len(face_priors(size)) == rows:
        return replace(head, boxes="priors", priors=face_priors(size), background=0)
    why = f"the {rows} boxes are neither corners nor centres with sizes, so they are measured from priors"
    raise _unknown(shown, f"{why}, which a DetectionHead(boxes='priors', priors=…) has to give")


def _table(table: F64, places: Places, size: tuple[int, int]) -> DetectionHead:
    """Rows of boxes and scores, objectness in front of them and further columns behind."""
    grid = places.objectness and len(table) == cell_count(size) and float(np.min(table[:, 2:4])) < 0.0
    first, end = 5 if places.objectness else 4, table.shape[1] - places.extra
    scores, _ = _scores(table[:, first:end]) if end > first else ("probability", None)
    return DetectionHead(
        places.layout, size, places.outputs, "grid" if grid else "centre",
        "sigmoid" if scores == "softmax" else scores,  # of a class that is everywhere
        normalized=not grid and _in_parts(table[:, :4]), objectness=places.objectness, extra=places.extra,
        nms=_NMS_OF_OBJECTNESS if places.objectness else 0.7,
    )  # fmt: skip


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
