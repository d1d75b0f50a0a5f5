"""All random models of functions, moves and resizes, by operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import cases_functions as functions
import cases_indices as indices
import cases_places as places
import cases_resizes as resizes
import numpy as np

from calib8.tflite.graph import Graph

Generator = Callable[[np.random.Generator, str], Graph]

FUNCTIONS: Final[Mapping[str, Generator]] = {
    "SOFTMAX": functions.softmax,
    "LOGISTIC": functions.logistic,
    "TANH": functions.tanh,
    "RELU": functions.relu,
    "RELU6": functions.relu6,
    "RELU_N1_TO_1": functions.relu_n1_to_1,
    "RELU_0_TO_1": functions.relu_0_to_1,
    "LEAKY_RELU": functions.leaky_relu,
    "PRELU": functions.prelu,
    "HARD_SWISH": functions.hard_swish,
    "GELU": functions.gelu,
    "EXP": functions.exp,
    "LOG": functions.log,
    "RSQRT": functions.rsqrt,
}

MOVES: Final[Mapping[str, Generator]] = {
    "RESHAPE": places.reshape,
    "SQUEEZE": places.squeeze,
    "EXPAND_DIMS": places.expand_dims,
    "TRANSPOSE": places.transpose,
    "PACK": places.pack,
    "UNPACK": places.unpack,
    "SPACE_TO_DEPTH": places.space_to_depth,
    "DEPTH_TO_SPACE": places.depth_to_space,
    "SPACE_TO_BATCH_ND": places.space_to_batch_nd,
    "BATCH_TO_SPACE_ND": places.batch_to_space_nd,
    "TILE": places.tile,
    "BROADCAST_TO": places.broadcast_to,
    "PAD": places.pad,
    "PADV2": places.padv2,
    "MIRROR_PAD": places.mirror_pad,
    "SLICE": indices.take_slice,
    "STRIDED_SLICE": indices.strided_slice,
    "SPLIT": indices.split,
    "SPLIT_V": indices.split_v,
    "GATHER": indices.gather,
    "GATHER_ND": indices.gather_nd,
    "REVERSE_V2": indices.reverse_v2,
    "ARG_MAX": indices.arg_max,
    "ARG_MIN": indices.arg_min,
    "CAST": indices.cast,
}

RESIZES: Final[Mapping[str, Generator]] = {
    "RESIZE_BILINEAR": resizes.resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": resizes.resize_nearest_neighbor,
}

CASES_OF: Final[Mapping[str, Generator]] = FUNCTIONS | MOVES | RESIZES
"""Operator → a random model of it."""

INT8_ONLY: Final = ("EXP", "LOG", "RSQRT")
"""Operators for which LiteRT has no uint8 kernel."""
