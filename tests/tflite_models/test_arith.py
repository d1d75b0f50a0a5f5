"""Layers, arithmetic, pools and borders, bit for bit as LiteRT's reference kernels have them."""

from __future__ import annotations

import numpy as np
import pytest
from cases_arith import CASES_OF
from litert import litert_outputs
from single_op import CASES, Net, assert_same_bits, moved_to_uint8, quantized

from calib8.tflite.write import serialize


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("op", CASES_OF)
def test_random_models(op: str, dtype: str) -> None:
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        graph = CASES_OF[op](rng, dtype)
        misread = (op, dtype) == ("SUM", "int8")  # see test_reference_sum_of_int8
        assert_same_bits(rng, graph, definition=moved_to_uint8(graph) if misread else None)


def test_reference_sum_of_int8() -> None:
    """LiteRT's reference kernel reads the int8 codes of a SUM as uint8; the other kernels do not.

    That of uint8, with codes moved by 128, is what int8 is held to here.
    """
    net = Net()
    x, axes = net.codes((1, 3), "int8", 1.0, 0), net.constant(np.array([1], np.int32))
    graph = net.graph("SUM", [x, axes], [net.output((1,), "int8", quantized(10.0, 0))], 2, keep_dims=False)
    codes = np.array([[-10, 30, 40]], np.int8)
    assert litert_outputs(serialize(graph), [codes])[0] == (246 + 30 + 40 + 5) // 10
    assert litert_outputs(serialize(graph), [codes], "optimized")[0] == 6
