"""Which function lowers which TFLite operator: a new one is a function of its family and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calib8.program.lower_tflite import (
    casts,
    elementwise,
    functions,
    indices,
    joins,
    layers,
    moves,
    pads,
    pools,
    resizes,
)
from calib8.program.lower_tflite.builder import Builder
from calib8.tflite.graph import Operator

LOWER: Final[Mapping[str, Callable[[Builder, Operator], None]]] = {
    "ABS": elementwise.absolute,
    "ADD": elementwise.add,
    "ARG_MAX": indices.arg_max,
    "AVERAGE_POOL_2D": pools.average_pool_2d,
    "BATCH_TO_SPACE_ND": moves.batch_to_space,
    "BROADCAST_TO": moves.broadcast_to,
    "CAST": casts.cast,
    "CONCATENATION": joins.concatenation,
    "CONV_2D": layers.conv_2d,
    "DEPTHWISE_CONV_2D": layers.depthwise_conv_2d,
    "DEPTH_TO_SPACE": moves.depth_to_space,
    "DEQUANTIZE": joins.dequantize,
    "EXPAND_DIMS": moves.reshape,
    "FULLY_CONNECTED": layers.fully_connected,
    "GATHER": indices.gather,
    "HARD_SWISH": functions.function,
    "LEAKY_RELU": functions.leaky_relu,
    "LOGISTIC": functions.function,
    "MAXIMUM": elementwise.maximum,
    "MAX_POOL_2D": pools.max_pool_2d,
    "MEAN": pools.mean,
    "MINIMUM": elementwise.minimum,
    "MIRROR_PAD": pads.mirror_pad,
    "MUL": elementwise.mul,
    "PACK": moves.pack,
    "PAD": pads.pad,
    "PADV2": pads.pad_v2,
    "PRELU": functions.prelu,
    "QUANTIZE": joins.quantize,
    "REDUCE_MAX": pools.reduce_max,
    "REDUCE_MIN": pools.reduce_min,
    "RELU": functions.function,
    "RELU6": functions.function,
    "RELU_0_TO_1": functions.function,
    "RELU_N1_TO_1": functions.function,
    "RESHAPE": moves.reshape,
    "RESIZE_BILINEAR": resizes.resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": resizes.resize_nearest_neighbor,
    "SLICE": indices.take_slice,
    "SOFTMAX": functions.softmax,
    "SPACE_TO_BATCH_ND": moves.space_to_batch,
    "SPACE_TO_DEPTH": moves.space_to_depth,
    "SPLIT": indices.split,
    "SPLIT_V": indices.split_v,
    "SQUEEZE": moves.reshape,
    "STRIDED_SLICE": indices.strided_slice,
    "SUB": elementwise.sub,
    "SUM": pools.sum_over,
    "TANH": functions.function,
    "TILE": moves.tile,
    "TRANSPOSE": moves.transpose,
    "TRANSPOSE_CONV": layers.transpose_conv,
    "UNPACK": moves.unpack,
}
"""Operator → what adds its instructions, or raises ``NoFormError``."""
