"""Which function lowers which TFLite operator: a new one is a function of its family and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calib8.program.lower_tflite import elementwise, joins, layers, moves, pools
from calib8.program.lower_tflite.builder import Builder
from calib8.tflite.graph import Operator

LOWER: Final[Mapping[str, Callable[[Builder, Operator], None]]] = {
    "ADD": elementwise.add,
    "AVERAGE_POOL_2D": pools.average_pool_2d,
    "CONCATENATION": joins.concatenation,
    "CONV_2D": layers.conv_2d,
    "DEPTHWISE_CONV_2D": layers.depthwise_conv_2d,
    "DEQUANTIZE": joins.dequantize,
    "FULLY_CONNECTED": layers.fully_connected,
    "MAXIMUM": elementwise.maximum,
    "MAX_POOL_2D": pools.max_pool_2d,
    "MEAN": pools.mean,
    "MINIMUM": elementwise.minimum,
    "MUL": elementwise.mul,
    "QUANTIZE": joins.quantize,
    "REDUCE_MAX": pools.reduce_max,
    "REDUCE_MIN": pools.reduce_min,
    "RESHAPE": moves.reshape,
    "SUB": elementwise.sub,
    "SUM": pools.sum_over,
    "TRANSPOSE_CONV": layers.transpose_conv,
}
"""Operator → what adds its instructions, or raises ``NoFormError``."""
