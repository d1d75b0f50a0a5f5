"""Outputs of a detector → boxes, scores and classes, as its ``DetectionHead`` says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from calib8.errors import DataError
from calib8.tasks.judges.boxes import corners, suppressed
from calib8.tasks.judges.decode_maps import decoded_maps, expected_bins, flat
from calib8.tasks.judges.detection_heads import FIRST_STRIDES, STRIDES, DetectionHead, cells
from calib8.tasks.judges.interface import F64, I64, Array

LEAST: Final = 0.001
"""Boxes with a lower score do not count."""

MOST: Final = 300
"""So many boxes of one image at most."""

CANDIDATES: Final = 3000
"""So many boxes, those with the best scores, go into NMS."""


@dataclass(frozen=True)
class Detections:
    """Boxes of one image, best score first.

    Attributes:
        boxes: float64 [n, 4], corners in pixels of the model's input.
        scores: float64 [n].
        classes: int64 [n].
        rows: int64 [n]: which box of the head each is.
        class_count: number of classes of the head; 0 where it does not say.
    """

    boxes: F64
    scores: F64
    classes: I64
    rows: I64
    class_count: int


def detections(outputs: Sequence[Array], head: DetectionHead, name: str) -> Detections:
    """The boxes of one image, each with its best class, after NMS.

    Raises:
        DataError: the outputs have other shapes than the head; ``name`` is the subject.
    """
    parts = [_one(outputs, index, name) for index in head.outputs]
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite in the end is no box
        boxes, scores, classes, count = _READERS[head.layout](parts, head, name)
    rows = np.arange(len(boxes))
    good = np.isfinite(boxes).all(axis=1) & np.isfinite(scores) & (scores >= LEAST)
    boxes, scores, classes, rows = boxes[good], scores[good], classes[good], rows[good]
    best = np.argsort(-scores, kind="stable")[:CANDIDATES]
    boxes, scores, classes, rows = boxes[best], scores[best], classes[best], rows[best]
    kept = np.arange(len(boxes))[:MOST]
    if head.nms is not None:
        kept = suppressed(boxes, scores, classes, head.nms, MOST)
    return Detections(boxes[kept], scores[kept], classes[kept], rows[kept], count)


_Read = tuple[F64, F64, I64, int]


def _one(outputs: Sequence[Array], index: int, name: str) -> F64:
    """One output of one sample without its batch axis."""
    if not -len(outputs) <= index < len(outputs):
        raise DataError(name, f"the model has {len(outputs)} outputs, and no number {index}", "Mend the head")
    array = outputs[index]
    whole = array[0] if array.ndim > 1 and array.shape[0] == 1 else array
    return np.asarray(whole, np.float64)


def _rows(parts: list[F64], head: DetectionHead, name: str) -> _Read:
    table = _table(parts[0], name)
    first = 5 if head.objectness else 4
    if table.shape[1] - head.extra <= first:
        raise _unfit(name, parts)
    end = table.shape[1] - head.extra
    chance = _probabilities(table[:, first:end], head)
    if head.objectness:
        chance = chance * _activated(table[:, 4:5], head)
    return _decided(_corners(table[:, :4], head, name), chance, head)


def _columns(parts: list[F64], head: DetectionHead, name: str) -> _Read:
    return _rows([_table(parts[0], name).T], head, name)


def _final(parts: list[F64], head: DetectionHead, name: str) -> _Read:
    table = _table(parts[0], name)
    if table.shape[1] < 6:
        raise _unfit(name, parts)
    boxes = _corners(table[:, :4], head, name)
    return boxes, table[:, 4], np.nan_to_num(table[:, 5]).astype(np.int64), 0


def _pair(parts: list[F64], head: DetectionHead, name: str) -> _Read:
    boxes, scores = _table(parts[0], name), parts[1].reshape(len(parts[1]), math.prod(parts[1].shape[1:]))
    if boxes.shape[1] != 4 + head.extra or len(boxes) != len(scores):
        raise _unfit(name, parts)
    return _decided(_corners(boxes[:, :4], head, name), _probabilities(scores, head), head)


def _listed(parts: list[F64], head: DetectionHead, name: str) -> _Read:
    boxes, scores, classes = parts[0].reshape(-1, 4), parts[1].reshape(-1), parts[2].reshape(-1)
    if not len(boxes) == len(scores) == len(classes):
        raise _unfit(name, parts)
    return _corners(boxes, head, name), scores, np.nan_to_num(classes).astype(np.int64), 0


def _levels(parts: list[F64], head: DetectionHead, name: str) -> _Read:
    half, boxes, scores = len(parts) // 2, list[F64](), list[F64]()
    if half > len(STRIDES):
        raise _unfit(name, parts)
    parts = [flat(part) for part in parts]
    for chance, reach, stride in zip(parts[:half], parts[half:], STRIDES, strict=False):
        corner, table = cells(head.size, stride), _table(reach, name)
        bins, uneven = divmod(table.shape[1], 4)
        each, rest = divmod(len(table), len(corner))
        if rest or uneven or not each or len(chance) != len(table):
            raise _unfit(name, parts)
        middle = np.repeat((corner + (0.5 if bins > 1 else 0.0)) * stride, each, axis=0)
        reach = expected_bins(table, bins) * stride
        boxes.append(np.concatenate([middle - reach[:, :2], middle + reach[:, 2:]], axis=1))
        scores.append(chance.reshape(len(reach), -1))
    return _decided(np.concatenate(boxes), _probabilities(np.concatenate(scores), head), head)


def _maps(parts: list[F64], head: DetectionHead, name: str) -> _Read:
    found = decoded_maps(parts, head)
    if found is None:
        raise _unfit(name, parts)
    if found.objectness is None:
        return _decided(found.boxes, _probabilities(found.scores, head), head)
    chance = _activated(found.objectness, head)
    if found.scores.shape[1]:
        chance = chance * _probabilities(found.scores, head)
    return _decided(found.boxes, chance, head)


_READERS: Final = {
    "rows": _rows, "columns": _columns, "final": _final, "pair": _pair, "listed": _listed, "levels": _levels,
    "maps": _maps,
}  # fmt: skip


def _table(part: F64, name: str) -> F64:
    table = (
        part.reshape(part.shape[-2:])
        if part.ndim > 2 and part.size == part[(0,) * (part.ndim - 2)].size
        else part
    )
    table = table[None] if table.ndim == 1 else table  # a single row, taken for the batch
    if table.ndim != 2:
        raise _unfit(name, [part])
    return table


def _unfit(name: str, parts: Sequence[F64]) -> DataError:
    shapes = ", ".join(str(list(part.shape)) for part in parts)
    cure = "Give a DetectionHead that says what the outputs are"
    return DataError(name, f"outputs of shape {shapes} do not fit the head", cure)


def _activated(scores: F64, head: DetectionHead) -> F64:
    if head.scores == "probability":
        return scores
    return np.asarray(1.0 / (1.0 + np.exp(-scores)))


def _probabilities(scores: F64, head: DetectionHead) -> F64:
    """Of classes, without the background: [n, c]."""
    if head.scores == "softmax":
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores = raised / raised.sum(axis=1, keepdims=True)
    else:
        scores = _activated(scores, head)
    if head.background is None:
        return scores
    return np.delete(scores, head.background, axis=1)


def _decided(boxes: F64, scores: F64, head: DetectionHead) -> _Read:
    scores = np.where(np.isnan(scores), -np.inf, scores)
    best = np.argmax(scores, axis=1)
    return boxes, scores[np.arange(len(scores)), best], best.astype(np.int64), scores.shape[1]


def _corners(boxes: F64, head: DetectionHead, name: str) -> F64:
    """Corners in pixels of the input."""
    height, width = head.size
    if head.boxes == "grid":
        return corners(_from_grid(boxes, head, name))
    if head.boxes == "offsets":
        return corners(boxes + _priors(boxes, head, name) * np.array([width, height, 0, 0]))
    if head.boxes == "priors":
        found = corners(_from_priors(boxes, head, name))
    elif head.boxes == "centre":
        found = corners(boxes)
    else:
        found = boxes[:, [1, 0, 3, 2]] if head.boxes == "yx" else boxes
    in_parts = head.normalized or head.boxes == "priors"
    return np.asarray(found * np.array([width, height, width, height])) if in_parts else found


def _from_grid(boxes: F64, head: DetectionHead, name: str) -> F64:
    places = [cells(head.size, stride) for stride in FIRST_STRIDES]
    steps = np.concatenate(
        [np.full((len(each), 1), stride) for each, stride in zip(places, FIRST_STRIDES, strict=True)]
    )
    if len(steps) != len(boxes):
        raise _unfit(name, [boxes])
    return np.concatenate(
        [(boxes[:, :2] + np.concatenate(places)) * steps, np.exp(boxes[:, 2:]) * steps], axis=1
    )


def _from_priors(boxes: F64, head: DetectionHead, name: str) -> F64:
    priors, (centre, side) = _priors(boxes, head, name), head.variances
    middle = priors[:, :2] + boxes[:, :2] * centre * priors[:, 2:]
    return np.concatenate([middle, priors[:, 2:] * np.exp(boxes[:, 2:] * side)], axis=1)


def _priors(boxes: F64, head: DetectionHead, name: str) -> F64:
    priors = np.asarray(head.priors, np.float64)
    if priors.shape != boxes.shape:
        raise _unfit(name, [boxes, priors])
    return priors
