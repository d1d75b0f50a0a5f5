"""Operators on 16-bit codes, bit for bit as LiteRT's reference kernels have them."""

from __future__ import annotations

import cases_arith
import numpy as np
import pytest
from single_op import CASES as COUNT
from single_op import assert_same_bits
from widened import widened

OPS = (
    "ADD",
    "CONCATENATION",
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "DEQUANTIZE",
    "FULLY_CONNECTED",
    "MAX_POOL_2D",
    "MUL",
    "SUB",
    "TRANSPOSE_CONV",
)


@pytest.mark.parametrize("op", OPS)
def test_random_models(op: str) -> None:
    for seed in range(COUNT):
        rng = np.random.default_rng(seed)
        graph = widened(cases_arith.CASES_OF[op](rng, "int8"), rng)
        assert_same_bits(rng, graph)
