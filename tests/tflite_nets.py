"""A small classifier as a TFLite graph, float and quantized, and as ONNX: ten classes of 8×8 images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from calib8.tflite.graph import Graph, Operator, Quantization, Tensor
from calib8.tflite.write import write_tflite

CLASSES = 10
CONV_OPTIONS = {
    "padding": "VALID",
    "stride_h": 1,
    "stride_w": 1,
    "dilation_h_factor": 1,
    "dilation_w_factor": 1,
    "fused_activation_function": "NONE",
}
INPUT_SCALE, WEIGHT_SCALE, OUTPUT_SCALE = 1 / 128, 1 / 512, 1 / 64


def weights() -> np.ndarray:
    """float32 [10, 8, 8, 3], whole multiples of the scale of the weights."""
    codes = np.random.default_rng(0).integers(-60, 60, (CLASSES, 8, 8, 3))
    return (codes * WEIGHT_SCALE).astype(np.float32)


def float_classifier() -> Graph:
    """Float throughout."""
    return _classifier(
        Tensor("image", (1, 8, 8, 3), "float32"),
        Tensor("w", (CLASSES, 8, 8, 3), "float32", weights()),
        Tensor("b", (CLASSES,), "float32", np.zeros(CLASSES, np.float32)),
        Tensor("conv", (1, 1, 1, CLASSES), "float32"),
        version=1,
    )


def quantized_classifier(dtype: str = "int8", metadata: Mapping[str, bytes] | None = None) -> Graph:
    """Codes throughout; uint8 in the legacy form, weights with a zero point."""
    zero = 0 if dtype == "int8" else 128
    codes = np.rint(weights() / WEIGHT_SCALE) + zero
    net = _classifier(
        Tensor("image", (1, 8, 8, 3), dtype, None, coded(INPUT_SCALE, zero)),
        Tensor("w", (CLASSES, 8, 8, 3), dtype, codes.astype(dtype), coded(WEIGHT_SCALE, zero)),
        Tensor("b", (CLASSES,), "int32", np.zeros(CLASSES, np.int32), coded(INPUT_SCALE * WEIGHT_SCALE, 0)),
        Tensor("conv", (1, 1, 1, CLASSES), dtype, None, coded(OUTPUT_SCALE, zero)),
        version=3 if dtype == "int8" else 1,
    )
    return replace(net, metadata=metadata or {})


def hybrid_classifier() -> Graph:
    """Float activations, weights in codes, as converters make it with 'dynamic range'."""
    net = float_classifier()
    codes = np.rint(weights() / WEIGHT_SCALE).astype(np.int8)
    weight = Tensor("w", codes.shape, "int8", codes, coded(WEIGHT_SCALE, 0))
    return replace(net, tensors=(net.tensors[0], weight, *net.tensors[2:]))


def depthwise_without_bias() -> Graph:
    """An image through a depthwise convolution that has no bias, on which LiteRT's fast kernels crash."""
    image = Tensor("image", (1, 8, 8, 3), "int8", None, coded(INPUT_SCALE, 0))
    codes = np.random.default_rng(1).integers(-127, 128, (1, 3, 3, 3), np.int8)
    weight = Tensor("w", codes.shape, "int8", codes, coded(WEIGHT_SCALE, 0))
    output = replace(image, name="y", quantization=coded(OUTPUT_SCALE, 0))
    options = {**CONV_OPTIONS, "padding": "SAME", "depth_multiplier": 1}
    return Graph(
        (image, weight, output), (Operator("DEPTHWISE_CONV_2D", (0, 1), (2,), options, 3),), (0,), (2,)
    )


def softmax_of_many() -> Graph:
    """SOFTMAX of 600 codes; where many are alike, LiteRT's reference kernel aborts."""
    codes = Tensor("x", (1, 600), "int8", None, coded(0.1, 0))
    output = replace(codes, name="y", quantization=coded(1 / 256, -128))
    return Graph((codes, output), (Operator("SOFTMAX", (0,), (1,), {"beta": 1.0}, 2),), (0,), (1,))


def with_batch_free(net: Graph) -> Graph:
    """The same with a free batch."""
    tensors = [
        tensor if tensor.data is not None else replace(tensor, signature=(-1, *tensor.shape[1:]))
        for tensor in net.tensors
    ]
    return replace(net, tensors=tuple(tensors))


def onnx_classifier() -> onnx.ModelProto:
    """The float network as an exporter of PyTorch would write it: another name, channels first."""
    weight = numpy_helper.from_array(weights().transpose(0, 3, 1, 2).copy(), "w")
    shape = numpy_helper.from_array(np.array([-1, CLASSES], np.int64), "shape")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Reshape", ["c", "shape"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", CLASSES])],
        [weight, shape],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def coded(scale: float, zero_point: int) -> Quantization:
    return Quantization(np.array([scale], np.float32), np.array([zero_point], np.int64))


def _classifier(image: Tensor, weight: Tensor, bias: Tensor, conv: Tensor, version: int) -> Graph:
    scores = replace(conv, name="scores", shape=(1, CLASSES))
    shape = Tensor("shape", (2,), "int32", np.array([-1, CLASSES], np.int32))
    operators = (
        Operator("CONV_2D", (0, 1, 2), (3,), CONV_OPTIONS, version),
        Operator("RESHAPE", (3, 4), (5,), {"new_shape": (-1, CLASSES)}, 1),
    )
    return Graph((image, weight, bias, conv, shape, scores), operators, (0,), (5,), "main", "made for tests")


def written(graph: Graph, path: Path) -> Path:
    """The file of a graph."""
    write_tflite(graph, path)
    return path
