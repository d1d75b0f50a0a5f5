"""Outputs of detectors of every known form, written from objects that are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SIZE = (64, 96)
CLASSES = 5
OBJECTS = np.array([[10.0, 8.0, 40.0, 30.0], [50.0, 20.0, 90.0, 60.0], [4.0, 40.0, 20.0, 62.0]])
KINDS = np.array([2, 0, 4])
SCORES = np.array([0.9, 0.8, 0.6])


@dataclass(frozen=True)
class Written:
    """Names and outputs of one sample."""

    names: tuple[str, ...]
    outputs: tuple[Any, ...]


def places() -> Any:
    """x, y of the centre and stride of every cell, by loops."""
    found = []
    for stride in (8, 16, 32):
        for row in range(SIZE[0] // stride):
            for column in range(SIZE[1] // stride):
                found.append((column, row, stride))
    return np.array(found, float)


def centred(boxes: Any) -> Any:
    return np.stack(
        [(boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2,
         boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]], axis=1,
    )  # fmt: skip


def filled(rows: int, width: int, classes: int = CLASSES) -> tuple[Any, Any, Any]:
    """Boxes (centres) and scores of all rows, and the rows of the objects: others have low scores."""
    rng = np.random.default_rng(rows)
    boxes = np.stack(
        [
            rng.uniform(10, 80, rows),
            rng.uniform(10, 50, rows),
            rng.uniform(2, 9, rows),
            rng.uniform(2, 9, rows),
        ],
        axis=1,
    )
    scores = rng.uniform(0, 0.0005, (rows, classes))
    chosen = rng.choice(rows, len(OBJECTS), replace=False)
    boxes[chosen] = centred(OBJECTS)
    scores[chosen, KINDS % classes] = SCORES
    return boxes, scores, chosen


def logits(chance: Any) -> Any:
    return np.log(chance / (1 - chance))


def one(array: Any) -> Any:
    return np.asarray(array, np.float32)[None]


def yolov8() -> Written:
    boxes, scores, _ = filled(len(places()), 4)
    return Written(("output0",), (one(np.concatenate([boxes, scores], axis=1).T),))


def yolov8_rows() -> Written:
    [array] = yolov8().outputs
    return Written(("output0",), (array.transpose(0, 2, 1),))


def yolov8_in_parts() -> Written:
    """As exported to TFLite: boxes count in parts of the input."""
    boxes, scores, _ = filled(len(places()), 4)
    boxes = boxes / np.array([SIZE[1], SIZE[0], SIZE[1], SIZE[0]])
    return Written(("output0",), (one(np.concatenate([boxes, scores], axis=1).T),))


def yolov8_segmenter() -> Written:
    boxes, scores, _ = filled(len(places()), 4)
    coefficients = np.random.default_rng(1).normal(size=(len(boxes), 8))
    table = np.concatenate([boxes, scores, coefficients], axis=1).T
    return Written(("output0", "output1"), (one(table), one(np.zeros((8, 16, 24)))))


def yolov5() -> Written:
    boxes, scores, chosen = filled(3 * len(places()), 4)
    thing = np.full((len(boxes), 1), 0.0004)
    thing[chosen] = 0.95
    scores[chosen] /= 0.95
    return Written(("output",), (one(np.concatenate([boxes, thing, scores], axis=1)),))


def yolox() -> Written:
    """Offsets from cells, not decoded."""
    grid = places()
    boxes, scores, chosen = filled(len(grid), 4)
    thing = np.full((len(boxes), 1), 0.0004)
    thing[chosen] = 0.95
    scores[chosen] /= 0.95
    offsets = boxes[:, :2] / grid[:, 2:] - grid[:, :2]
    sides = np.log(boxes[:, 2:] / grid[:, 2:])
    return Written(("output",), (one(np.concatenate([offsets, sides, thing, scores], axis=1)),))


def yolo26() -> Written:
    rows = np.zeros((300, 6))
    rows[:, 2:4] = 1.0
    rows[:3] = np.concatenate([OBJECTS, SCORES[:, None], KINDS[:, None]], axis=1)
    return Written(("output0",), (one(rows),))


def ultra_face() -> Written:
    boxes, scores, _ = filled(200, 4, 1)
    corners = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)
    corners = corners / np.array([SIZE[1], SIZE[0], SIZE[1], SIZE[0]])
    return Written(("scores", "boxes"), (one(np.concatenate([1 - scores, scores], axis=1)), one(corners)))


def detr(end: float = 6.0) -> Written:
    """Queries: logits for a softmax whose last class is no object."""
    boxes, scores, _ = filled(50, 4)
    boxes = boxes / np.array([SIZE[1], SIZE[0], SIZE[1], SIZE[0]])
    chance = np.concatenate([scores, 1 - scores.sum(axis=1, keepdims=True)], axis=1)
    return Written(("logits", "pred_boxes"), (one(np.log(chance) + end), one(boxes)))


def rt_detr() -> Written:
    boxes, scores, _ = filled(50, 4)
    boxes = boxes / np.array([SIZE[1], SIZE[0], SIZE[1], SIZE[0]])
    return Written(("logits", "pred_boxes"), (one(logits(scores + 1e-6)), one(boxes)))


def listed() -> Written:
    return Written(
        ("detection_boxes", "detection_classes", "detection_scores"),
        (one(OBJECTS[:, [1, 0, 3, 2]] / np.array([64, 96, 64, 96])), one(KINDS), one(SCORES)),
    )


def scrfd() -> Written:
    """Distances from the corner of cells to the sides, in strides; two rows per cell."""
    scores, boxes = [], []
    for stride in (8, 16, 32):
        count = 2 * (SIZE[0] // stride) * (SIZE[1] // stride)
        scores.append(np.full((count, 1), 0.0004, np.float32))
        boxes.append(np.full((count, 4), 0.5, np.float32))
    for level, index, box, score in zip((0, 1, 2), (5, 3, 4), OBJECTS, SCORES, strict=True):
        stride, across = (8, 16, 32)[level], SIZE[1] // (8, 16, 32)[level]
        x, y = (index // 2) % across * stride, (index // 2) // across * stride
        reach = np.array([x - box[0], y - box[1], box[2] - x, box[3] - y]) / stride
        scores[level][index], boxes[level][index] = score, reach
    return Written(tuple("abcdef"), (*scores, *boxes))


def retina_face() -> Written:
    """Deltas from priors, written out in loops."""
    priors = []
    for stride, sides in ((8, (16, 32)), (16, (64, 128)), (32, (256, 512))):
        for row in range(SIZE[0] // stride):
            for column in range(SIZE[1] // stride):
                for side in sides:
                    x, y = (column + 0.5) * stride / SIZE[1], (row + 0.5) * stride / SIZE[0]
                    priors.append((x, y, side / SIZE[1], side / SIZE[0]))
    anchors = np.array(priors)
    boxes, scores, _ = filled(len(anchors), 4, 1)
    boxes = boxes / np.array([SIZE[1], SIZE[0], SIZE[1], SIZE[0]])
    deltas = np.concatenate(
        [
            (boxes[:, :2] - anchors[:, :2]) / (0.1 * anchors[:, 2:]),
            np.log(boxes[:, 2:] / anchors[:, 2:]) / 0.2,
        ],
        axis=1,
    )
    names = ("loc", "conf", "landmarks")
    pair = np.concatenate([1 - scores, scores], axis=1)
    return Written(names, (one(deltas), one(pair), one(np.zeros((len(boxes), 10)))))


def pico_det() -> Written:
    """Distances from the middle of cells as scores of 0 … 7 strides, of four strides."""
    scores, boxes = [], []
    for stride in (8, 16, 32, 64):
        count = -(-SIZE[0] // stride) * -(-SIZE[1] // stride)
        scores.append(np.full((count, CLASSES), 0.0004, np.float32))
        boxes.append(np.zeros((count, 32), np.float32))
    for level, index, box, kind, score in zip((0, 1, 2), (16, 9, 3), OBJECTS, KINDS, SCORES, strict=True):
        stride, across = (8, 16, 32)[level], SIZE[1] // (8, 16, 32)[level]
        x, y = (index % across + 0.5) * stride, (index // across + 0.5) * stride
        scores[level][index, kind] = score
        for side, reach in enumerate((x - box[0], y - box[1], box[2] - x, box[3] - y)):
            low, part = divmod(reach / stride, 1.0)
            bins = np.full(8, -60.0)
            bins[int(low)] = np.log(max(1.0 - part, 1e-20))
            bins[int(low) + 1] = np.log(max(part, 1e-20))
            boxes[level][index, 8 * side : 8 * side + 8] = bins
    return Written(tuple("abcdefgh"), tuple(one(array) for array in (*scores, *boxes)))


def blaze_face() -> Written:
    """Offsets from the middle of cells in pixels, with points behind them; scores before their sigmoid."""
    middles = []
    for stride, each in ((8, 2), (16, 6)):
        for row in range(SIZE[0] // stride):
            for column in range(SIZE[1] // stride):
                middles += [((column + 0.5) * stride, (row + 0.5) * stride)] * each
    boxes, scores, _ = filled(len(middles), 4, 1)
    boxes[:, :2] -= np.array(middles)
    points = np.zeros((len(boxes), 12))
    outputs = (one(np.concatenate([boxes, points], axis=1)), one(logits(scores + 1e-6)))
    return Written(("regressors", "classificators"), outputs)


def maps_of(table: Any, stride: int) -> Any:
    """Rows [h·w, c] of one stride as a map [1, c, h, w]."""
    high, wide = -(-SIZE[0] // stride), -(-SIZE[1] // stride)
    return np.asarray(table.reshape(high, wide, -1).transpose(2, 0, 1)[None], np.float32)


def pico_det_maps() -> Written:
    """The same as ``pico_det`` with an axis each for rows and columns."""
    written, strides = pico_det(), (8, 16, 32, 64) * 2
    outputs = tuple(maps_of(array[0], stride) for array, stride in zip(written.outputs, strides, strict=True))
    return Written(written.names, outputs)
