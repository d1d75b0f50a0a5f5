"""Which operators take 16-bit codes: those whose integer form computes what LiteRT's int16 kernels do."""

from __future__ import annotations

from typing import Final

from calib8.program.program import WIDE_TYPE
from calib8.tflite.graph import Graph, Operator

MOVES: Final = frozenset({
    "BROADCAST_TO", "CAST", "CONCATENATION", "EXPAND_DIMS", "GATHER", "GATHER_ND", "MIRROR_PAD", "PACK",
    "PAD", "PADV2", "RESHAPE", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "SLICE", "SPLIT", "SPLIT_V",
    "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE", "UNPACK",
})  # fmt: skip
"""What moves codes; CAST makes other numbers of them."""

OPERATORS: Final = MOVES | {
    "ADD", "CONV_2D", "DEPTHWISE_CONV_2D", "DEQUANTIZE", "FULLY_CONNECTED", "LEAKY_RELU", "LOGISTIC",
    "MAXIMUM", "MAX_POOL_2D", "MINIMUM", "MUL", "QUANTIZE", "RELU", "RELU6", "SUB", "SVDF",
    "TABLE", "TANH",
    "TRANSPOSE_CONV", "UNIDIRECTIONAL_SEQUENCE_LSTM",
}  # fmt: skip
"""Operators on 16-bit codes; MAXIMUM and MINIMUM with a constant alone, of the LSTM its c and its
weights, of SVDF its state and the weights over it."""


def wide_problem(graph: Graph, operator: Operator) -> str | None:
    """Why an operator has no integer form for its 16-bit codes; None: it has, or no such codes."""
    tensors = [graph.tensors[place] for place in (*operator.inputs, *operator.outputs) if place >= 0]
    wide = [tensor for tensor in tensors if tensor.dtype == WIDE_TYPE and tensor.quantization is not None]
    if not wide:
        return None
    if operator.op not in OPERATORS:
        return f"'{wide[0].name}' has 16-bit codes, for which the operator has no integer form"
    off = next((tensor for tensor in wide if tensor.quantization.zero_points.any()), None)  # type: ignore[union-attr]
    if off is not None and operator.op not in MOVES:
        assert off.quantization is not None
        point = int(off.quantization.zero_points[0])
        return f"its int16 '{off.name}' has the zero point {point}, where TFLite asks for 0"
    return None
