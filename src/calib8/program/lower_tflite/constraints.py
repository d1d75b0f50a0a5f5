"""What TFLite asks of scales and zero points beyond the tensors themselves, operator by operator.

zero point 0 of int8 weights (not of FULLY_CONNECTED) and of all biases
|s_x·s_w − s_bias| / s_y ≤ 0.02 for one scale in uint8, and in FULLY_CONNECTED
a bias of CONV_2D; one scale and zero point of what MIRROR_PAD, PACK, UNPACK and their like read and write

What computes with codes needs scales at all; what only moves them has them everywhere or nowhere. Fixed
scales of outputs, and tensors that share a scale, are the business of the operators' own functions.
"""

from __future__ import annotations

from typing import Final

from calib8.tflite.graph import Graph, Operator, Tensor

BIAS_TOLERANCE: Final = 0.02
"""Difference of a bias's scale from the product of scales, in units of the output's scale."""

CODES: Final = ("int8", "uint8")

LAYERS: Final = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 0, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 2}
"""Layer → place of its input; weights are input 1, the bias is the input behind both."""

ONE_MEANING: Final = {
    "MIRROR_PAD": (0,),
    "SPACE_TO_BATCH_ND": (0,),
    "BATCH_TO_SPACE_ND": (0,),
    "EXPAND_DIMS": (0,),
    "UNPACK": (0,),
    "PADV2": (2,),
}
"""Operator → its inputs that LiteRT wants in scale and zero point of the outputs; of PACK it is all of them.

The other operators that only move codes (RESHAPE, TRANSPOSE, SLICE, PAD, GATHER …) copy them as they are.
"""

COMPUTES: Final = {
    *LAYERS, "ADD", "SUB", "MUL", "DIV", "MEAN", "SUM", "SOFTMAX", "LOG_SOFTMAX", "LOGISTIC", "TANH", "RELU",
    "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "LEAKY_RELU", "PRELU", "HARD_SWISH", "QUANTIZE", "DEQUANTIZE",
    "RSQRT", "SQUARED_DIFFERENCE", "BATCH_MATMUL",
}  # fmt: skip
"""Operators whose results depend on scales."""


def broken_constraint(graph: Graph, operator: Operator) -> str | None:
    """What TFLite asks of an operator and it does not keep, None if all is well.

    Args:
        graph: checked.
        operator: of it, with as many tensors as it takes.
    """
    tensors = [graph.tensors[place] for place in (*operator.inputs, *operator.outputs) if place >= 0]
    if operator.op in COMPUTES:
        for tensor in tensors:
            if tensor.dtype in CODES and tensor.quantization is None:
                return f"'{tensor.name}' holds {tensor.dtype} without a scale"
    elif (
        operator.op != "CAST"
        and len({tensor.quantization is None for tensor in tensors if tensor.dtype in CODES}) > 1
    ):
        bare = next(tensor for tensor in tensors if tensor.dtype in CODES and tensor.quantization is None)
        return f"'{bare.name}' has no scale, where other tensors of it have one"
    if operator.op in LAYERS:
        return _missing_bias(operator) or _layer(graph, operator)
    return _other_meaning(graph, operator) or _blocks(graph, operator)


def _other_meaning(graph: Graph, operator: Operator) -> str | None:
    """Codes of two scales or zero points where LiteRT asks for one."""
    count = len(operator.inputs)
    read = range(count) if operator.op == "PACK" else ONE_MEANING.get(operator.op, ())
    for place in (operator.inputs[at] for at in read):
        x = graph.tensors[place]
        for y in (graph.tensors[output] for output in operator.outputs):
            if x.dtype in CODES and y.dtype in CODES and _meaning(x) != _meaning(y):
                return f"'{x.name}' and '{y.name}' differ in scale or zero point, where TFLite asks for one"
    return None


def _meaning(tensor: Tensor) -> tuple[list[float], list[int]] | None:
    found = tensor.quantization
    return None if found is None else (found.scales.tolist(), found.zero_points.tolist())


def _blocks(graph: Graph, operator: Operator) -> str | None:
    """Every axis between batch and channels has a block size."""
    if operator.op not in ("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"):
        return None
    x, blocks = (graph.tensors[place] for place in operator.inputs[:2])
    if blocks.shape == (len(x.shape) - 2,):
        return None
    return f"it has block sizes of shape {list(blocks.shape)} for {list(x.shape)}, not {len(x.shape) - 2}"


def _missing_bias(operator: Operator) -> str | None:
    """A bias that LiteRT's convolutions ask for."""
    count, least = len(operator.inputs), 3 if operator.op == "CONV_2D" else 2
    if operator.op in ("CONV_2D", "DEPTHWISE_CONV_2D") and (count < least or operator.inputs[2:3] == (-1,)):
        return "it has no bias, which TFLite asks for: give it one of zeros"
    return None


def _layer(graph: Graph, operator: Operator) -> str | None:
    place = LAYERS[operator.op]
    x, weight = graph.tensors[operator.inputs[place]], graph.tensors[operator.inputs[1]]
    if x.dtype not in CODES or weight.quantization is None:
        return None
    exempt = operator.op == "FULLY_CONNECTED"
    point = int(weight.quantization.zero_points[0])
    if weight.dtype == "int8" and point and not exempt:
        return f"its int8 weights '{weight.name}' have the zero point {point}, where TFLite asks for 0"
    behind = max(place, 1) + 1
    if behind >= len(operator.inputs) or operator.inputs[behind] < 0:
        return None
    bias, y = graph.tensors[operator.inputs[behind]], graph.tensors[operator.outputs[0]]
    if bias.quantization is not None and bias.quantization.zero_points.any():
        return f"its bias '{bias.name}' has a zero point, where TFLite asks for 0"
    one_scale = weight.quantization.scales.size == 1
    return _bias_scale(x, weight, bias, y) if one_scale and (exempt or x.dtype == "uint8") else None


def _bias_scale(x: Tensor, weight: Tensor, bias: Tensor, y: Tensor) -> str | None:
    if x.quantization is None or weight.quantization is None or y.quantization is None:
        return None
    given = 0.0 if bias.quantization is None else float(bias.quantization.scales[0])
    product = float(x.quantization.scales[0] * weight.quantization.scales[0])
    if abs(product - given) / float(y.quantization.scales[0]) <= BIAS_TOLERANCE:
        return None
    return (
        f"its bias '{bias.name}' has the scale {given:.6g}, where TFLite asks for {product:.6g}, that of sums"
    )
