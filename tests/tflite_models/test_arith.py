"""Layers, arithmetic, pools and borders, bit for bit as LiteRT's reference kernels have them."""

from __future__ import annotations

import numpy as np
import pytest
from cases_arith import CASES, CASES_OF
from litert import litert_outputs
from single_op import CASES as COUNT
from single_op import Net, assert_same_bits, feeds, moved_to_uint8, quantized

from calib8 import _core
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.program.reference.executor import run_program
from calib8.session import InferenceSession
from calib8.tflite.write import serialize


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_random_models(op: str, dtype: str) -> None:
    for seed in range(COUNT):
        rng = np.random.default_rng(seed)
        graph = CASES_OF[op](rng, dtype)
        misread = (op, dtype) == ("SUM", "int8")  # see test_reference_sum_of_int8
        assert_same_bits(rng, graph, definition=moved_to_uint8(graph) if misread else None)


@pytest.mark.parametrize("isa", _core.engine.available_isas())
def test_squared_differences_on_every_set(isa: str) -> None:
    """A Sub of 8-bit codes with 16-bit results, which no other model has."""
    for seed in range(COUNT):
        rng = np.random.default_rng(seed)
        graph = CASES_OF["SQUARED_DIFFERENCE"](rng, "int8")
        program = lower_tflite(graph)
        named = dict(zip((port.name for port in program.inputs), feeds(rng, graph), strict=True))
        [wanted] = run_program(program, named)
        [got] = InferenceSession(program, isa=isa).run(None, named)
        np.testing.assert_array_equal(got, wanted)


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


@pytest.mark.parametrize("op", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_scales_that_differ_by_rounding(op: str) -> None:
    """TFLite's pools copy codes; a scale that is off by less than 1e-6 is the same to them."""
    net, rng = Net(), np.random.default_rng(0)
    x = net.codes((1, 5, 5, 3), "int8", 0.1, 4)
    y = net.output((1, 2, 2, 3), "int8", quantized(0.1 + 4e-7, 4))
    graph = net.graph(
        op, [x], [y], 2,
        padding="VALID", stride_h=2, stride_w=2, filter_height=3, filter_width=3,
        fused_activation_function="RELU",
    )  # fmt: skip
    assert_same_bits(rng, graph)
