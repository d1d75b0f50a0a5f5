"""Random models of custom operators: detections with anchors, a transposed convolution with a bias."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from single_op import Net, quantized

from calib8.tflite.custom import (
    DETECTIONS,
    TRANSPOSE_CONV_BIAS,
    Detections,
    TransposeConvBias,
    detections_bytes,
    transpose_conv_bias_bytes,
)
from calib8.tflite.graph import CUSTOM, Graph, Operator

SCALES: Final = {"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}


def options(rng: np.random.Generator) -> Detections:
    return Detections(
        max_detections=int(rng.integers(1, 12)),
        max_classes_per_detection=int(rng.choice([1, 1, 1, 2, 3])),
        detections_per_class=int(rng.integers(1, 8)),
        use_regular_nms=bool(rng.random() < 0.5),
        nms_score_threshold=float(np.float32(rng.choice([0.0, 0.2, 0.375, 0.6]))),
        nms_iou_threshold=float(np.float32(rng.choice([0.3, 0.5, 0.6, 1.0]))),
        num_classes=int(rng.integers(1, 7)),
        **SCALES,
    )


def anchors(rng: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
    """Centres in the picture, sizes of 0 and more."""
    return np.concatenate([rng.random((count, 2)), rng.random((count, 2)) * 0.6], 1).astype(np.float32)


def detection_tail(net: Net, rng: np.random.Generator, inputs: list[int], chosen: Detections) -> Graph:
    """The model that ends with the operator on boxes, scores and anchors."""
    rows = chosen.max_detections * chosen.max_classes_per_detection
    outputs = [net.output(shape, "float32") for shape in ((1, rows, 4), (1, rows), (1, rows), (1,))]
    graph = net.graph(CUSTOM, inputs, outputs)
    own = detections_bytes(chosen)
    last = Operator(CUSTOM, tuple(inputs), tuple(outputs), {}, 1, DETECTIONS, own)
    return Graph(graph.tensors, (last,), graph.inputs, graph.outputs, "net")


def detections(rng: np.random.Generator, dtype: str = "float32") -> Graph:
    """Boxes and scores as real numbers, or as uint8 codes with anchors in codes."""
    net, chosen, count = Net(), options(rng), int(rng.integers(1, 60))
    depth = chosen.num_classes + int(rng.integers(0, 2))
    shapes = (1, count, int(rng.choice([4, 4, 6]))), (1, count, depth)
    if dtype != "uint8":
        inputs = [net.plain(shape, "float32") for shape in shapes]
        inputs.append(net.constant(anchors(rng, count)))
    else:
        kinds = ((0.06, int(rng.integers(100, 150))), (1 / 256, 0))
        inputs = [net.codes(shape, dtype, *kind) for shape, kind in zip(shapes, kinds, strict=True)]
        codes = np.round(anchors(rng, count) * 200).astype(np.uint8) + np.uint8(3)
        inputs.append(net.constant(codes, quantized(1 / 200, 3)))
    return detection_tail(net, rng, inputs, chosen)


def transpose_conv_bias(rng: np.random.Generator, dtype: str = "float32") -> Graph:
    """Of real numbers, whatever the type."""
    net, padding = Net(), str(rng.choice(["SAME", "VALID"]))
    stride, size = rng.integers(1, 4, 2), rng.integers(1, 7, 2)
    kernel = np.maximum(rng.integers(1, 5, 2), stride)
    depth, outputs = (int(n) for n in rng.integers(1, 9, 2))
    full = size * stride if padding == "SAME" else (size - 1) * stride + kernel
    x = net.plain((int(rng.integers(1, 3)), *size.tolist(), depth), "float32")
    weight = net.constant(rng.normal(0, 1, (outputs, *kernel.tolist(), depth)).astype(np.float32))
    bias = net.constant(rng.normal(0, 1, outputs).astype(np.float32))
    y = net.output((net.tensors[x].shape[0], *full.tolist(), outputs), "float32")
    own = transpose_conv_bias_bytes(TransposeConvBias(padding, int(stride[0]), int(stride[1])))
    step = Operator(CUSTOM, (x, weight, bias), (y,), {}, 1, TRANSPOSE_CONV_BIAS, own)
    return Graph(tuple(net.tensors), (step,), tuple(net.inputs), (y,), "net")


def boxes_and_scores(rng: np.random.Generator, graph: Graph, *, ties: bool) -> list[npt.NDArray[Any]]:
    """Numbers for the inputs; with ``ties`` many scores are equal."""
    fed: list[npt.NDArray[Any]] = []
    for place, spread in zip(graph.inputs, (3.0, 1.0), strict=True):
        tensor = graph.tensors[place]
        if tensor.dtype == "uint8":
            fed.append(rng.integers(0, 256, tensor.shape).astype(np.uint8))
        elif spread > 1:
            fed.append(rng.normal(0, spread, tensor.shape).astype(np.float32))
        else:
            scores = rng.random(tensor.shape)
            fed.append((np.round(scores * 8) / 8 if ties else scores).astype(np.float32))
    return fed


CASES_OF: Final[Mapping[str, Callable[[np.random.Generator, str], Graph]]] = {
    DETECTIONS: detections,
    TRANSPOSE_CONV_BIAS: transpose_conv_bias,
}
"""Custom operator → a random model of it."""
