"""What TensorFlow Lite's 8-bit quantization specification asks of a .tflite file, operator by operator.

    same scale in and out    AVERAGE_POOL_2D, CONCATENATION, MAX_POOL_2D, PAD, RESHAPE, RESIZE_…, TRANSPOSE, …
    fixed output             LOGISTIC, SOFTMAX: 1/256, lowest code      TANH: 1/128, middle code
    weights                  int8, zero point 0, codes −127 … 127; several scales along the output channels
    bias                     int32, zero point 0, scale = input scale · weight scale

Rules yield ``(operator, problem, cure)`` like those of ONNX models; an operator goes by its first output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import numpy as np

from calib8.analysis.rules import Finding
from calib8.tflite.graph import Graph, Operator, Quantization, Tensor

FileRule: TypeAlias = Callable[[Graph], Iterable[Finding]]

EIGHT_BITS: Final = ("int8", "uint8")

LAYERS: Final = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0}
"""Layer → axis of the output channels in its weights, which are input 1."""

SAME_SCALE: Final = frozenset(
    {
        "AVERAGE_POOL_2D", "BATCH_TO_SPACE_ND", "DEPTH_TO_SPACE", "EXPAND_DIMS", "GATHER", "MAX_POOL_2D",
        "MIRROR_PAD", "PAD", "REDUCE_MAX", "REDUCE_MIN", "RESHAPE", "RESIZE_BILINEAR",
        "RESIZE_NEAREST_NEIGHBOR", "SLICE", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V",
        "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE", "UNPACK",
    }
)  # fmt: skip
"""Operators that copy, compare or average the codes of their first input that holds some."""

SAME_SCALES: Final = frozenset({"CONCATENATION", "MAXIMUM", "MINIMUM", "PACK"})
"""Operators that do so with all inputs; uint8 CONCATENATION rescales."""

FIXED: Final = {"LOGISTIC": (1 / 256, 0), "SOFTMAX": (1 / 256, 0), "TANH": (1 / 128, 128)}
"""Operator → scale of its output, and zero point above the lowest code."""

COMPUTES: Final = (
    *LAYERS, *FIXED, "ADD", "HARD_SWISH", "LEAKY_RELU", "MEAN", "MUL", "PRELU", "RELU", "RELU6", "SUB", "SUM"
)  # fmt: skip
"""Operators whose results depend on scales."""

TOLERANCE: Final = 1e-3
"""Relative; converters form products of scales in float32 or float64."""


def codes_have_a_scale(graph: Graph) -> Iterator[Finding]:
    """What is computed from 8-bit tensors needs to know what their codes mean."""
    for operator in _of(graph, COMPUTES):
        for tensor in _given(graph, (*operator.inputs, *operator.outputs)):
            if tensor.dtype in EIGHT_BITS and tensor.quantization is None:
                yield (
                    _name(graph, operator),
                    f"'{tensor.name}' holds {tensor.dtype} without a scale",
                    "Export the model with the scales of all tensors",
                )


def same_scale_in_and_out(graph: Graph) -> Iterator[Finding]:
    """Codes that are copied, compared or averaged mean the same before and after."""
    for operator in _of(graph, (*SAME_SCALE, *SAME_SCALES)):
        output = graph.tensors[operator.outputs[0]]
        if output.dtype not in EIGHT_BITS or (operator.op == "CONCATENATION" and output.dtype == "uint8"):
            continue
        inputs = [tensor for tensor in _given(graph, operator.inputs) if tensor.dtype == output.dtype]
        for tensor in inputs if operator.op in SAME_SCALES else inputs[:1]:
            if not _same(tensor.quantization, output.quantization):
                problem = f"'{tensor.name}' has {_described(tensor)}, its output {_described(output)}"
                yield _name(graph, operator), problem, "Give both one scale, or put a QUANTIZE between them"


def output_has_its_fixed_scale(graph: Graph) -> Iterator[Finding]:
    """LOGISTIC and SOFTMAX give 1/256 and the lowest code, TANH 1/128 and the middle one."""
    for operator in _of(graph, FIXED):
        output = graph.tensors[operator.outputs[0]]
        if output.dtype not in EIGHT_BITS or output.quantization is None:
            continue
        scale, above = FIXED[operator.op]
        point = int(np.iinfo(output.dtype).min) + above
        given = output.quantization
        if abs(given.scales[0] / scale - 1) > TOLERANCE or given.zero_points[0] != point:
            cure = f"Give it scale 1/{round(1 / scale)} and zero point {point}"
            yield _name(graph, operator), f"its output has {_described(output)}", cure


def int8_weights_are_symmetric(graph: Graph) -> Iterator[Finding]:
    """int8 weights have zero point 0 and codes −127 … 127."""
    for operator, weight in _weights(graph):
        if weight.dtype != "int8" or weight.quantization is None or weight.data is None:
            continue
        points = weight.quantization.zero_points
        if points.any():
            problem = f"its weights '{weight.name}' have the zero point {points[points != 0][0]}"
            yield _name(graph, operator), problem, "Quantize weights symmetrically"
        if weight.data.size and weight.data.min() == -128:
            problem = f"its weights '{weight.name}' hold the code -128"
            yield _name(graph, operator), problem, "Clip their codes to -127 … 127"


def weight_scales_follow_the_outputs(graph: Graph) -> Iterator[Finding]:
    """Several scales of a weight run along its output channels."""
    for operator, weight in _weights(graph):
        quantization = weight.quantization
        if quantization is None or quantization.scales.size == 1:
            continue
        wanted = LAYERS[operator.op]
        if quantization.axis != wanted:
            problem = f"the scales of its weights '{weight.name}' run along axis {quantization.axis}"
            yield _name(graph, operator), problem, f"Let them run along axis {wanted}"


def bias_has_the_scale_of_the_sums(graph: Graph) -> Iterator[Finding]:
    """A bias is added to the int32 sums as it is."""
    for operator, weight in _weights(graph):
        first, behind = (2, 3) if operator.op == "TRANSPOSE_CONV" else (0, 2)
        if len(operator.inputs) <= behind or operator.inputs[behind] < 0:
            continue
        source, bias = graph.tensors[operator.inputs[first]], graph.tensors[operator.inputs[behind]]
        if source.quantization is None or weight.quantization is None or bias.quantization is None:
            continue
        sums = float(source.quantization.scales[0]) * weight.quantization.scales.astype(np.float64)
        given = bias.quantization.scales.astype(np.float64)
        if given.size not in (1, sums.size) or np.any(np.abs(given / sums - 1) > TOLERANCE):
            worst = int(np.argmax(np.abs(given / sums - 1))) if given.size in (1, sums.size) else 0
            wanted = sums[min(worst, sums.size - 1)]
            problem = f"its bias '{bias.name}' has the scale {given[min(worst, given.size - 1)]:.6g}"
            yield _name(graph, operator), problem, f"Give it that of the sums, {wanted:.6g}"
        if bias.quantization.zero_points.any():
            yield _name(graph, operator), f"its bias '{bias.name}' has a zero point", "Give it 0"


RULES: Final[tuple[FileRule, ...]] = (
    codes_have_a_scale,
    same_scale_in_and_out,
    output_has_its_fixed_scale,
    int8_weights_are_symmetric,
    weight_scales_follow_the_outputs,
    bias_has_the_scale_of_the_sums,
)
"""In the order in which violations are reported."""


def _of(graph: Graph, ops: Iterable[str]) -> Iterator[Operator]:
    wanted = frozenset(ops)
    return (operator for operator in graph.operators if operator.op in wanted and operator.outputs)


def _weights(graph: Graph) -> Iterator[tuple[Operator, Tensor]]:
    for operator in _of(graph, LAYERS):
        if len(operator.inputs) > 1 and operator.inputs[1] >= 0:
            yield operator, graph.tensors[operator.inputs[1]]


def _given(graph: Graph, places: Iterable[int]) -> list[Tensor]:
    return [graph.tensors[place] for place in places if place >= 0]


def _name(graph: Graph, operator: Operator) -> str:
    return f"{graph.tensors[operator.outputs[0]].name} ({operator.op})"


def _same(one: Quantization | None, other: Quantization | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one.scales, other.scales) and np.array_equal(one.zero_points, other.zero_points)


def _described(tensor: Tensor) -> str:
    found = tensor.quantization
    if found is None:
        return "no scale"
    return f"scale {found.scales[0]:.6g} and zero point {found.zero_points[0]}"
