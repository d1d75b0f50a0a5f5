"""GroupNorm of the reference: loops over Python's numbers, real numbers, groups without spread."""

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

from calib8.program.instructions import GroupNorm
from calib8.program.program import Slot
from calib8.program.rounding.group_norm import group_norm_rule
from calib8.program.rules import PROFILES, FixedGroupNorm, FloatGroupNorm, GroupNormRule, Profile
from slow_cases import slow_but

Array = npt.NDArray[Any]


def rule_of(profile: Profile, groups: int, x: Slot, y: Slot, parameters: tuple[Array, Array, float]) -> Any:
    count = math.prod(x.shape[1:]) // groups
    return group_norm_rule(profile, count, x.scale, y.scale, *parameters)


def run(groups: int, rule: GroupNormRule, x: Slot, y: Slot, data: Array) -> Array:
    ends = np.iinfo(y.dtype)
    return run_one(GroupNorm("n", (0,), (1,), groups, rule, int(ends.min), int(ends.max)), (x, y), data)


def case(seed: int, shape: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Codes, scale and bias."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, shape).astype(np.uint8)
    if seed % 3 == 1:  # close together
        data = (data // 64 + 100).astype(np.uint8)
    scale, bias = rng.normal(0, 1.5, shape[-1]), rng.normal(0, 1, shape[-1])
    return data, scale.astype(np.float32), bias.astype(np.float32)


def half_up(exact: Fraction) -> int:
    return math.floor(exact + Fraction(1, 2))


def float_codes(rule: FloatGroupNorm, group: list[int], channels: list[int]) -> list[int]:
    """Steps of the output, one float operation after the other."""
    count, total = len(group), sum(group)
    spread = count * sum(code * code for code in group) - total * total
    centre = half_up(Fraction(total, count))
    inverse = 1.0 / math.sqrt(spread + rule.epsilon) if spread else 0.0
    found = []
    for code, channel in zip(group, channels, strict=True):
        factor, offset = float(rule.factor[channel]), float(rule.offset[channel])
        a = np.float32(count * inverse * factor)
        b = np.float32(offset - (total - count * centre) * inverse * factor)
        found.append(round(float(np.float32(np.float32(np.float32(code - centre) * a) + b))))
    return found


def fixed_codes(rule: FixedGroupNorm, group: list[int], channels: list[int]) -> list[int]:
    """Steps of the output, in whole numbers of any size."""
    count, total = len(group), sum(group)
    spread = count * sum(code * code for code in group) - total * total
    centre, bits = half_up(Fraction(total, count)), min(16, 48 - 2 * math.ceil(math.log2(count)))
    gain, places = 0, 0
    if spread:
        wide = spread * 2**bits + rule.epsilon
        k = (62 - wide.bit_length()) // 2
        product = count * ((2**61 - 1) // math.isqrt(math.floor(wide * Fraction(4) ** k)))
        left = product.bit_length() - 31
        gain, places = product >> left, 61 - bits // 2 - k - left
    part = half_up(Fraction((total - count * centre) * 2**22, count))
    found = []
    for code, channel in zip(group, channels, strict=True):
        factor = Fraction(gain * int(rule.multiplier[channel])) / Fraction(2) ** (
            places + int(rule.multiplier_shift[channel])
        )
        right = places + int(rule.multiplier_shift[channel]) - 41 if factor else 30
        offset = Fraction(int(rule.offset[channel]), 2 ** int(rule.offset_shift[channel]))
        shift = min(right, int(rule.offset_shift[channel]) - 2 if offset else 30, 30)
        assert shift >= 1, "a case for the ends"
        a, b = half_up(factor * 2**shift), half_up(offset * 2**shift)
        b -= half_up(Fraction(part * a, 2**22))
        found.append(half_up(Fraction((code - centre) * a + b, 2**shift)))
    return found


@pytest.mark.parametrize("profile", ["onnx", "single"])
@pytest.mark.parametrize(("shape", "groups"), [
    ((2, 3, 5, 4), 4), ((1, 1, 1, 6), 2), ((2, 7, 2, 6), 1), ((1, 9, 11, 8), 2), ((1, 1, 1, 1), 1),
])  # fmt: skip
def test_loops_over_numbers(shape: tuple[int, ...], groups: int, profile: Profile) -> None:
    size = shape[3] // groups
    for seed in range(6):
        data, scale, bias = case(seed, shape)
        x, y = codes("x", shape, "uint8", 0.03, 99), codes("y", shape, "int8", 0.02, -11)
        rule = rule_of(profile, groups, x, y, (scale, bias, 1e-5 * 30**seed))
        result = run(groups, rule, x, y, data)
        for image in range(shape[0]):
            for first in range(0, shape[3], size):
                group = data[image, ..., first : first + size].reshape(-1).tolist()
                channels = list(range(first, first + size)) * (shape[1] * shape[2])
                make = fixed_codes if isinstance(rule, FixedGroupNorm) else float_codes
                wanted = [min(max(step - 11, -128), 127) for step in make(rule, group, channels)]
                assert result[image, ..., first : first + size].reshape(-1).tolist() == wanted


@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.floats(2.0**-12, 2.0, width=32),
    st.floats(2.0**-10, 0.125, width=32),
    st.floats(0, 1, width=32),
    st.integers(0, 99),
)
def test_the_real_numbers_rounded(
    side: int, groups: int, x_scale: float, y_scale: float, epsilon: float, seed: int
) -> None:
    """All profiles are within a hundredth of a code of what float64 gives."""
    shape = (2, side, 3, 3 * groups)
    data, scale, bias = case(seed, shape)
    x, y = codes("x", shape, "uint8", x_scale, 7), codes("y", shape, "uint8", y_scale, 100)
    real = ((data.astype(np.float64) - 7) * x_scale).reshape(2, side * 3, groups, 3)
    spread = np.sqrt(real.var(axis=(1, 3), keepdims=True) + epsilon)
    centred = real - real.mean(axis=(1, 3), keepdims=True)
    varies = np.ptp(real, axis=(1, 3), keepdims=True) > 0
    normal = np.where(varies, centred / np.where(varies, spread, 1.0), 0.0).reshape(shape)
    wanted = np.clip((normal * scale + bias) / y_scale + 100, 0, 255)
    for profile in PROFILES:
        made = run(groups, rule_of(profile, groups, x, y, (scale, bias, epsilon)), x, y, data)
        assert np.abs(made - wanted).max() < 0.5 + 1e-2


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("epsilon", [0.0, 1e-30, 1e-5, 10.0])
@pytest.mark.parametrize("code", [0, 3, 255])
def test_equal_codes_give_the_bias(code: int, epsilon: float, profile: Profile) -> None:
    for shape in ((1, 1, 1, 2), (1, 300, 300, 2)):
        x, y = codes("x", shape, "uint8", 0.5, 3), codes("y", shape, "uint8", 0.25, 20)
        parameters = np.full(2, 1e6, np.float32), np.full(2, 1.5, np.float32), epsilon
        result = run(1, rule_of(profile, 1, x, y, parameters), x, y, np.full(shape, code, np.uint8))
        assert set(result.reshape(-1).tolist()) == {26}


@pytest.mark.parametrize("profile", PROFILES)
def test_the_zero_point_of_the_input_does_not_count(profile: Profile) -> None:
    shape = (1, 3, 4, 6)
    data, scale, bias = case(0, shape)
    y = codes("y", shape, "uint8", 0.02, 128)
    results = []
    for zero_point in (0, 77, 255):
        x = codes("x", shape, "uint8", 0.03, zero_point)
        results.append(run(2, rule_of(profile, 2, x, y, (scale, bias, 1e-5)), x, y, data))
    assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize("profile", slow_but(["single"], PROFILES))
def test_the_largest_groups_at_their_ends(profile: Profile) -> None:
    """The largest numbers on the way: one code of 255 among 0, and half of each."""
    shape = (2, 2048, 4096, 1)
    data = np.zeros(shape, np.uint8)
    data[0, 7, 5], data[1, ::2] = 255, 255
    x, y = codes("x", shape, "uint8", 0.1, 0), codes("y", shape, "uint8", 30, 50)
    parameters = np.ones(1, np.float32), np.zeros(1, np.float32), 1e-12
    result = run(1, rule_of(profile, 1, x, y, parameters), x, y, data)
    assert result[0, 7, 5, 0] == 50 + round(math.sqrt(2**23 - 1) / 30)
    result[0, 7, 5] = 50
    assert set(np.unique(result[0])) == {50} and set(np.unique(result[1])) == {50}


@pytest.mark.parametrize("profile", PROFILES)
def test_what_the_output_cannot_hold_saturates(profile: Profile) -> None:
    data = np.array([0, 10, 20, 30], np.uint8).reshape(1, 4, 1, 1).repeat(3, axis=3)
    x, y = codes("x", data.shape, "uint8", 1.0, 0), codes("y", data.shape, "int8", 1e-3, 0)
    parameters = np.float32([1, -1e5, 0]), np.float32([0, 0, -1e5]), 1e-5
    result = run(3, rule_of(profile, 3, x, y, parameters), x, y, data)
    rows = [[-128, 127, -128], [-128, 127, -128], [127, -128, -128], [127, -128, -128]]
    assert result.reshape(4, 3).tolist() == rows
