"""Div and ReduceL2 of the reference: loops over Python's numbers, real numbers, divisors of 0."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from plain_loops import codes, run_one

from calib8.errors import UnsupportedModelError
from calib8.program.instructions import Div, ReduceL2
from calib8.program.rounding.quotient import length_rule, quotient_rule
from calib8.program.rules import PROFILES, FixedQuotient, FixedRescale, FloatQuotient, Profile

Array = npt.NDArray[Any]
EVERY = np.arange(256, dtype=np.uint8)


def divisors(scale: float, zero_point: int, epsilon: float = 0.0) -> npt.NDArray[np.float32]:
    real = (EVERY.astype(np.int64) - zero_point).astype(np.float32) * np.float32(scale)
    return np.asarray(real + np.float32(epsilon), np.float32)


def quotients(profile: Profile, numbers: npt.NDArray[np.float32], y_scale: float) -> Array:
    """All codes divided by all codes: int8 [256, 256], the left zero point 90, the result's −5."""
    rule = quotient_rule(profile, SCALE, numbers, y_scale)
    step = Div("quotient", (0, 1), (2,), rule, -128, 127)
    slots = (
        codes("a", (256, 1), "uint8", SCALE, 90),
        codes("b", (1, 256)),
        codes("y", (256, 256), "int8", y_scale, -5),
    )
    return run_one(step, slots, EVERY[:, None], EVERY[None])


SCALE = float(np.float32(0.03))


def float_steps(a: int, divisor: np.float32, y_scale: float) -> float:
    """One float32 operation after the other."""
    with np.errstate(all="ignore"):
        real = np.float32(np.float32(SCALE) * np.float32(a))
        value = np.float32(np.float32(real / divisor) / np.float32(y_scale))
    return -math.inf if math.isnan(value) else float(np.rint(value))


def fixed_steps(rule: FixedQuotient, a: int, b: int) -> int:
    """In whole numbers of any size."""
    exact = Fraction(a * int(rule.multiplier[b]), 1) * Fraction(2) ** (int(rule.shift[b]) - 31)
    return math.floor(exact + Fraction(1, 2))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("scale, zero, epsilon, y_scale", [
    (0.02, 0, 0.0, 0.05), (0.02, 128, 1e-6, 0.01), (1.0, 255, 0.5, 0.001), (1e-6, 7, 0.0, 30.0),
])  # fmt: skip
def test_loops_over_numbers(
    profile: Profile, scale: float, zero: int, epsilon: float, y_scale: float
) -> None:
    y_scale, numbers = float(np.float32(y_scale)), divisors(scale, zero, epsilon)
    rule, made = quotient_rule(profile, SCALE, numbers, y_scale), quotients(profile, numbers, y_scale)
    for a in (0, 1, 60, 89, 90, 91, 120, 255):
        for b in range(256):
            if isinstance(rule, FixedQuotient):
                steps: float = fixed_steps(rule, a - 90, b)
            else:
                steps = float_steps(a - 90, numbers[b], y_scale)
            assert made[a, b] == min(max(steps - 5, -128), 127), (a, b)


@pytest.mark.parametrize("profile", PROFILES)
def test_real_quotients_are_rounded_to_the_nearest_code(profile: Profile) -> None:
    """Half a code off at most, and a little of float32 or of 31 bits."""
    numbers, y_scale = divisors(0.02, 40), float(np.float32(0.011))
    made = quotients(profile, numbers, y_scale).astype(np.float64) + 5
    for b in (b for b in range(256) if b != 40):
        exact = np.clip((EVERY - 90.0) * SCALE / numbers[b].astype(np.float64) / y_scale, -123, 132)
        assert np.abs(made[:, b] - exact).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("profile", PROFILES)
def test_divisors_of_0(profile: Profile) -> None:
    """Zeros of both signs, and one that no multiplier can hold."""
    numbers = divisors(0.02, 0)
    numbers[:3] = 0.0, -0.0, 1e-38
    made = quotients(profile, numbers, 0.05)
    assert made[91, 0] == made[255, 0] == made[91, 2] == 127
    assert made[89, 0] == made[0, 0] == made[89, 2] == -128
    assert made[91, 1] == -128 and made[89, 1] == 127
    assert list(made[90, :2]) == ([-128, -128] if profile == "onnx" else [-5, -5])
    assert made[90, 2] == -5


def test_an_infinite_divisor_gives_0() -> None:
    for profile in PROFILES:
        numbers = divisors(0.02, 0, 1.0)
        numbers[9] = np.inf
        assert set(quotients(profile, numbers, 0.05)[:, 9].tolist()) == {-5}


def test_profiles_have_rules_of_their_own() -> None:
    numbers = divisors(0.02, 0, 1.0)
    assert isinstance(quotient_rule("onnx", 0.5, numbers, 0.25), FloatQuotient)
    rules = [quotient_rule(profile, 0.5, numbers, 0.25) for profile in ("tflite", "single")]
    assert all(isinstance(rule, FixedQuotient) for rule in rules)


def lengths(profile: Profile, data: Array, x_scale: float, y_scale: float) -> Array:
    """Of the rows of codes with zero point 100; uint8 codes of zero point 3."""
    rule = length_rule(profile, x_scale, y_scale)
    step = ReduceL2("length", (0,), (1,), (1,), rule, 0, 255)
    slots = codes("x", data.shape, "uint8", x_scale, 100), codes("y", data.shape[:1], "uint8", y_scale, 3)
    return run_one(step, slots, data)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("count", [1, 2, 3, 50, 3136])
def test_lengths(profile: Profile, count: int) -> None:
    """Against roots of whole numbers: R = ⌊sqrt(S·4^k)⌋ by Python's integers."""
    rng = np.random.default_rng(count)
    data = rng.integers(0, 256, (20, count)).astype(np.uint8)
    data[0], data[1] = 100, 101
    x_scale, y_scale = float(np.float32(0.02)), float(np.float32(0.02 * 70 * count**0.5 / 130))
    rule, made = length_rule(profile, x_scale, y_scale), lengths(profile, data, x_scale, y_scale)
    for row, code in zip(data.tolist(), made.tolist(), strict=True):
        squares = sum((one - 100) ** 2 for one in row)
        if isinstance(rule, FixedRescale):
            k = 0 if squares == 0 else (62 - squares.bit_length()) // 2
            root = Fraction(math.isqrt(squares * 4**k) * int(rule.multiplier[0]))
            steps = math.floor(root * Fraction(2) ** (int(rule.shift[0]) - 31 - k) + Fraction(1, 2))
        else:
            steps = round(float(np.float32(math.sqrt(squares)) * rule.factor[0]))
        assert code == min(max(steps + 3, 0), 255)
        assert abs(code - 3 - min(math.sqrt(squares) * x_scale / y_scale, 252)) <= 0.5001


def test_what_is_far_below_a_code_is_0() -> None:
    for profile in PROFILES:
        assert lengths(profile, np.full((1, 4), 101, np.uint8), 1e-9, 1.0).tolist() == [3]


def test_a_factor_beyond_every_multiplier() -> None:
    with pytest.raises(UnsupportedModelError, match="ReduceL2"):
        length_rule("single", 1.0, 1e-12)
