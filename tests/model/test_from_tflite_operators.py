"""Every float TFLite operator that becomes ONNX nodes, beside LiteRT's reference kernels."""

from __future__ import annotations

import os
from collections.abc import Callable

import float_moves as moves
import float_operators as ops
import numpy as np
import pytest
from float_operators import feeds, kernels
from litert import litert_outputs

from calib8.model.from_tflite.operators import TRANSLATE
from calib8.model.from_tflite.translate import float_model
from calib8.model.runtime import open_session
from calib8.tflite.graph import Graph
from calib8.tflite.read import parse
from calib8.tflite.write import serialize

CASES = int(os.environ.get("CALIB8_TFLITE_CASES", "6"))
TOLERANCE = 1e-4
"""Of the largest number that comes out."""

COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
MODELS: dict[str, Callable[[np.random.Generator], Graph]] = {
    "CONV_2D": ops.conv_2d,
    "DEPTHWISE_CONV_2D": ops.depthwise_conv_2d,
    "TRANSPOSE_CONV": ops.transpose_conv,
    "FULLY_CONNECTED": ops.fully_connected,
    "BATCH_MATMUL": ops.batch_matmul,
    **{name: ops.binary(name, fuses=True) for name in ("ADD", "SUB", "MUL")},
    **{name: ops.binary(name) for name in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")},
    **{name: ops.binary(name, dtype="bool") for name in COMPARISONS},
    "POW": ops.binary("POW", positive=True),
    **{name: ops.unary(name, positive=True) for name in ("SQRT", "RSQRT", "LOG")},
    **{
        name: ops.unary(name)
        for name in (
            "ABS", "NEG", "EXP", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "SIGN", "LOGISTIC", "TANH", "RELU",
            "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "ELU", "HARD_SWISH", "SQUARE", "LOG_SOFTMAX",
            "L2_NORMALIZATION",
        )
    },
    "LEAKY_RELU": ops.leaky_relu,
    "PRELU": ops.prelu,
    "GELU": ops.gelu,
    "SOFTMAX": ops.softmax,
    **{name: ops.pool(name) for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")},
    **{name: ops.reduction(name) for name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")},
    **{name: ops.resize(name) for name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")},
    **{name: ops.arg(name) for name in ("ARG_MAX", "ARG_MIN")},
    "RESHAPE": moves.reshape,
    "SQUEEZE": moves.squeeze,
    "EXPAND_DIMS": moves.expand_dims,
    "TRANSPOSE": moves.transpose,
    "CONCATENATION": moves.concatenation,
    "PACK": moves.pack,
    "UNPACK": moves.unpack,
    "SPLIT": moves.split,
    "SPLIT_V": moves.split_v,
    **{name: moves.pad(name) for name in ("PAD", "PADV2")},
    "MIRROR_PAD": moves.mirror_pad,
    "GATHER": moves.gather,
    "GATHER_ND": moves.gather_nd,
    "REVERSE_V2": moves.reverse_v2,
    "TOPK_V2": moves.topk_v2,
    "CUMSUM": moves.cumsum,
    "ADD_N": moves.add_n,
    **{name: ops.whole_division(name) for name in ("FLOOR_DIV", "FLOOR_MOD")},
    "TILE": moves.tile,
    "BROADCAST_TO": moves.broadcast_to,
    "SLICE": moves.cut,
    "STRIDED_SLICE": moves.strided_slice,
    **{name: moves.blocks(name) for name in ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")},
    "SPACE_TO_BATCH_ND": moves.space_to_batch_nd,
    "BATCH_TO_SPACE_ND": moves.batch_to_space_nd,
    "CAST": moves.cast,
    "SELECT": moves.select,
    "SELECT_V2": moves.select_v2,
    "DIV": ops.quotient,
    **{name: ops.logical(name) for name in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT")},
    "SHAPE": ops.shape,
}  # fmt: skip


ELSEWHERE = {"UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"}
"""``test_from_tflite_lstm``."""


def test_every_operator_has_a_model() -> None:
    assert MODELS.keys() | ELSEWHERE == TRANSLATE.keys()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_operator(name: str) -> None:
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        graph = MODELS[name](rng)
        assert graph.operators[-1].op == name
        model = serialize(graph)
        session = open_session(float_model(parse(model), name), threads=1)
        inputs = feeds(rng, graph)
        names = (spec.name for spec in session.inputs)
        results = session.run(dict(zip(names, inputs, strict=True)))
        for got, wanted in zip(results, litert_outputs(model, inputs, kernels(graph)), strict=True):
            assert got.dtype == wanted.dtype and got.shape == wanted.shape, (seed, got.shape, wanted.shape)
            limit = TOLERANCE * max(np.abs(wanted).max(initial=0), 1e-3)
            np.testing.assert_allclose(got, wanted, rtol=0, atol=limit, err_msg=f"{name} {seed}")
