"""LayerNorm of the reference: loops over Python's numbers, real numbers, rows without spread."""

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

from calib8.program.instructions import LayerNorm
from calib8.program.program import Slot
from calib8.program.rounding.layer_norm import norm_rule
from calib8.program.rules import PROFILES, FixedNorm, FloatNorm, Profile

Array = npt.NDArray[Any]


def run(profile: Profile, x: Slot, y: Slot, scale: Array, bias: Array, epsilon: float, data: Array) -> Array:
    rule = norm_rule(profile, x.scale, y.scale, scale, bias, epsilon)
    ends = np.iinfo(y.dtype)
    return run_one(LayerNorm("n", (0,), (1,), rule, int(ends.min), int(ends.max)), (x, y), data)


def case(seed: int, rows: int, channels: int) -> tuple[Array, Array, Array]:
    """Codes, scale and bias."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (rows, channels)).astype(np.uint8)
    if seed % 3 == 1:  # close together
        data = (data // 64 + 100).astype(np.uint8)
    scale, bias = rng.normal(0, 1.5, channels), rng.normal(0, 1, channels)
    return data, scale.astype(np.float32), bias.astype(np.float32)


def float_row(rule: FloatNorm, row: list[int]) -> list[int]:
    """Steps of the output, one float operation after the other."""
    count, total = len(row), sum(row)
    spread = count * sum(code * code for code in row) - total * total
    inverse = np.float32(1.0 / math.sqrt(spread + rule.epsilon)) if spread else np.float32(0)
    found = []
    for place, code in enumerate(row):
        value = np.float32(np.float32(count * code - total) * inverse)
        scaled = np.float32(value * rule.factor[place])
        found.append(round(float(np.float32(scaled + rule.offset[place]))))
    return found


def fixed_row(rule: FixedNorm, row: list[int]) -> list[int]:
    """Steps of the output, in whole numbers of any size."""
    count, total = len(row), sum(row)
    spread = count * sum(code * code for code in row) - total * total
    wide = spread * 2**16 + rule.epsilon
    found = []
    for place, code in enumerate(row):
        value = 0
        if spread:
            k = (62 - wide.bit_length()) // 2
            inverse = (2**61 - 1) // math.isqrt(math.floor(wide * Fraction(4) ** k))
            value = math.floor(Fraction((count * code - total) * inverse, 2 ** (31 - k)) + Fraction(1, 2))
        exact = value * int(rule.multiplier[place]) + int(rule.offset[place]) * 2**30
        found.append(math.floor(Fraction(exact, 2 ** int(rule.shift[place])) + Fraction(1, 2)))
    return found


@pytest.mark.parametrize("profile", ["onnx", "single"])
@pytest.mark.parametrize("channels", [1, 2, 3, 7, 40, 96, 1000])
def test_loops_over_numbers(channels: int, profile: Profile) -> None:
    for seed in range(6):
        data, scale, bias = case(seed, 3, channels)
        x, y = codes("x", data.shape, "uint8", 0.03, 99), codes("y", data.shape, "int8", 0.02, -11)
        rule = norm_rule(profile, x.scale, y.scale, scale, bias, 1e-5 * 30**seed)
        result = run(profile, x, y, scale, bias, 1e-5 * 30**seed, data)
        for row, made in zip(data.tolist(), result.tolist(), strict=True):
            steps = fixed_row(rule, row) if isinstance(rule, FixedNorm) else float_row(rule, row)
            assert made == [min(max(step - 11, -128), 127) for step in steps]


@given(
    st.integers(1, 40),
    st.floats(2.0**-12, 2.0, width=32),
    st.floats(2.0**-10, 0.125, width=32),
    st.floats(0, 1, width=32),
    st.integers(0, 99),
)
def test_the_real_numbers_rounded(
    channels: int, x_scale: float, y_scale: float, epsilon: float, seed: int
) -> None:
    """All profiles are within a hundredth of a code of what float64 gives."""
    data, scale, bias = case(seed, 2, channels)
    x, y = codes("x", data.shape, "uint8", x_scale, 7), codes("y", data.shape, "uint8", y_scale, 100)
    real = (data.astype(np.float64) - 7) * x_scale
    spread = np.sqrt(real.var(axis=1, keepdims=True) + epsilon)
    centred = real - real.mean(axis=1, keepdims=True)
    varies = np.ptp(data, axis=1, keepdims=True) > 0
    normal = np.where(varies, centred / np.where(varies, spread, 1.0), 0.0)
    wanted = np.clip((normal * scale + bias) / y_scale + 100, 0, 255)
    for profile in PROFILES:
        made = run(profile, x, y, scale, bias, epsilon, data)
        assert np.abs(made - wanted).max() < 0.5 + 1e-2


@given(
    st.integers(1, 40),
    st.floats(2.0**-12, 2.0, width=32),
    st.floats(2.0**-10, 0.125, width=32),
    st.floats(0, 1, width=32),
    st.integers(0, 255),
    st.integers(0, 99),
)
def test_the_real_numbers_around_0_rounded(
    channels: int, x_scale: float, y_scale: float, epsilon: float, zero_point: int, seed: int
) -> None:
    """Where the mean stays, rows have a mean square of 1."""
    data, scale, bias = case(seed, 2, channels)
    x, y = codes("x", data.shape, "uint8", x_scale, zero_point), codes("y", data.shape, "uint8", y_scale, 100)
    real = (data.astype(np.float64) - zero_point) * x_scale
    square = (real * real).mean(axis=1, keepdims=True)
    normal = real / np.sqrt(np.where(square > 0, square + epsilon, 1.0))
    wanted = np.clip((normal * scale + bias) / y_scale + 100, 0, 255)
    for profile in PROFILES:
        rule = norm_rule(profile, x_scale, y_scale, scale, bias, epsilon, centred=False)
        made = run_one(LayerNorm("n", (0,), (1,), rule, 0, 255, centred=False), (x, y), data)
        assert np.abs(made - wanted).max() < 0.5 + 1e-2


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("epsilon", [0.0, 1e-30, 1e-5, 10.0])
@pytest.mark.parametrize("code", [0, 3, 255])
def test_equal_codes_give_the_bias(code: int, epsilon: float, profile: Profile) -> None:
    for channels in (1, 5, 1 << 16):
        x, y = codes("x", (1, channels), "uint8", 0.5, 3), codes("y", (1, channels), "uint8", 0.25, 20)
        bias = np.full(channels, 1.5, np.float32)
        data = np.full((1, channels), code, np.uint8)
        result = run(profile, x, y, np.full(channels, 1e6, np.float32), bias, epsilon, data)
        assert set(result.reshape(-1).tolist()) == {26}


@pytest.mark.parametrize("profile", PROFILES)
def test_the_zero_point_of_the_input_does_not_count(profile: Profile) -> None:
    data, scale, bias = case(0, 4, 33)
    y = codes("y", data.shape, "uint8", 0.02, 128)
    results = []
    for zero_point in (0, 77, 255):
        x = codes("x", data.shape, "uint8", 0.03, zero_point)
        results.append(run(profile, x, y, scale, bias, 1e-5, data))
    signed = codes("x", data.shape, "int8", 0.03, -20)
    results.append(run(profile, signed, y, scale, bias, 1e-5, (data.astype(int) - 128).astype(np.int8)))
    assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_longest_rows_at_their_ends(profile: Profile) -> None:
    """The largest numbers on the way: one code of 255 among 0, and half of each."""
    channels = 1 << 16
    data = np.zeros((2, channels), np.uint8)
    data[0, 5], data[1, ::2] = 255, 255
    x, y = codes("x", data.shape, "uint8", 0.1, 0), codes("y", data.shape, "uint8", 1.9, 50)
    scale, bias = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    result = run(profile, x, y, scale, bias, 1e-6, data)
    assert result[0, 5] == 50 + round(math.sqrt(channels - 1) / 1.9)
    assert set(np.delete(result[0], 5).tolist()) == {50}
    assert set(result[1, ::2].tolist()) == {51} and set(result[1, 1::2].tolist()) == {49}


@pytest.mark.parametrize("profile", PROFILES)
def test_what_the_output_cannot_hold_saturates(profile: Profile) -> None:
    data = np.array([[0, 10, 20, 30]], np.uint8)
    x, y = codes("x", data.shape, "uint8", 1.0, 0), codes("y", data.shape, "int8", 1e-3, 0)
    scale = np.array([1, 1, 1e30, 1e30], np.float32) if profile == "onnx" else np.float32([1, 1, 1e6, 1e6])
    result = run(profile, x, y, scale, np.zeros(4, np.float32), 1e-5, data)
    assert result.tolist() == [[-128, -128, 127, 127]]
