"""TFLite_Detection_PostProcess: boxes from their anchors, then non-maximum suppression.

    y = e_y/s_y·a_h + a_y,   h = e^(e_h/s_h)/2·a_h,   box = [y − h, x − w, y + h, x + w]

in float64, centre and half size rounded to float32. A box overlaps another where intersection over union
is above the threshold; among equal scores the first box or class goes first.

fast       every box has its best classes; all boxes suppress each other by the score of the best one
regular    the boxes of each class suppress each other, the best of all classes remain

Rows behind the number of detections are zeros; LiteRT leaves them as they are where it is fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.from_tflite.builder import Builder
from calib8.model.from_tflite.orders import as_filed
from calib8.tflite.custom import Detections, detections
from calib8.tflite.graph import Operator

COORDINATES = 4
BOX, CLASS = 2, 1
"""Columns of what NonMaxSuppression selects."""


class _Nodes:
    """Nodes of one operator, named after its first output."""

    def __init__(self, builder: Builder, operator: Operator) -> None:
        self.builder, self.title = builder, builder.name(operator.outputs[0])

    def __call__(self, op: str, *inputs: ir.Value, tag: str = "", **attributes: Any) -> ir.Value:
        """A node, and what it computes."""
        return self.builder.emit(f"{self.title}/{tag or op.lower()}", op, inputs, **attributes)

    def number(self, values: Any, dtype: str = "int64") -> ir.Value:
        """A constant."""
        return self.builder.numbers(f"{self.title}/constant", values, dtype)

    def part(self, value: ir.Value, axis: int, first: int, end: int) -> ir.Value:
        """Indices ``first`` to ``end`` of an axis."""
        bounds = (self.number([bound]) for bound in (first, end, axis))
        return self("Slice", value, *bounds, tag="part")

    def column(self, selected: ir.Value, place: int) -> ir.Value:
        """One column of a matrix, as a list."""
        return self("Gather", selected, self.number(place), tag="column", axis=1)

    def filled(self, value: ir.Value, shape: Sequence[int], fill: float = 0.0) -> ir.Value:
        """Rows of float32, and behind them as many more as ``shape`` has."""
        return self("Concat", value, self.number(np.full(shape, fill), "float32"), tag="filled", axis=0)


def detection_post_process(builder: Builder, operator: Operator) -> None:
    """Boxes, classes, scores and their number."""
    options = detections(operator)
    _check(builder, operator, options)
    nodes = _Nodes(builder, operator)
    boxes = _decoded(nodes, operator, options)
    scores = builder.read(operator.inputs[1], as_filed(3))
    depth = builder.size(operator.inputs[1], 2)
    if depth > options.num_classes:
        scores = nodes.part(scores, 2, depth - options.num_classes, depth)
    suppress = _regular if options.use_regular_nms else _fast
    _write(builder, operator, options, suppress(nodes, options, boxes, scores))


def _check(builder: Builder, operator: Operator, options: Detections) -> None:
    """Refuses tensors that LiteRT refuses.

    Raises:
        NoFormError: shapes that do not fit, anchors of a negative size, or boxes in codes.
    """
    if len(operator.inputs) != 3 or len(operator.outputs) != 4:
        raise NoFormError(f"it has {len(operator.inputs)} inputs and {len(operator.outputs)} outputs")
    boxes, scores, anchors = (builder.tensor(place).shape for place in operator.inputs)
    fits = len(boxes) == len(scores) == 3 and boxes[0] == 1 and boxes[2] >= COORDINATES
    if not fits or scores[:2] != boxes[:2] or anchors != (boxes[1], COORDINATES):
        shapes = ", ".join(str(list(shape)) for shape in (boxes, scores, anchors))
        raise NoFormError(f"its boxes, scores and anchors are {shapes}")
    if scores[2] - options.num_classes not in (0, 1):
        raise NoFormError(f"it has {options.num_classes} classes, and scores of {scores[2]}")
    written = [builder.tensor(place).shape for place in operator.outputs]
    if written != [(1, options.rows, COORDINATES), (1, options.rows), (1, options.rows), (1,)]:
        raise NoFormError(f"its outputs are {written}, where it makes {options.rows} rows")
    types = {builder.tensor(place).dtype for place in (*operator.inputs, *operator.outputs)}
    if types != {"float32"}:
        raise NoFormError(f"its tensors hold {' and '.join(sorted(types))}")
    if builder.is_constant(operator.inputs[2]) and (builder.constant(operator.inputs[2])[:, 2:] < 0).any():
        raise NoFormError("an anchor has a negative size")


def _decoded(nodes: _Nodes, operator: Operator, options: Detections) -> ir.Value:
    """Corners of the boxes: float32 [boxes, 4], y before x."""
    builder, float32 = nodes.builder, int(ir.DataType.FLOAT)
    count = builder.size(operator.inputs[0], 1)
    encoded, anchors = builder.read(operator.inputs[0], as_filed(3)), builder.read(operator.inputs[2])
    shape = nodes.number([count, builder.size(operator.inputs[0], 2)])
    exact = nodes("Cast", nodes("Reshape", encoded, shape), tag="exact", to=int(ir.DataType.DOUBLE))
    wide = nodes("Cast", anchors, tag="anchors", to=int(ir.DataType.DOUBLE))
    places, sizes = nodes.part(wide, 1, 0, 2), nodes.part(wide, 1, 2, 4)
    scales = [options.y_scale, options.x_scale, options.h_scale, options.w_scale]
    divisors = [np.array(pair, np.float32).astype(np.float64) for pair in (scales[:2], scales[2:])]
    moved = nodes("Div", nodes.part(exact, 1, 0, 2), nodes.number(divisors[0], "float64"))
    centre = nodes("Add", nodes("Mul", moved, sizes), places)
    grown = nodes("Exp", nodes("Div", nodes.part(exact, 1, 2, 4), nodes.number(divisors[1], "float64")))
    half = nodes("Mul", nodes("Mul", grown, nodes.number(0.5, "float64")), sizes)
    centre, half = (nodes("Cast", value, tag="rounded", to=float32) for value in (centre, half))
    return nodes("Concat", nodes("Sub", centre, half), nodes("Add", centre, half), tag="corners", axis=1)


def _selected(nodes: _Nodes, options: Detections, boxes: ir.Value, scores: ir.Value, most: int) -> ir.Value:
    """Rows [image, class, box] that remain of scores [1, classes, boxes]: the best of a class first.

    LiteRT keeps scores at the threshold, ONNX those above it.
    """
    below = np.nextafter(np.float32(options.nms_score_threshold), np.float32(-np.inf))
    limits = (
        nodes.number([most]),
        nodes.number([options.nms_iou_threshold], "float32"),
        nodes.number([below], "float32"),
    )
    image = nodes("Unsqueeze", boxes, nodes.number([0]), tag="image")
    return nodes("NonMaxSuppression", image, scores, *limits, tag="selected")


def _fast(nodes: _Nodes, options: Detections, boxes: ir.Value, scores: ir.Value) -> list[ir.Value]:
    """Boxes [rows, 4], classes and scores [rows] and the number of detections, of the best boxes."""
    each, most = options.max_classes_per_detection, options.max_detections
    kept = min(each, options.num_classes)
    best, classes = nodes.builder.emit_several(
        f"{nodes.title}/best", "TopK", [scores, nodes.number([kept])], 2, axis=2
    )
    first = nodes("Transpose", nodes.part(best, 2, 0, 1), tag="first", perm=[0, 2, 1])
    places = nodes.column(_selected(nodes, options, boxes, first, most), BOX)
    found = []
    for value in (nodes("Cast", classes, tag="classes", to=int(ir.DataType.FLOAT)), best):
        rows = nodes("Gather", nodes("Squeeze", value, nodes.number([0])), places, tag="rows", axis=0)
        if each > kept:
            ends = nodes.number([0, 0, 0, each - kept])
            rows = nodes("Pad", rows, ends, tag="wider")
        whole = nodes.part(nodes.filled(rows, (most, each)), 0, 0, most)
        found.append(nodes("Reshape", whole, nodes.number([-1]), tag="list"))
    picked = nodes("Unsqueeze", nodes("Gather", boxes, places, axis=0), nodes.number([1]))
    if each > 1:
        picked = nodes("Tile", picked, nodes.number([1, kept, 1]))
        picked = nodes("Pad", picked, nodes.number([0, 0, 0, 0, each - kept, 0]), tag="wider")
    corners = nodes.part(nodes.filled(picked, (most, each, COORDINATES)), 0, 0, most)
    return [corners, *found, nodes("Shape", places, tag="count")]


def _regular(nodes: _Nodes, options: Detections, boxes: ir.Value, scores: ir.Value) -> list[ir.Value]:
    """The same, of the best boxes of all classes."""
    most, lowest = options.max_detections, -np.inf
    of_class = nodes("Transpose", scores, tag="by_class", perm=[0, 2, 1])
    selected = _selected(nodes, options, boxes, of_class, min(options.detections_per_class, most))
    values = nodes("GatherND", of_class, nodes("Concat", *_index(nodes, selected), axis=1), tag="values")
    ranked = nodes.filled(values, (most,), lowest)
    _, order = nodes.builder.emit_several(f"{nodes.title}/order", "TopK", [ranked, nodes.number([most])], 2)
    classes = nodes("Cast", nodes.column(selected, CLASS), tag="classes", to=int(ir.DataType.FLOAT))
    corners = nodes("Gather", boxes, nodes.column(selected, BOX), tag="corners", axis=0)
    lists = [(corners, (most, COORDINATES)), (classes, (most,)), (values, (most,))]
    found = [nodes("Gather", nodes.filled(value, shape), order, axis=0) for value, shape in lists]
    if options.rows > most:
        found = [
            nodes.filled(value, (options.rows - most, *shape[1:]))
            for value, (_, shape) in zip(found, lists, strict=True)
        ]
    count = nodes("Min", nodes("Shape", values, tag="found"), nodes.number([most]), tag="count")
    return [*found, count]


def _index(nodes: _Nodes, selected: ir.Value) -> list[ir.Value]:
    """Image, class and box of what is selected, as columns of indices."""
    return [nodes.part(selected, 1, place, place + 1) for place in range(3)]


def _write(builder: Builder, operator: Operator, options: Detections, found: list[ir.Value]) -> None:
    shapes = [(1, options.rows, COORDINATES), (1, options.rows), (1, options.rows)]
    for place, value, shape in zip(operator.outputs, found, shapes, strict=False):
        sizes = builder.numbers(f"{builder.name(place)}/shape", shape)
        builder.write(place, builder.filed(place), "Reshape", [value, sizes])
    builder.write(operator.outputs[3], as_filed(1), "Cast", [found[3]], to=int(ir.DataType.FLOAT))
