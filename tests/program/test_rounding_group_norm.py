"""Rounding parameters of GroupNorm."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.errors import UnsupportedModelError
from calib8.program.rounding.group_norm import group_norm_rule
from calib8.program.rules import FixedGroupNorm, FloatGroupNorm, Profile, group_epsilon_bits

SCALE, BIAS = np.float32([1.5, -0.25, 0, 1e-30]), np.float32([0, 3, -2, 1e-38])


def test_float_parameters_are_rounded_once() -> None:
    rule = group_norm_rule("onnx", 100, 0.1, 0.03, SCALE, BIAS, 1e-5)
    assert isinstance(rule, FloatGroupNorm)
    assert rule.factor.dtype == rule.offset.dtype == np.float32
    np.testing.assert_array_equal(rule.factor, SCALE / np.float32(0.03))
    np.testing.assert_array_equal(rule.offset, BIAS / np.float32(0.03))
    assert rule.epsilon == pytest.approx(1e-5 * 10000 / 0.01, rel=1e-12)


@pytest.mark.parametrize("profile", ["tflite", "single"])
def test_fixed_parameters_have_31_bits(profile: Profile) -> None:
    rule = group_norm_rule(profile, 100, 0.1, 0.03, SCALE, BIAS, 1e-5)
    assert isinstance(rule, FixedGroupNorm)
    for numbers, shift, real in (
        (rule.multiplier, rule.multiplier_shift, SCALE),
        (rule.offset, rule.offset_shift, BIAS),
    ):
        assert numbers.dtype == shift.dtype == np.int32
        np.testing.assert_allclose(
            numbers * 2.0 ** -shift.astype(np.float64), np.float64(real) / 0.03, rtol=1e-9, atol=2.0**-126
        )
        large = np.abs(np.float64(real)) > 1e-20
        assert (np.abs(numbers.astype(np.int64)[large]) >= 1 << 30).all()
        assert ((shift >= 1) & (shift <= 126)).all()
    assert rule.epsilon == round(1e-5 * 10000 / 0.01 * 65536)


def test_numbers_that_round_up_to_a_power_of_two_stay_within_int32() -> None:
    scale = np.float32([np.nextafter(np.float32(2), np.float32(0)), 2])
    for y_scale in (1.0, 1.0 - 2.0**-40, 1.0 + 2.0**-40, 1 / 3):
        rule = group_norm_rule("single", 4, 0.1, y_scale, scale, scale, 1e-5)
        assert isinstance(rule, FixedGroupNorm)
        assert ((rule.multiplier >= 1 << 30) & (rule.multiplier > 0)).all()


@pytest.mark.parametrize(
    ("count", "bits"),
    [(1, 16), (1 << 16, 16), ((1 << 16) + 1, 14), (1 << 20, 8), ((1 << 22) + 1, 2), (1 << 23, 2)],
)
def test_fraction_bits_of_epsilon_leave_room_for_the_spread(count: int, bits: int) -> None:
    assert group_epsilon_bits(count) == bits
    assert (255 * count) ** 2 // 4 << bits < 1 << 62


@pytest.mark.parametrize(
    ("profile", "count", "x_scale", "y_scale", "scale", "epsilon", "what"),
    [
        ("onnx", (1 << 23) + 1, 0.1, 0.1, 1.0, 1e-5, "a group of 8388609 values"),
        ("single", (1 << 23) + 1, 0.1, 0.1, 1.0, 1e-5, "a group of 8388609 values"),
        ("onnx", 4, 0.1, 0.1, 1.0, -1e-5, "epsilon -1e-05"),
        ("onnx", 4, 0.1, 0.1, 1.0, float("nan"), "epsilon nan"),
        ("onnx", 4, 0.1, 1.0, 1e20, 1e-5, "its scale at output scale 1"),
        ("onnx", 4, 0.1, 0.1, np.nan, 1e-5, "its scale at output scale 0.1"),
        ("single", 4, 0.1, 1e-12, 1.0, 1e-5, "its scale at output scale 1e-12"),
        ("tflite", 4, 0.1, 0.1, np.inf, 1e-5, "its scale"),
        ("single", 4, 1e-10, 0.1, 1.0, 1e-5, r"an epsilon of 1.6e\+16 steps"),
    ],
)
def test_what_is_out_of_range_is_refused(
    profile: Profile, count: int, x_scale: float, y_scale: float, scale: float, epsilon: float, what: str
) -> None:
    scales, bias = np.full(4, scale, np.float32), np.zeros(4, np.float32)
    with pytest.raises(UnsupportedModelError, match=f"GroupNormalization: {what}"):
        group_norm_rule(profile, count, x_scale, y_scale, scales, bias, epsilon)


@pytest.mark.parametrize("profile", ["onnx", "tflite", "single"])
def test_a_bias_out_of_range_is_refused(profile: Profile) -> None:
    scales, bias = np.ones(2, np.float32), np.float32([0, 1e38])
    with pytest.raises(UnsupportedModelError, match=r"its bias at output scale 0\.01"):
        group_norm_rule(profile, 4, 0.1, 0.01, scales, bias, 1e-5)
