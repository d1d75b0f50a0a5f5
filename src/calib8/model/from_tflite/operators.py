"""Which function translates which TFLite operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calib8.model.from_tflite import elementwise, images, layers, lstm, moves, picks, reductions, slices
from calib8.model.from_tflite.detections import detection_post_process
from calib8.model.from_tflite.elementwise import Translate
from calib8.tflite.custom import DETECTIONS, TRANSPOSE_CONV_BIAS
from calib8.tflite.graph import CUSTOM, Operator

SAME_BINARY: Final = {
    "ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div", "POW": "Pow", "MAXIMUM": "Max", "MINIMUM": "Min",
    "EQUAL": "Equal", "LESS": "Less", "LESS_EQUAL": "LessOrEqual", "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual", "LOGICAL_AND": "And", "LOGICAL_OR": "Or",
}  # fmt: skip
"""TFLite → ONNX, functions of two tensors."""

SAME_UNARY: Final = {
    "ABS": "Abs", "NEG": "Neg", "EXP": "Exp", "LOG": "Log", "SQRT": "Sqrt", "SIN": "Sin", "COS": "Cos",
    "FLOOR": "Floor", "CEIL": "Ceil", "ROUND": "Round", "SIGN": "Sign", "LOGISTIC": "Sigmoid", "TANH": "Tanh",
    "RELU": "Relu", "ELU": "Elu", "HARD_SWISH": "HardSwish", "LOGICAL_NOT": "Not",
}  # fmt: skip
"""TFLite → ONNX, functions of one tensor."""

REDUCTIONS: Final = {
    "MEAN": "ReduceMean", "SUM": "ReduceSum", "REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
}  # fmt: skip
"""TFLite → ONNX, reductions."""

TRANSLATE: Final[Mapping[str, Translate]] = {
    **{name: elementwise.binary(op) for name, op in SAME_BINARY.items()},
    **{name: elementwise.unary(op) for name, op in SAME_UNARY.items()},
    **{name: reductions.reduction(op) for name, op in REDUCTIONS.items()},
    **{name: elementwise.activation(name) for name in ("RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")},
    "CONV_2D": layers.conv_2d,
    "DEPTHWISE_CONV_2D": layers.depthwise_conv_2d,
    "TRANSPOSE_CONV": layers.transpose_conv,
    "FULLY_CONNECTED": layers.fully_connected,
    "BATCH_MATMUL": layers.batch_matmul,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm.sequence_lstm,
    "BIDIRECTIONAL_SEQUENCE_LSTM": lstm.bidirectional_lstm,
    "AVERAGE_POOL_2D": images.pool("AveragePool"),
    "MAX_POOL_2D": images.pool("MaxPool"),
    "L2_POOL_2D": images.l2_pool_2d,
    "RESIZE_BILINEAR": images.resize("linear"),
    "RESIZE_NEAREST_NEIGHBOR": images.resize("nearest"),
    "SPACE_TO_DEPTH": images.space_to_depth,
    "DEPTH_TO_SPACE": images.depth_to_space,
    "LEAKY_RELU": elementwise.leaky_relu,
    "PRELU": elementwise.prelu,
    "GELU": elementwise.gelu,
    "RSQRT": elementwise.rsqrt,
    "SQUARE": elementwise.square,
    "SQUARED_DIFFERENCE": elementwise.squared_difference,
    "NOT_EQUAL": elementwise.not_equal,
    "SOFTMAX": elementwise.softmax("Softmax"),
    "LOG_SOFTMAX": elementwise.softmax("LogSoftmax"),
    "L2_NORMALIZATION": elementwise.l2_normalization,
    "CAST": elementwise.cast,
    "FLOOR_DIV": elementwise.floor_div,
    "FLOOR_MOD": elementwise.floor_mod,
    "SELECT": elementwise.select,
    "SELECT_V2": elementwise.select,
    "ADD_N": picks.add_n,
    "CUMSUM": picks.cumsum,
    "GATHER_ND": picks.gather_nd,
    "REVERSE_V2": picks.reverse_v2,
    "TOPK_V2": picks.topk_v2,
    "ARG_MAX": reductions.arg("ArgMax"),
    "ARG_MIN": reductions.arg("ArgMin"),
    "SHAPE": reductions.shape,
    "RESHAPE": moves.reshape,
    "SQUEEZE": moves.reshape,
    "EXPAND_DIMS": moves.reshape,
    "TRANSPOSE": moves.transpose,
    "CONCATENATION": moves.concatenation,
    "PACK": moves.pack,
    "UNPACK": moves.unpack,
    "SPLIT": moves.split,
    "SPLIT_V": moves.split_v,
    "PAD": moves.pad,
    "PADV2": moves.pad,
    "MIRROR_PAD": moves.mirror_pad,
    "GATHER": moves.gather,
    "TILE": moves.tile,
    "BROADCAST_TO": moves.broadcast_to,
    "SPACE_TO_BATCH_ND": moves.space_to_batch_nd,
    "BATCH_TO_SPACE_ND": moves.batch_to_space_nd,
    "SLICE": slices.cut,
    "STRIDED_SLICE": slices.strided_slice,
}
"""Operator → what adds its nodes, or raises ``NoFormError``."""

TRANSLATE_CUSTOM: Final[Mapping[str, Translate]] = {
    DETECTIONS: detection_post_process,
    TRANSPOSE_CONV_BIAS: layers.transpose_conv_bias,
}
"""Name of a custom operator → likewise."""


def translation(operator: Operator) -> Translate | None:
    """What adds the nodes of an operator; None where nothing does."""
    if operator.op == CUSTOM:
        return TRANSLATE_CUSTOM.get(operator.custom_code)
    return TRANSLATE.get(operator.op)
