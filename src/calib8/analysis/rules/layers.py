"""Rules on Conv, ConvTranspose, Gemm and MatMul with constant weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.rules import Finding
from calib8.analysis.rules.codes import shape_problem
from calib8.model.graph import rank
from calib8.model.layer import Layer
from calib8.quantization.qdq import (
    Codes,
    codes_behind,
    codes_of,
    dequantizer,
    label,
    weight_is_coded,
    weighted_layers,
)

BIAS_SCALE_TOLERANCE: Final = 1e-6
"""Relative; a float32 product of two float32 scales is off by at most 1.2e-7."""


def layer_is_whole(model: ir.Model) -> Iterator[Finding]:
    """Data and weight of a layer both come from DequantizeLinear, or neither: one alone is float work."""
    for layer in weighted_layers(model):
        data, weight = codes_behind(layer.input) is not None, weight_is_coded(layer.node)
        if data and not weight:
            yield (
                layer.name,
                "its input is quantized, but its weight is float",
                "Quantize its weight, or neither",
            )
        if weight and not data:
            yield (
                layer.name,
                "its weight is quantized, but its input is float",
                "Quantize its input, or neither",
            )


def weight_axis_is_output(model: ir.Model) -> Iterator[Finding]:
    """Scales of a weight are per tensor or per output channel: one factor per int32 sum.

    Axis 0 for Conv and Gemm with transB, 1 for ConvTranspose and Gemm, the last for MatMul.
    """
    for layer, codes in coded_weights(model):
        axes = rank(codes.node.inputs[0])
        if codes.per_tensor or axes is None or shape_problem(codes):
            continue
        wanted = layer.output_axis(axes)
        if codes.axis % axes != wanted:
            yield (
                label(codes.node),
                f"codes weight of '{layer.name}' along axis {codes.axis}, its channels are axis {wanted}",
                f"Use axis={wanted}",
            )


def bias_has_product_scale(model: ir.Model) -> Iterator[Finding]:
    """A quantized bias is int32 with zero point 0 and scale s_x · s_w[c]: it adds to the sums as it is."""
    for layer in weighted_layers(model):
        node = dequantizer(layer.bias)
        if node is None:
            continue
        problem = _bias_problem(layer, codes_of(node))
        if problem:
            yield (
                label(node),
                f"bias of '{layer.name}': {problem}",
                "Code it as int32, zero point 0, scale s_x · s_w",
            )


def _bias_problem(layer: Layer, bias: Codes) -> str:
    if bias.dtype is not None and bias.dtype != ir.DataType.INT32:
        return f"its codes are {bias.dtype}"
    if bias.zero_point is not None and np.any(bias.zero_point):
        return f"its zero point is {bias.zero_point.reshape(-1)[0]}"
    data, weight = codes_behind(layer.input), codes_behind(layer.weight)
    if data is None or weight is None or data.scale is None or weight.scale is None or bias.scale is None:
        return ""
    groups = 1 if weight.per_tensor else layer.sharing
    product = data.scale.reshape(-1) * np.tile(weight.scale.reshape(-1), groups)
    if bias.scale.size != 1 and product.size not in (1, bias.scale.size):
        return f"it has {bias.scale.size} scales for {product.size} channels"
    return _scale_problem(*np.broadcast_arrays(bias.scale.reshape(-1), product))


def _scale_problem(actual: npt.NDArray[np.float64], product: npt.NDArray[np.float64]) -> str:
    """The first channel whose scale is off by more than rounding."""
    wrong = np.abs(actual - product) > BIAS_SCALE_TOLERANCE * np.abs(product)
    if not np.any(wrong):
        return ""
    channel = int(np.argmax(wrong))
    return f"the scale of channel {channel} is {actual[channel]:.7g}, not s_x · s_w = {product[channel]:.7g}"


def bias_is_coded(model: ir.Model) -> Iterator[Finding]:
    """The bias of a quantized layer is stored as int32: the kernel adds it to integer sums."""
    for layer in weighted_layers(model):
        bias = layer.bias
        whole = weight_is_coded(layer.node) and codes_behind(layer.input) is not None
        if whole and bias is not None and dequantizer(bias) is None:
            yield layer.name, f"its bias '{bias.name}' is float", "Code it as int32 with scale s_x · s_w"


def bias_stays_float(model: ir.Model) -> Iterator[Finding]:
    """The bias has no DequantizeLinear: TensorRT and ncnn add it in float and refuse int32 codes."""
    for layer in weighted_layers(model):
        bias = layer.bias
        if bias is not None and dequantizer(bias) is not None:
            yield layer.name, f"its bias '{bias.name}' comes from DequantizeLinear", "Store the bias as float"


def weights_are_symmetric(model: ir.Model) -> Iterator[Finding]:
    """Weights have zero point 0, so that no product with the input's zero point remains."""
    for layer, codes in coded_weights(model):
        points = np.zeros(1) if codes.zero_point is None else codes.zero_point.reshape(-1)
        if np.any(points):
            wrong = points[np.argmax(points != 0)]
            yield (
                label(codes.node),
                f"the weight of '{layer.name}' has zero point {wrong}",
                "Use zero point 0",
            )


def coded_weights(model: ir.Model) -> Iterator[tuple[Layer, Codes]]:
    """Layers whose weight comes from a DequantizeLinear directly, and its codes."""
    for layer in weighted_layers(model):
        node = dequantizer(layer.weight)
        if node is not None:
            yield layer, codes_of(node)
