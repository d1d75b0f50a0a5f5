"""Generators of random models by operator: layers, arithmetic of two tensors, pools, reductions, borders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import cases_elementwise
import cases_joins
import cases_layers
import cases_pools
import numpy as np

from calib8.tflite.graph import Graph

CASES_OF: Final[Mapping[str, Callable[[np.random.Generator, str], Graph]]] = {
    "ABS": cases_elementwise.absolute,
    "ADD": cases_elementwise.add,
    "AVERAGE_POOL_2D": cases_pools.average_pool_2d,
    "BATCH_MATMUL": cases_layers.batch_matmul,
    "CONCATENATION": cases_joins.concatenation,
    "CONV_2D": cases_layers.conv_2d,
    "DEPTHWISE_CONV_2D": cases_layers.depthwise_conv_2d,
    "DEQUANTIZE": cases_joins.dequantize,
    "FULLY_CONNECTED": cases_layers.fully_connected,
    "MAXIMUM": cases_elementwise.maximum,
    "MAX_POOL_2D": cases_pools.max_pool_2d,
    "MEAN": cases_pools.mean,
    "MINIMUM": cases_elementwise.minimum,
    "MUL": cases_elementwise.mul,
    "QUANTIZE": cases_joins.quantize,
    "REDUCE_MAX": cases_pools.reduce_max,
    "REDUCE_MIN": cases_pools.reduce_min,
    "SQUARED_DIFFERENCE": cases_elementwise.squared_difference,
    "SUB": cases_elementwise.sub,
    "SUM": cases_pools.sum_over,
    "TRANSPOSE_CONV": cases_layers.transpose_conv,
}
"""Operator → a random model of it whose codes are int8 or uint8."""

TYPES_OF: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys(
    ("ABS", "BATCH_MATMUL", "SQUARED_DIFFERENCE"), ("int8",)
)
"""Operators that LiteRT does not have for both types of codes."""

CASES: Final = tuple((op, dtype) for op in CASES_OF for dtype in TYPES_OF.get(op, ("int8", "uint8")))
"""Every operator with every type of codes that it takes."""
