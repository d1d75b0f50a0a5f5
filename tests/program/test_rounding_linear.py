"""From scales to rounding parameters: worked examples, the nearest-value property, and refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calib8.errors import UnsupportedModelError
from calib8.program.program import Slot
from calib8.program.rounding.fma import fused_multiply_add
from calib8.program.rounding.linear import (
    clamp,
    layer_rescale,
    product_rule,
    sum_rule,
    sums_rescale,
    sums_rule,
)
from calib8.program.rules import (
    PROFILES,
    AlignedSum,
    AlignedSums,
    DequantizedSum,
    FixedRescale,
    FloatProduct,
    FloatRescale,
    FloatSum,
    Profile,
    ScaledSum,
)
from calib8.qparams import QParams

scales = st.floats(2.0**-20, 2.0**4, width=32)
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


def f32(value: float) -> float:
    return float(np.float32(value))


def nearest_float32(value: Fraction) -> np.float32:
    """The one float32 nearest to an exact number, ties to even; found among float32 neighbours."""
    with np.errstate(over="ignore"):
        guess = np.float32(float(value))  # two roundings: wrong by one neighbour at most
        around = (np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf)))
    finite = [x for x in around if np.isfinite(x)]
    return min(finite, key=lambda x: (abs(Fraction(float(x)) - value), int(x.view(np.int32)) & 1))


@given(floats, floats, floats)
def test_fused_multiply_add_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    assume(abs(exact) < Fraction(2) ** 127)
    assert fused_multiply_add(a, b, c) == nearest_float32(exact)


@given(
    st.integers(0, (1 << 24) - 1),
    st.integers(0, (1 << 24) - 1),
    st.integers(-(1 << 24), 1 << 24),
    st.integers(-60, 60),
)
def test_fused_multiply_add_of_numbers_far_apart(a: int, b: int, c: int, exponent: int) -> None:
    """A tail far below the sum's last bit decides ties: a plain float64 sum loses it."""
    addend = math.ldexp(c, exponent)
    exact = Fraction(a * b) + Fraction(addend)
    assert fused_multiply_add(a, b, addend) == nearest_float32(exact)


def test_a_float64_sum_would_round_twice() -> None:
    """2^57 + 2^33 is a tie of float32; the 1 of 411849 · 20857 = 2^33 + 1 is lost in float64."""
    a, b, c = np.float32(411849), np.float32(20857), np.float32(2.0**57)
    assert np.float32(float(a) * float(b) + float(c)) == c
    assert fused_multiply_add(a, b, c) == 2.0**57 + 2.0**34
    assert fused_multiply_add(-a, b, -c) == -(2.0**57) - 2.0**34


def test_layer_factors_are_formed_as_each_runtime_forms_them() -> None:
    weights = np.float32([0.02, 0.013])
    onnx = layer_rescale("onnx", f32(0.05), weights, f32(0.3))
    assert isinstance(onnx, FloatRescale)
    assert onnx.factor.dtype == np.float32
    np.testing.assert_array_equal(onnx.factor, np.float32(0.05) * weights / np.float32(0.3))
    tflite = layer_rescale("tflite", f32(0.05), weights, f32(0.3), fully_connected=True)
    assert isinstance(tflite, FixedRescale)
    assert tflite.rounding == "away"
    assert tflite.multiplier.tolist() == [1832519293, 1191137592] and tflite.shift.tolist() == [-8, -8]
    single = layer_rescale("single", f32(0.05), weights, f32(0.3), fully_connected=True)
    assert isinstance(single, FixedRescale)
    assert single.rounding == "single" and single.multiplier.tolist() == tflite.multiplier.tolist()
    conv = layer_rescale("tflite", f32(0.05), weights, f32(0.3))
    assert isinstance(conv, FixedRescale) and conv.rounding == "double"


@pytest.mark.parametrize("profile", PROFILES)
def test_sums_are_rescaled_like_the_layer_that_wrote_them(profile: Profile) -> None:
    scale = f32(f32(0.05) * f32(0.02))
    rescaled = sums_rescale(profile, np.float32([scale]), f32(0.3))
    layer = layer_rescale(profile, 1.0, np.float32([scale]), f32(0.3))
    assert vars(rescaled).keys() == vars(layer).keys()
    for name, value in vars(rescaled).items():
        np.testing.assert_array_equal(value, vars(layer)[name])


def test_sum_rules() -> None:
    a, b, y = QParams(f32(0.05), -3), QParams(f32(0.031), 10), QParams(f32(0.07), 5)
    assert sum_rule("tflite", "add", a, b, y) == ScaledSum(
        20, (1073741824, 0), (1331439820, -1), (1533916908, -19)
    )
    assert sum_rule("single", "add", a, b, y) == AlignedSum(1497966, 928739, 21)
    assert sum_rule("single", "sub", a, b, y) == AlignedSum(1497966, 928739, 21)
    assert sum_rule("onnx", "sub", a, b, y) == DequantizedSum(a.scale, b.scale, y.scale)
    rule = sum_rule("onnx", "add", a, b, y)
    assert isinstance(rule, FloatSum)
    ratio_a, ratio_b = np.float32(0.05) / np.float32(0.07), np.float32(0.031) / np.float32(0.07)
    assert (rule.lhs, rule.rhs) == (ratio_a, ratio_b)
    offsets = nearest_float32(Fraction(float(ratio_a)) * -3 + Fraction(float(ratio_b * np.float32(10))))
    assert rule.fixed == np.float32(5) - offsets


@given(scales, scales, scales)
def test_aligned_sums_hold_the_ratios(a: float, b: float, y: float) -> None:
    assume(max(a, b) / y < 2.0**19)
    rule = sum_rule("single", "add", QParams(a, 0), QParams(b, 0), QParams(y, 0))
    assert isinstance(rule, AlignedSum)
    assert 1 << 20 <= max(rule.lhs, rule.rhs) <= 1 << 21 and 1 <= rule.shift <= 62
    for multiplier, scale in ((rule.lhs, a), (rule.rhs, b)):
        assert abs(multiplier - scale / y * 2.0**rule.shift) <= 0.5 + 2.0**21 * 2.0**-24
    sums = sums_rule("single", np.float32([a]), np.float32([b, a]), y)
    assert isinstance(sums, AlignedSums)
    assert (np.maximum(sums.lhs, sums.rhs) >= 1 << 29).all() and (sums.lhs <= 1 << 30).all()
    for multiplier, scale in ((sums.lhs, [a, a]), (sums.rhs, [b, a])):
        exact = np.array(scale) / y * 2.0**sums.shift
        assert (np.abs(multiplier - exact) <= 0.5 + 2.0**-20).all()


def test_sums_so_small_that_they_vanish_keep_a_rule() -> None:
    """A dead channel beside sums of ordinary size must not refuse the model."""
    rule = sums_rule("single", np.float32([1e-30, 0.01]), np.float32([1e-30]), 0.1)
    assert isinstance(rule, AlignedSums)
    assert rule.shift.tolist() == [62, 33] and rule.lhs[0] == rule.rhs[0] == 0
    assert sums_rule("onnx", np.float32([0.1]), np.float32([0.1]), 0.1) is None


def test_product_rules() -> None:
    """``tflite`` encodes the float32 factor, ``single`` that of float64."""
    a, b, y = f32(0.05), f32(0.031), f32(0.12)
    for profile, rounding, multiplier in (("tflite", "double", 1775253248), ("single", "single", 1775253186)):
        rule = product_rule(profile, a, b, y)  # type: ignore[arg-type]
        assert isinstance(rule, FixedRescale) and rule.rounding == rounding
        assert (rule.multiplier.tolist(), rule.shift.tolist()) == ([multiplier], [-6])
    assert product_rule("onnx", a, b, y) == FloatProduct(
        float(np.float32(0.05) * np.float32(0.031) / np.float32(0.12))
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_factors_that_cannot_be_encoded_are_refused_with_the_ratio(profile: Profile) -> None:
    tiny, huge = QParams(1e-37, 0), QParams(1e3, 0)
    refused = pytest.raises(UnsupportedModelError, match=r"scales .*: one step .* is [1-9.]+e\+\d+ steps")
    with refused:
        layer_rescale(profile, huge.scale, np.float32([0.1, 10.0]), tiny.scale)
    with refused:
        sums_rescale(profile, np.float32([1e3]), tiny.scale)
    with refused:
        product_rule(profile, huge.scale, huge.scale, tiny.scale)
    with refused:
        sum_rule(profile, "add", huge, huge, tiny)
    if profile != "onnx":
        with refused:
            sum_rule(profile, "sub", huge, huge, tiny)
        with refused:
            sums_rule(profile, np.float32([1e3]), np.float32([1e3]), tiny.scale)


@pytest.mark.parametrize(
    ("scale", "zero_point", "low", "high", "codes"),
    [
        (0.05, -20, 0.0, 6.0, (-20, 100)),
        (6 / 255, -128, 0.0, 6.0, (-128, 127)),
        (0.05, -20, -1.0, 1.0, (-40, 0)),
        (0.05, -20, 0.0, None, (-20, 127)),
        (0.05, -20, None, None, (-128, 127)),
        (0.05, -20, -math.inf, math.inf, (-128, 127)),
        (0.05, -20, 100.0, 200.0, (127, 127)),
        (0.05, -20, 2.0, 1.0, (0, 0)),  # ONNX: the upper bound wins
    ],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_clamps(
    profile: Profile,
    scale: float,
    zero_point: int,
    low: float | None,
    high: float | None,
    codes: tuple[int, int],
) -> None:
    slot = Slot("y", (1,), "int8", np.float32([scale]), zero_point)
    assert clamp(profile, slot, low, high) == codes


def test_ties_of_a_clamp_go_as_the_profile_rounds() -> None:
    slot = Slot("y", (1,), "uint8", np.float32([2.0]), 10)
    assert clamp("tflite", slot, -1.0, 5.0) == (9, 13)
    assert clamp("onnx", slot, -1.0, 5.0) == clamp("single", slot, -1.0, 5.0) == (10, 12)
