"""Rounding parameters of LayerNorm."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.errors import UnsupportedModelError
from calib8.program.rounding.layer_norm import norm_rule
from calib8.program.rules import FixedNorm, FloatNorm, Profile

SCALE, BIAS = np.float32([1.5, -0.25, 0, 0]), np.float32([0, 3, -2, 0])


def test_float_parameters_are_rounded_once() -> None:
    rule = norm_rule("onnx", 0.1, 0.03, SCALE, BIAS, 1e-5)
    assert isinstance(rule, FloatNorm)
    assert rule.factor.dtype == rule.offset.dtype == np.float32
    np.testing.assert_array_equal(rule.factor, SCALE / np.float32(0.03))
    np.testing.assert_array_equal(rule.offset, BIAS / np.float32(0.03))
    assert rule.epsilon == pytest.approx(1e-5 * 16 / 0.01, rel=1e-12)


@pytest.mark.parametrize("profile", ["tflite", "single"])
def test_fixed_parameters_have_as_many_bits_as_there_is_room_for(profile: Profile) -> None:
    rule = norm_rule(profile, 0.1, 0.03, SCALE, BIAS, 1e-5)
    assert isinstance(rule, FixedNorm)
    shift = rule.shift.astype(np.float64)
    np.testing.assert_allclose(rule.multiplier * 2.0 ** (22 - shift), np.float64(SCALE) / 0.03, rtol=1e-8)
    np.testing.assert_allclose(rule.offset * 2.0 ** (30 - shift), np.float64(BIAS) / 0.03, rtol=1e-8)
    assert abs(rule.multiplier[0]) >= 1 << 30  # 50, which alone decides
    assert rule.shift[0] == 47
    assert max(abs(int(rule.multiplier[1])), abs(int(rule.offset[1]))) >= 1 << 30
    assert abs(rule.offset[2]) >= 1 << 30
    assert (rule.multiplier[3], rule.offset[3], rule.shift[3]) == (0, 0, 62)
    assert rule.epsilon == round(1e-5 * 16 / 0.01 * 65536)


def test_numbers_that_round_up_to_a_power_of_two_stay_within_int32() -> None:
    scale = np.float32([np.nextafter(np.float32(2), np.float32(0))])
    for y_scale in (1.0, float(np.float32(0.1)), 1 / 3):
        rule = norm_rule("single", 0.1, y_scale, scale, scale, 1e-5)
        assert isinstance(rule, FixedNorm)
        assert 1 << 29 <= int(rule.multiplier[0]) < 1 << 31
    wide = norm_rule("single", 0.1, 1.0 + 2.0**-40, np.float32([2.0]), np.float32([0]), 0.0)
    assert isinstance(wide, FixedNorm)
    assert int(wide.multiplier[0]) == 1 << 30


def test_rows_around_0_are_half_as_long() -> None:
    scale = np.ones((1 << 15) + 1, np.float32)
    norm_rule("onnx", 0.1, 0.1, scale[1:], scale[1:], 1e-5, centred=False)
    with pytest.raises(UnsupportedModelError, match=r"a row of 32769 values \(limit 2\^15\)"):
        norm_rule("onnx", 0.1, 0.1, scale, scale, 1e-5, centred=False)


@pytest.mark.parametrize(
    ("profile", "channels", "x_scale", "y_scale", "scale", "epsilon", "what"),
    [
        ("onnx", (1 << 16) + 1, 0.1, 0.1, 1.0, 1e-5, "a row of 65537 values"),
        ("single", (1 << 16) + 1, 0.1, 0.1, 1.0, 1e-5, "a row of 65537 values"),
        ("onnx", 4, 0.1, 0.1, 1.0, -1e-5, "epsilon -1e-05"),
        ("onnx", 4, 0.1, 0.1, 1.0, float("nan"), "epsilon nan"),
        ("onnx", 4, 0.1, 1e-30, 1e20, 1e-5, "its scale at output scale 1e-30"),
        ("onnx", 4, 0.1, 0.1, np.nan, 1e-5, "its scale at output scale 0.1"),
        ("single", 4, 0.1, 1e-12, 1e6, 1e-5, "its scale or bias at output scale 1e-12"),
        ("tflite", 4, 0.1, 0.1, np.inf, 1e-5, "its scale or bias"),
        ("single", 4, 1e-10, 0.1, 1.0, 1e-5, r"an epsilon of 1.6e\+16 steps"),
    ],
)
def test_what_is_out_of_range_is_refused(
    profile: Profile, channels: int, x_scale: float, y_scale: float, scale: float, epsilon: float, what: str
) -> None:
    scales, bias = np.full(channels, scale, np.float32), np.zeros(channels, np.float32)
    with pytest.raises(UnsupportedModelError, match=f"LayerNormalization: {what}"):
        norm_rule(profile, x_scale, y_scale, scales, bias, epsilon)
