"""Which function lowers which TFLite operator: a new one is a function of its family and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calib8.program.lower_tflite import casts, elementwise, functions, indices, layers, moves, pads, resizes
from calib8.program.lower_tflite.builder import Builder
from calib8.tflite.graph import Operator

LOWER: Final[Mapping[str, Callable[[Builder, Operator], None]]] = {
    "ADD": elementwise.add,
    "CONV_2D": layers.conv_2d,
    # functions of one tensor
    "SOFTMAX": functions.softmax,
    "LOGISTIC": functions.function,
    "TANH": functions.function,
    "HARD_SWISH": functions.function,
    "EXP": functions.function,
    "LOG": functions.function,
    "GELU": functions.gelu,
    "RELU": functions.function,
    "RELU6": functions.function,
    "RELU_N1_TO_1": functions.function,
    "RELU_0_TO_1": functions.function,
    "LEAKY_RELU": functions.leaky_relu,
    "PRELU": functions.prelu,
    # moves
    "RESHAPE": moves.reshape,
    "SQUEEZE": moves.reshape,
    "EXPAND_DIMS": moves.reshape,
    "TRANSPOSE": moves.transpose,
    "PACK": moves.pack,
    "UNPACK": moves.unpack,
    "SPACE_TO_DEPTH": moves.space_to_depth,
    "DEPTH_TO_SPACE": moves.depth_to_space,
    "SPACE_TO_BATCH_ND": moves.space_to_batch,
    "BATCH_TO_SPACE_ND": moves.batch_to_space,
    "TILE": moves.tile,
    "BROADCAST_TO": moves.broadcast_to,
    "SLICE": indices.take_slice,
    "STRIDED_SLICE": indices.strided_slice,
    "SPLIT": indices.split,
    "SPLIT_V": indices.split_v,
    "GATHER": indices.gather,
    "ARG_MAX": indices.arg_max,
    "CAST": casts.cast,
    "PAD": pads.pad,
    "PADV2": pads.pad_v2,
    "MIRROR_PAD": pads.mirror_pad,
    "RESIZE_BILINEAR": resizes.resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": resizes.resize_nearest_neighbor,
}
"""Operator → what adds its instructions, or raises ``NoFormError``."""
