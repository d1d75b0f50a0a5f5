"""What is needed of the TFLite schema beyond the generated accessors: types, operators, fields of options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import tflite

from calib8.tflite.magic import IDENTIFIER as IDENTIFIER

VERSION: Final = 3
"""Of the schema."""


def members(enumeration: Any) -> dict[str, int]:
    """Names and numbers of an enumeration of the generated package."""
    return {name: code for name, code in vars(enumeration).items() if not name.startswith("_")}


def names(enumeration: Any) -> dict[int, str]:
    """Numbers and names of an enumeration of the generated package."""
    return {code: name for name, code in members(enumeration).items()}


DTYPES: Final[Mapping[int, str]] = {code: name.lower() for code, name in names(tflite.TensorType).items()}
"""Type of a tensor → its NumPy name, where NumPy has it."""

TYPE_CODES: Final[Mapping[str, int]] = {name: code for code, name in DTYPES.items()}

OPERATORS: Final[Mapping[int, str]] = names(tflite.BuiltinOperator)

OPERATOR_CODES: Final[Mapping[str, int]] = members(tflite.BuiltinOperator)

LARGEST_OLD_CODE: Final = 127
"""Operators up to it are named in the old byte-wide field as well; it stands for all that lie beyond."""


PLAIN: Final = frozenset({"value", "ints", "text"})
"""Kinds of fields that are no enumeration."""


@cache
def member_names(enumeration: str) -> frozenset[str]:
    """Names that an enumeration of the schema has."""
    return frozenset(members(getattr(tflite, enumeration)))


@dataclass(frozen=True)
class Options:
    """The table of options of an operator.

    Attributes:
        table: its name in the schema.
        fields: name in small letters → ``value`` (a number), ``ints`` (a list of numbers), ``text``, or the
            name of an enumeration.
    """

    table: str
    fields: Mapping[str, str] = field(default_factory=dict)


ACTIVATION: Final = {"fused_activation_function": "ActivationFunctionType"}
STRIDES: Final = {"padding": "Padding", "stride_w": "value", "stride_h": "value"}
DILATIONS: Final = {"dilation_w_factor": "value", "dilation_h_factor": "value"}
POOL: Final = Options(
    "Pool2DOptions", STRIDES | {"filter_width": "value", "filter_height": "value"} | ACTIVATION
)
REDUCER: Final = Options("ReducerOptions", {"keep_dims": "value"})
RESIZE: Final = {"align_corners": "value", "half_pixel_centers": "value"}

OPTIONS: Final[Mapping[str, Options]] = {
    "CONV_2D": Options("Conv2DOptions", STRIDES | ACTIVATION | DILATIONS),
    "DEPTHWISE_CONV_2D": Options(
        "DepthwiseConv2DOptions", STRIDES | {"depth_multiplier": "value"} | ACTIVATION | DILATIONS
    ),
    "TRANSPOSE_CONV": Options("TransposeConvOptions", STRIDES | ACTIVATION),
    "FULLY_CONNECTED": Options(
        "FullyConnectedOptions",
        ACTIVATION
        | {
            "weights_format": "FullyConnectedOptionsWeightsFormat",
            "keep_num_dims": "value",
            "asymmetric_quantize_inputs": "value",
        },
    ),
    "BATCH_MATMUL": Options("BatchMatMulOptions", {"adj_x": "value", "adj_y": "value"}),
    "ADD": Options("AddOptions", ACTIVATION | {"pot_scale_int16": "value"}),
    "SUB": Options("SubOptions", ACTIVATION | {"pot_scale_int16": "value"}),
    "MUL": Options("MulOptions", ACTIVATION),
    "DIV": Options("DivOptions", ACTIVATION),
    "CONCATENATION": Options("ConcatenationOptions", {"axis": "value"} | ACTIVATION),
    "AVERAGE_POOL_2D": POOL,
    "MAX_POOL_2D": POOL,
    "L2_POOL_2D": POOL,
    "MEAN": REDUCER,
    "SUM": REDUCER,
    "REDUCE_MAX": REDUCER,
    "REDUCE_MIN": REDUCER,
    "REDUCE_PROD": REDUCER,
    "SOFTMAX": Options("SoftmaxOptions", {"beta": "value"}),
    "LOG_SOFTMAX": Options("LogSoftmaxOptions"),
    "LEAKY_RELU": Options("LeakyReluOptions", {"alpha": "value"}),
    "GELU": Options("GeluOptions", {"approximate": "value"}),
    "HARD_SWISH": Options("HardSwishOptions"),
    "ABS": Options("AbsOptions"),
    "NEG": Options("NegOptions"),
    "EXP": Options("ExpOptions"),
    "SQUARE": Options("SquareOptions"),
    "POW": Options("PowOptions"),
    "L2_NORMALIZATION": Options("L2NormOptions", ACTIVATION),
    "PAD": Options("PadOptions"),
    "PADV2": Options("PadV2Options"),
    "MIRROR_PAD": Options("MirrorPadOptions", {"mode": "MirrorPadMode"}),
    "RESIZE_BILINEAR": Options("ResizeBilinearOptions", RESIZE),
    "RESIZE_NEAREST_NEIGHBOR": Options("ResizeNearestNeighborOptions", RESIZE),
    "RESHAPE": Options("ReshapeOptions", {"new_shape": "ints"}),
    "SQUEEZE": Options("SqueezeOptions", {"squeeze_dims": "ints"}),
    "EXPAND_DIMS": Options("ExpandDimsOptions"),
    "TRANSPOSE": Options("TransposeOptions"),
    "STRIDED_SLICE": Options(
        "StridedSliceOptions",
        {
            "begin_mask": "value",
            "end_mask": "value",
            "ellipsis_mask": "value",
            "new_axis_mask": "value",
            "shrink_axis_mask": "value",
            "offset": "value",
        },
    ),
    "SHAPE": Options("ShapeOptions", {"out_type": "TensorType"}),
    "SLICE": Options("SliceOptions"),
    "SPLIT": Options("SplitOptions", {"num_splits": "value"}),
    "SPLIT_V": Options("SplitVOptions", {"num_splits": "value"}),
    "PACK": Options("PackOptions", {"values_count": "value", "axis": "value"}),
    "UNPACK": Options("UnpackOptions", {"num": "value", "axis": "value"}),
    "ADD_N": Options("AddNOptions"),
    "CUMSUM": Options("CumsumOptions", {"exclusive": "value", "reverse": "value"}),
    "FLOOR_DIV": Options("FloorDivOptions"),
    "FLOOR_MOD": Options("FloorModOptions"),
    "GATHER_ND": Options("GatherNdOptions"),
    "REVERSE_V2": Options("ReverseV2Options"),
    "SELECT": Options("SelectOptions"),
    "SELECT_V2": Options("SelectV2Options"),
    "SQUARED_DIFFERENCE": Options("SquaredDifferenceOptions"),
    "TOPK_V2": Options("TopKV2Options"),
    "GATHER": Options("GatherOptions", {"axis": "value", "batch_dims": "value"}),
    "TILE": Options("TileOptions"),
    "BROADCAST_TO": Options("BroadcastToOptions"),
    "SPACE_TO_DEPTH": Options("SpaceToDepthOptions", {"block_size": "value"}),
    "DEPTH_TO_SPACE": Options("DepthToSpaceOptions", {"block_size": "value"}),
    "SPACE_TO_BATCH_ND": Options("SpaceToBatchNDOptions"),
    "BATCH_TO_SPACE_ND": Options("BatchToSpaceNDOptions"),
    "MAXIMUM": Options("MaximumMinimumOptions"),
    "MINIMUM": Options("MaximumMinimumOptions"),
    "ARG_MAX": Options("ArgMaxOptions", {"output_type": "TensorType"}),
    "ARG_MIN": Options("ArgMinOptions", {"output_type": "TensorType"}),
    "CAST": Options("CastOptions", {"in_data_type": "TensorType", "out_data_type": "TensorType"}),
    "QUANTIZE": Options("QuantizeOptions"),
    "DEQUANTIZE": Options("DequantizeOptions"),
    "VAR_HANDLE": Options("VarHandleOptions", {"container": "text", "shared_name": "text"}),
    "READ_VARIABLE": Options("ReadVariableOptions"),
    "ASSIGN_VARIABLE": Options("AssignVariableOptions"),
    "CALL_ONCE": Options("CallOnceOptions", {"init_subgraph_index": "value"}),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Options(
        "UnidirectionalSequenceLSTMOptions",
        ACTIVATION
        | {
            "cell_clip": "value",
            "proj_clip": "value",
            "time_major": "value",
            "asymmetric_quantize_inputs": "value",
            "diagonal_recurrent_tensors": "value",
        },
    ),
}
"""Operators whose options are read and written; the others have none, or none that is looked at."""


def accessor(name: str) -> str:
    """Name of the generated method of a field: ``stride_w`` → ``StrideW``."""
    return "".join(part.capitalize() for part in name.split("_"))


assert all(hasattr(tflite, options.table) for options in OPTIONS.values())
