"""Rounding parameters of means: TFLite's worked example, exact quotients, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib8.errors import UnsupportedModelError
from calib8.program.ops.rescale import rescale
from calib8.program.rounding.pools import average_rule, mean_rule
from calib8.program.rules import CodeAverage, FixedRescale, FloatAverage, FloatRescale
from calib8.qparams import QParams

scales = st.floats(2.0**-12, 2.0**4, width=32)


def test_mean_of_tflite() -> None:
    x_scale, y_scale = float(np.float32(0.05)), float(np.float32(0.02))
    rule = mean_rule("tflite", x_scale, y_scale, 49, "mean")
    assert isinstance(rule, FixedRescale)
    assert (rule.multiplier.tolist(), rule.shift.tolist(), rule.rounding) == ([876523970], [-3], "double")
    sums = np.array([49, 100, -100, 1000])
    assert rescale(sums, rule, 0, -128, 127, "int8").tolist() == [3, 5, -5, 51]


def test_sum_of_tflite_is_not_divided() -> None:
    rule = mean_rule("tflite", 2.5, 1.0, 49, "sum")
    assert isinstance(rule, FixedRescale)
    assert (rule.multiplier.tolist(), rule.shift.tolist()) == ([1342177280], [2])


@given(scales, scales, st.integers(1, 50_000))
def test_tflite_divides_the_multiplier_by_the_count(x: float, y: float, count: int) -> None:
    rule = mean_rule("tflite", x, y, count, "mean")
    assert isinstance(rule, FixedRescale)
    multiplier, shift = int(rule.multiplier[0]), int(rule.shift[0])
    assert 1 << 29 <= multiplier < 1 << 31
    assert -31 <= shift <= 30
    real = Fraction(x) / Fraction(y) / count
    assert abs(multiplier * Fraction(2) ** (shift - 31) / real - 1) < Fraction(1, 1 << 28)


def test_onnx_divides_by_the_product_of_scale_and_count() -> None:
    x, y, count = np.float32(0.1), np.float32(0.07), 49
    rule = mean_rule("onnx", float(x), float(y), count, "mean")
    assert isinstance(rule, FloatRescale)
    assert rule.factor.dtype == np.float32
    assert rule.factor.tolist() == [x / (y * np.float32(count))]
    assert rule.factor[0] != x / y / np.float32(count)
    total = mean_rule("onnx", float(x), float(y), count, "sum")
    assert isinstance(total, FloatRescale)
    assert total.factor.tolist() == [x / y]


@given(scales, scales, st.integers(1, 1000))
def test_single_has_the_exact_quotient(x: float, y: float, count: int) -> None:
    rule = average_rule("single", QParams(x, 3), QParams(y, -5), count)
    assert isinstance(rule, FixedRescale)
    assert rule.rounding == "single"
    assert rule.multiplier.shape == rule.shift.shape == (count,)
    of_full_window = mean_rule("single", x, y, count, "mean")
    assert isinstance(of_full_window, FixedRescale)
    assert rule.multiplier[-1] == of_full_window.multiplier[0]
    for n in {1, count // 2 + 1, count}:
        value = int(rule.multiplier[n - 1]) * Fraction(2) ** (int(rule.shift[n - 1]) - 31)
        assert abs(value * n * Fraction(y) / Fraction(x) - 1) < Fraction(1, 1 << 30)


def test_pools_of_onnx_and_tflite() -> None:
    x, y = QParams(0.5, 3), QParams(0.25, 3)
    rule = average_rule("onnx", x, y, 9)
    assert isinstance(rule, FloatAverage)
    assert (rule.input, rule.output) == (0.5, 0.25)
    assert isinstance(average_rule("tflite", x, x, 9), CodeAverage)
    for other in (y, QParams(0.5, 4)):
        with pytest.raises(ValueError, match="scale and zero point of its input"):
            average_rule("tflite", x, other, 9)


def test_scales_too_far_apart_are_refused() -> None:
    for profile in ("onnx", "tflite", "single"):
        with pytest.raises(UnsupportedModelError, match="no multiplier"):
            mean_rule(profile, 1e30, 1e-30, 4, "mean")
    with pytest.raises(UnsupportedModelError, match=r"1e\+10"):
        average_rule("single", QParams(1.0, 0), QParams(1e-10, 0), 4)


@pytest.mark.parametrize("exponent", [0, -10, -26, -27, -28, -31])
@pytest.mark.parametrize("count", [3, 64, 50_000])
def test_tflite_shifts_right_by_31_at_most(exponent: int, count: int) -> None:
    """As far as that goes a division by the count is a shift, the rest is taken from the multiplier."""
    rule = mean_rule("tflite", 1.5 * 2.0**exponent, 1.0, count, "mean")
    assert isinstance(rule, FixedRescale)
    multiplier, shift = int(rule.multiplier[0]), int(rule.shift[0])
    assert -31 <= shift <= 30
    real = Fraction(3, 2) * Fraction(2) ** exponent / count
    step = Fraction(2) ** (shift - 31)
    assert 0 <= real - multiplier * step < step
