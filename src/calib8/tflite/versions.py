"""Versions of operators that LiteRT 2.3 knows: an operator of a later one may mean something else.

A version says which types and options a model needs. Counted are those that any of LiteRT's sets of kernels
takes; the reference kernels lack a few of the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calib8.tflite.graph import Operator

FIRST: Final[Mapping[str, int]] = {"BROADCAST_TO": 2}
"""Operator → its first version, where that is not 1."""

LAST: Final[Mapping[str, int]] = {
    "ABS": 5, "ADD": 6, "ARG_MAX": 3, "ARG_MIN": 3, "AVERAGE_POOL_2D": 3, "BATCH_MATMUL": 4,
    "BATCH_TO_SPACE_ND": 4, "BIDIRECTIONAL_SEQUENCE_LSTM": 3,
    "BROADCAST_TO": 4, "CAST": 9, "CONCATENATION": 7, "CONV_2D": 8, "COS": 2,
    "DEPTHWISE_CONV_2D": 7, "DEPTH_TO_SPACE": 2, "DEQUANTIZE": 9, "DIV": 2, "EQUAL": 5, "EXP": 2,
    "FLOOR_DIV": 3, "FLOOR_MOD": 2, "FULLY_CONNECTED": 14, "GATHER": 8, "GATHER_ND": 6, "GELU": 3,
    "GREATER": 2, "GREATER_EQUAL": 3, "L2_NORMALIZATION": 2,
    "LEAKY_RELU": 2, "LESS": 3, "LESS_EQUAL": 2, "LOG": 2, "LOGISTIC": 3, "LOG_SOFTMAX": 2, "MAXIMUM": 4,
    "MAX_POOL_2D": 3, "MEAN": 3, "MINIMUM": 4, "MIRROR_PAD": 3, "MUL": 8, "NOT_EQUAL": 4, "PACK": 5,
    "PAD": 6, "PADV2": 6, "QUANTIZE": 6, "REDUCE_MAX": 3, "REDUCE_MIN": 3, "REDUCE_PROD": 2, "RELU": 3,
    "RELU6": 3, "RESIZE_BILINEAR": 4, "RESIZE_NEAREST_NEIGHBOR": 4, "REVERSE_V2": 4, "RSQRT": 3, "SELECT": 4,
    "SELECT_V2": 2, "SIGN": 2,
    "SIN": 2, "SLICE": 8, "SOFTMAX": 4, "SPACE_TO_BATCH_ND": 4, "SPACE_TO_DEPTH": 2, "SPLIT": 5,
    "SPLIT_V": 3, "SQRT": 2, "SQUARED_DIFFERENCE": 2, "SQUEEZE": 2, "STRIDED_SLICE": 8, "SUB": 5, "SUM": 2,
    "SVDF": 4, "TANH": 3, "TILE": 3, "TOPK_V2": 3, "TRANSPOSE": 9, "TRANSPOSE_CONV": 5,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": 4, "UNPACK": 6,
    **dict.fromkeys(
        (
            "ADD_N", "CEIL", "CUMSUM", "ELU", "EXPAND_DIMS", "FLOOR", "HARD_SWISH", "L2_POOL_2D",
            "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "NEG", "POW", "PRELU", "RELU_0_TO_1", "RELU_N1_TO_1",
            "RESHAPE", "ROUND", "SHAPE", "SQUARE",
        ),
        1,
    ),
}  # fmt: skip
"""Operator → its last version."""


def unknown_version(operator: Operator) -> str | None:
    """What is wrong with the version of an operator; None if it is known, or the operator is not."""
    if operator.op not in LAST:
        return None
    first, last = FIRST.get(operator.op, 1), LAST[operator.op]
    if first <= operator.version <= last:
        return None
    known = f"{first} to {last}" if first < last else f"{first}"
    return f"it is of version {operator.version}; known is {known}"
