"""Profile ``onnx`` against ONNX Runtime's Div and ReduceL2, which are float32 between DQ and Q."""

from __future__ import annotations

import numpy as np
import pytest
from fused_cases import cases, kernel, run_onnx
from fused_kernels import CASES, Quantized, onnx_runtime, quantized, reference
from onnx import helper

from calib8.program.instructions import Div, ReduceL2
from calib8.program.ops.length import reduce_l2
from calib8.program.rounding.quotient import length_rule, quotient_rule

EVERY = np.arange(256).astype(np.uint8)


def quotient_nodes(epsilon: float | None) -> list[object]:
    """DQ → Div → Q, with or without an Add before the divisor."""
    nodes = [
        helper.make_node("DequantizeLinear", ["a", "a_scale", "a_zp"], ["left"]),
        helper.make_node("DequantizeLinear", ["b", "b_scale", "b_zp"], ["right"]),
        helper.make_node("Div", ["left", "right" if epsilon is None else "raised"], ["real"]),
        helper.make_node("QuantizeLinear", ["real", "y_scale", "y_zp"], ["y"]),
    ]
    if epsilon is not None:
        nodes.insert(2, helper.make_node("Add", ["right", "epsilon"], ["raised"]))
    return nodes


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("epsilon", [None, 1e-6, 0.37])
def test_quotients_of_all_pairs_of_codes(dtype: str, epsilon: float | None) -> None:
    """65536 pairs of codes at a time, divisors of 0 among them: the same bits."""
    rng = np.random.default_rng(12)
    info, every = np.iinfo(dtype), EVERY.view(dtype)
    for case in range(max(CASES, 40)):
        a, b, y = (quantized(rng, name, (), dtype) for name in "aby")
        a = Quantized("a", every.reshape(256, 1).copy(), a.scale, a.zero_point)
        b = Quantized("b", every.reshape(1, 256).copy(), b.scale, b.zero_point)
        constants = a.constants | b.constants | y.constants
        if epsilon is not None:
            constants["epsilon"] = np.array(epsilon, np.float32)
        expected = onnx_runtime(quotient_nodes(epsilon), {"a": a.data, "b": b.data}, constants)
        codes = np.arange(info.min, info.max + 1) - int(b.zero_point)
        divisor = codes.astype(np.float32) * np.float32(b.scale)
        if epsilon is not None:
            divisor = divisor + np.float32(epsilon)
        rule = quotient_rule("onnx", float(a.scale), divisor, float(y.scale))
        step = Div("quotient", (0, 1), (2,), rule, info.min, info.max)
        made = reference([step], [a.slot(), b.slot(), y.slot((256, 256))], a.data, b.data)
        known = ~((a.data == a.zero_point) & (divisor == 0.0)[None, :])  # 0 / 0 is no number
        np.testing.assert_array_equal(made[known], expected[known], f"case {case}")


def test_lengths() -> None:
    """ONNX Runtime adds squares in float32; a length on a tie may differ, by one. None does here."""
    wrong = total = 0
    for case in cases(output=(0.05, 2.0)):
        ends, count = np.iinfo(case.dtype), int(case.rng.choice([3, 17, 49, 196, 784, 3136]))
        data = case.codes(64, count)
        expected = run_onnx(case, "ReduceL2", data, {"keepdims": 0}, {"axes": np.array([1], np.int64)})
        step = ReduceL2(
            "n", (0,), (1,), (1,), length_rule("onnx", case.x.scale, case.y.scale), ends.min, ends.max
        )
        difference = np.abs(kernel(case, reduce_l2, step, data, (64,)).astype(int) - expected.astype(int))
        assert difference.max() <= 1
        wrong, total = wrong + np.count_nonzero(difference), total + difference.size
    assert wrong <= 3e-4 * total, f"{wrong} of {total}"
