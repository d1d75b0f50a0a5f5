"""Versions of operators, and the first TensorFlow Lite that has them.

A runtime refuses an operator of a later version than it knows; the version says which types and options a
model needs. Sources: tensorflow/compiler/mlir/lite/tools/versioning, op_version and runtime_version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from calib8.tflite.graph import Operator

INT8: Final[Mapping[str, tuple[int, str]]] = {
    "ADD": (2, "1.14.0"),
    "ARG_MAX": (2, "1.14.0"),
    "ARG_MIN": (2, "1.14.0"),
    "AVERAGE_POOL_2D": (2, "1.14.0"),
    "BATCH_MATMUL": (2, "2.3.0"),
    "CAST": (1, "1.5.0"),
    "CONCATENATION": (2, "1.14.0"),
    "CONV_2D": (3, "1.14.0"),
    "DEPTHWISE_CONV_2D": (3, "1.14.0"),
    "DEQUANTIZE": (2, "1.14.0"),
    "FULLY_CONNECTED": (4, "1.14.0"),
    "GATHER": (2, "1.14.0"),
    "HARD_SWISH": (1, "1.15.0"),
    "LEAKY_RELU": (2, "2.3.0"),
    "LOGISTIC": (2, "1.14.0"),
    "MAXIMUM": (2, "1.14.0"),
    "MAX_POOL_2D": (2, "1.14.0"),
    "MEAN": (2, "1.14.0"),
    "MINIMUM": (2, "1.14.0"),
    "MUL": (2, "1.14.0"),
    "PAD": (2, "1.14.0"),
    "PADV2": (2, "1.14.0"),
    "QUANTIZE": (1, "1.14.0"),
    "REDUCE_MAX": (2, "1.14.0"),
    "REDUCE_MIN": (2, "1.14.0"),
    "RELU": (2, "2.1.0"),
    "RELU6": (2, "2.1.0"),
    "RESHAPE": (1, "1.5.0"),
    "RSQRT": (2, "2.5.0"),
    "SQUARED_DIFFERENCE": (2, "2.5.0"),
    "RESIZE_BILINEAR": (3, "2.2.0"),
    "RESIZE_NEAREST_NEIGHBOR": (3, "2.3.0"),
    "SLICE": (2, "1.14.0"),
    "SOFTMAX": (2, "1.14.0"),
    "STRIDED_SLICE": (2, "1.14.0"),
    "SUB": (2, "1.14.0"),
    "TANH": (2, "1.14.0"),
    "TRANSPOSE": (2, "1.14.0"),
    "TRANSPOSE_CONV": (2, "2.2.0"),
}
"""Operator on int8 → its version, and the first release that has it."""

INT16: Final[Mapping[str, tuple[int, str]]] = {
    "ADD": (3, "2.4.0"),
    "CAST": (1, "1.5.0"),
    "CONCATENATION": (3, "2.3.0"),
    "CONV_2D": (4, "2.3.0"),
    "DEPTHWISE_CONV_2D": (5, "2.3.0"),
    "DEQUANTIZE": (3, "1.15.0"),
    "FULLY_CONNECTED": (7, "2.3.0"),
    "GATHER": (4, "2.4.0"),
    "LEAKY_RELU": (2, "2.3.0"),
    "MAXIMUM": (4, "2.3.0"),
    "MAX_POOL_2D": (3, "2.3.0"),
    "MINIMUM": (4, "2.3.0"),
    "MUL": (4, "2.3.0"),
    "PAD": (3, "2.4.0"),
    "PADV2": (3, "2.4.0"),
    "QUANTIZE": (2, "1.15.0"),
    "RELU": (3, "2.4.0"),
    "RELU6": (3, "2.5.0"),
    "RESHAPE": (1, "1.5.0"),
    "RESIZE_NEAREST_NEIGHBOR": (4, "2.4.0"),
    "SLICE": (4, "2.4.0"),
    "STRIDED_SLICE": (2, "1.14.0"),
    "SUB": (5, "2.4.0"),
    "TRANSPOSE": (5, "2.4.0"),
    "TRANSPOSE_CONV": (3, "2.3.0"),
}
"""Operator on int16, with int8 weights → its version, and the first release that has it."""

LATER: Final[Mapping[tuple[str, int], str]] = {
    **{(op, version): release for op, (version, release) in INT16.items() if version > INT8[op][0]},
    ("BATCH_MATMUL", 3): "2.4.0",
    ("CONV_2D", 6): "2.9.0",
    ("DEPTHWISE_CONV_2D", 2): "1.12.0",
    ("DEQUANTIZE", 5): "2.7.0",
    ("FULLY_CONNECTED", 5): "2.0.0",
    ("FULLY_CONNECTED", 12): "2.17.0",
    ("QUANTIZE", 2): "1.15.0",
    ("TRANSPOSE_CONV", 3): "2.3.0",
    ("TRANSPOSE_CONV", 4): "2.12.0",
}
"""Versions beyond those of ``INT8``."""

FIRST: Final[Mapping[str, str]] = {
    "ABS": "1.13.0", "BATCH_MATMUL": "2.3.0", "DIV": "1.5.0", "ELU": "1.14.0", "EXP": "1.7.0",
    "GATHER": "1.6.0", "GELU": "2.9.0", "LEAKY_RELU": "1.13.1", "LOG": "1.14.0", "LOGISTIC": "1.14.0",
    "MAXIMUM": "1.14.0", "MEAN": "1.6.0", "MINIMUM": "1.14.0", "NEG": "1.9.0", "PADV2": "1.9.0",
    "POW": "1.10.0", "REDUCE_MAX": "1.11.0", "REDUCE_MIN": "1.11.0", "RSQRT": "1.10.0", "SLICE": "1.14.0",
    "SPLIT_V": "1.13.1", "SQRT": "1.10.0", "STRIDED_SLICE": "1.6.0", "SUM": "1.10.0", "TANH": "1.14.0",
    "TRANSPOSE": "1.6.0", "TRANSPOSE_CONV": "1.9.0",
}  # fmt: skip
"""Operator → the first release that has its first version, which takes float32."""

OLDEST: Final = "1.5.0"


def min_runtime(operators: Iterable[Operator]) -> str:
    """The first release that runs all of them."""
    found = [OLDEST]
    for operator in operators:
        first = FIRST.get(operator.op, OLDEST)
        version, release = INT8.get(operator.op, (1, first))
        later = LATER.get((operator.op, operator.version))
        found.append(later or (release if operator.version >= version else first))
    return max(found, key=lambda release: tuple(map(int, release.split("."))))
