"""Softmax of the reference: TFLite's worked example, gemmlowp's functions, exact fractions, real shares."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_loops import codes, run_one

from calib8.fixedpoint import rounding_divide_by_power_of_two, rounding_doubling_high_multiply
from calib8.program.instructions import Softmax
from calib8.program.ops.softmax import exp_of_negative, one_over_one_plus
from calib8.program.program import Slot
from calib8.program.rounding.softmax import softmax_rule
from calib8.program.rules import PROFILES, Profile, TableSoftmax
from calib8.qparams import QParams

Array = npt.NDArray[Any]


def run(profile: Profile, x: Slot, y: Slot, data: Array) -> Array:
    output = QParams(y.scale, y.zero_point)
    rule = softmax_rule(profile, x.scale, x.dtype, output, y.dtype, x.shape[-1])
    return run_one(Softmax("s", (0,), (1,), rule), (x, y), data)


def slots(shape: tuple[int, ...], scale: float, dtype: str = "int8") -> tuple[Slot, Slot]:
    return codes("x", shape, dtype, scale, 5), codes("y", shape, dtype, 1 / 256, int(np.iinfo(dtype).min))


def test_worked_example_of_tflite() -> None:
    row = np.array([[10, 20, -5, 127, 100]], np.int8)
    assert run("tflite", *slots((1, 5), 0.05), row).tolist() == [[-127, -127, -128, 74, -76]]
    unsigned = (row.astype(np.int16) + 128).astype(np.uint8)
    assert run("tflite", *slots((1, 5), 0.05, "uint8"), unsigned).tolist() == [[1, 1, 0, 202, 52]]


def test_steps_of_the_worked_example() -> None:
    below = np.array([10, 20, -5, 127, 100]) - 127
    scaled = rounding_doubling_high_multiply(below << 22, 1717986944)
    total = int(rounding_divide_by_power_of_two(exp_of_negative(scaled, 5), 12).sum())
    assert total == 664917
    headroom = 32 - total.bit_length()
    assert int(one_over_one_plus(np.array((total << headroom) - (1 << 31)))) == 1693293906


def test_exponential_of_gemmlowp() -> None:
    one = 1 << 26
    assert int(exp_of_negative(np.array(-one), 5)) == 790015308
    assert int(exp_of_negative(np.array(0), 5)) == (1 << 31) - 1
    places = -np.linspace(1, 31 * one, 2000).astype(np.int64)
    exact = np.exp(places / one) * 2.0**31
    assert np.abs(exp_of_negative(places, 5) - exact).max() < 600
    quarters = -np.linspace(1, 2.0**31, 500).astype(np.int64)
    np.testing.assert_allclose(exp_of_negative(quarters, 0) / 2**31, np.exp(quarters / 2**31), atol=3e-7)


def test_reciprocal_of_gemmlowp() -> None:
    places = np.linspace(0, 2.0**31 - 1, 2000).astype(np.int64)
    np.testing.assert_allclose(one_over_one_plus(places) / 2**31, 1 / (1 + places / 2**31), rtol=2e-8)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("scale", "classes"), [(0.004, 1000), (0.05, 10), (0.3, 2), (1.0, 50)])
def test_shares_are_the_real_ones_rounded(profile: Profile, scale: float, classes: int) -> None:
    x, y = slots((64, classes), scale)
    data = np.random.default_rng(classes).integers(-128, 128, x.shape).astype(np.int8)
    powers = np.exp(float(np.float32(scale)) * data.astype(np.float64))
    real = np.minimum(256 * powers / powers.sum(axis=1, keepdims=True), 255) - 128
    assert np.abs(run(profile, x, y, data) - real).max() < 0.5 + 1e-3


@given(
    st.integers(1, 30),
    st.floats(2.0**-10, 2.0, width=32),
    st.floats(2.0**-10, 0.125, width=32),
    st.integers(0, 99),
)
def test_single_is_one_exact_division(classes: int, scale: float, output: float, seed: int) -> None:
    x, y = codes("x", (2, classes), "uint8", scale, 0), codes("y", (2, classes), "int8", output, -7)
    data = np.random.default_rng(seed).integers(0, 256, x.shape).astype(np.uint8)
    result = run("single", x, y, data)
    rule = softmax_rule("single", scale, "uint8", QParams(output, -7), "int8", classes)
    assert isinstance(rule, TableSoftmax)
    for row, shares in zip(data.tolist(), result.tolist(), strict=True):
        powers = [int(rule.table[code - max(row) + 255]) for code in row]
        for power, share in zip(powers, shares, strict=True):
            exact = Fraction(power * int(rule.factor), sum(powers) << 16)
            assert share == min(max(math.floor(exact + Fraction(1, 2)) - 7, -128), 127)


def test_onnx_sums_in_order_in_float32() -> None:
    x, y = slots((1, 300), 0.02)
    data = np.random.default_rng(0).integers(-128, 128, x.shape).astype(np.int8)
    rule = softmax_rule("onnx", x.scale, "int8", QParams(1 / 256, -128), "int8", 300)
    assert isinstance(rule, TableSoftmax)
    powers = rule.table[data[0].astype(int) - data.max() + 255]
    total = np.float32(0)
    for power in powers:
        total = total + power
    expected = np.rint(powers * np.float32(256) / total) - 128
    assert np.array_equal(run("onnx", x, y, data)[0], expected)


@pytest.mark.parametrize("profile", PROFILES)
def test_one_class_and_equal_classes(profile: Profile) -> None:
    assert run(profile, *slots((1, 1), 0.1), np.array([[3]], np.int8)).tolist() == [[127]]
    many = run(profile, *slots((1, 5000), 0.1), np.full((1, 5000), -3, np.int8))
    assert set(many.reshape(-1).tolist()) == {-128}
    four = run(profile, *slots((2, 4), 30.0), np.full((2, 4), 9, np.int8))
    assert set(four.reshape(-1).tolist()) == {-64}


@pytest.mark.parametrize("profile", ["onnx", "single"])
def test_any_output_scale(profile: Profile) -> None:
    x, y = codes("x", (3, 7), "int8", 0.1, 0), codes("y", (3, 7), "uint8", 0.01, 30)
    data = np.random.default_rng(3).integers(-128, 128, x.shape).astype(np.int8)
    powers = np.exp(float(np.float32(0.1)) * data.astype(np.float64))
    real = powers / powers.sum(axis=1, keepdims=True) * 100 + 30
    assert np.abs(run(profile, x, y, data) - real).max() < 0.5 + 1e-3
