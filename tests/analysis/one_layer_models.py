"""QDQ models of one layer whose codes are given, and the sums of its pairs by plain loops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]
SCALE = 0.5
POINT = 3


def coded(
    op_type: str,
    weight: Array,
    shape: tuple[int, ...],
    *,
    bias: Array | None = None,
    weight_scale: Array | None = None,
    signed: bool = False,
    point: int = POINT,
    **attributes: Any,
) -> onnx.ModelProto:
    """x → Q → DQ → layer(codes of the weight, codes or values of the bias) → y, called ``layer``."""
    kind = np.int8 if signed else np.uint8
    scales = np.float32(0.25) if weight_scale is None else weight_scale
    constants = {
        "s": np.float32(SCALE),
        "z": np.asarray(point, kind),
        "w": weight,
        "ws": np.asarray(scales, np.float32),
        "wz": np.zeros(np.shape(scales), weight.dtype),
    }
    axis = 1 if op_type == "ConvTranspose" or (op_type == "Gemm" and not attributes.get("transB")) else 0
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quantize"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="dequantize"),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], name="weight", axis=axis),
    ]
    inputs = ["d", "wd"]
    if bias is not None and bias.dtype == np.int32:
        constants |= {"b": bias, "bs": np.float32(SCALE) * np.asarray(scales, np.float32)}
        nodes.append(helper.make_node("DequantizeLinear", ["b", "bs"], ["bd"], name="bias", axis=0))
        inputs.append("bd")
    elif bias is not None:
        constants["b"] = bias
        inputs.append("b")
    nodes.append(helper.make_node(op_type, inputs, ["y"], name="layer", **attributes))
    graph = helper.make_graph(
        nodes,
        "coded",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    proto = onnx.shape_inference.infer_shapes(proto)
    onnx.checker.check_model(proto)
    return proto


def real(codes: Array, point: int = POINT) -> npt.NDArray[np.float32]:
    """The input of which the model makes these codes."""
    return ((codes.astype(np.float64) - point) * SCALE).astype(np.float32)


def window_products(
    codes: Array, weight: Array, group: int, stride: int, dilation: int, pads: tuple[int, ...], fill: int
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Output channel and its (activation, weight) in the order of the kernel, one output after the other."""
    top, left, bottom, right = pads
    outputs, channels, height, width = weight.shape
    wide = np.pad(codes, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    rows = (wide.shape[2] - dilation * (height - 1) - 1) // stride + 1
    columns = (wide.shape[3] - dilation * (width - 1) - 1) // stride + 1
    for image, output, row, column in itertools.product(
        range(len(wide)), range(outputs), range(rows), range(columns)
    ):
        first = output // (outputs // group) * channels
        found = []
        for y, x, channel in itertools.product(range(height), range(width), range(channels)):
            at = (row * stride + y * dilation, column * stride + x * dilation)
            code = wide[image, first + channel, at[0], at[1]]
            found.append((int(code), int(weight[output, channel, y, x])))
        yield output, found


def pair_sums(products: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(w₀, w₁, a₀·w₀ + a₁·w₁) of every pair."""
    padded = [*products, (0, 0)] if len(products) % 2 else products
    return [
        (first[1], second[1], first[0] * first[1] + second[0] * second[1])
        for first, second in zip(padded[::2], padded[1::2], strict=True)
    ]


def can_saturate(first: int, second: int) -> bool:
    sums = [a * first + b * second for a, b in itertools.product((0, 255), repeat=2)]
    return max(sums) > 32767 or min(sums) < -32768
