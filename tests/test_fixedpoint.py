"""Fixed-point arithmetic: worked examples, and every function against Python's integers and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib8.fixedpoint import (
    INT32_MAX,
    INT32_MIN,
    MAX_SHIFT,
    MIN_SHIFT,
    encode_multiplier,
    encode_multipliers,
    multiply_double_rounding,
    multiply_rounding_away,
    multiply_single_rounding,
    rounding_divide_by_power_of_two,
    rounding_doubling_high_multiply,
)

int32s = st.integers(INT32_MIN, INT32_MAX)
multipliers = st.integers(1 << 30, INT32_MAX)
shifts = st.integers(MIN_SHIFT, MAX_SHIFT)


def half_up(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


def half_away(value: Fraction) -> int:
    return half_up(value) if value >= 0 else -half_up(-value)


def saturated(value: int) -> int:
    return min(max(value, INT32_MIN), INT32_MAX)


@pytest.mark.parametrize(
    ("factor", "multiplier", "shift"),
    [
        (0.0, 0, 0),
        (0.5, 1073741824, 0),
        (1.0, 1073741824, 1),
        (1.5, 1610612736, 1),
        (0.75, 1610612736, 0),
        (0.12, 2061584302, -3),
        (0.012, 1649267442, -6),
        (float(np.float32(0.012)), 1649267456, -6),
        (1 - 2.0**-40, 1073741824, 1),  # rounds up to 2^31, which needs the next exponent
        (1 - 2.0**-33, 1073741824, 1),
        (2.0**-32, 1073741824, -31),
        (2.0**-33, 0, 0),
        (3.99, 2142114939, 2),
        (2.0**30 - 1, 2147483646, 30),
    ],
)
def test_encoded_multipliers(factor: float, multiplier: int, shift: int) -> None:
    assert encode_multiplier(factor) == (multiplier, shift)


@pytest.mark.parametrize("factor", [-0.5, math.nan, math.inf, 2.0**30, 1e30])
def test_factors_that_no_multiplier_holds(factor: float) -> None:
    with pytest.raises(ValueError, match="multiplier"):
        encode_multiplier(factor)


@given(st.floats(2.0**-32, 2.0**30, exclude_max=True))
def test_an_encoded_factor_is_the_nearest_of_its_exponent(factor: float) -> None:
    if factor > 2.0**30 * (1 - 2.0**-32):
        return  # rounds up to 2^30, which is too large
    multiplier, shift = encode_multiplier(factor)
    assert 1 << 30 <= multiplier <= INT32_MAX and MIN_SHIFT <= shift <= MAX_SHIFT
    error = Fraction(multiplier) * Fraction(2) ** (shift - 31) - Fraction(factor)
    assert abs(error) <= Fraction(2) ** (shift - 32)


def test_factors_are_encoded_elementwise() -> None:
    multiplier, shift = encode_multipliers(np.array([0.5, 0.012, 0.0]))
    assert multiplier.dtype == shift.dtype == np.int32
    assert multiplier.tolist() == [1073741824, 1649267442, 0] and shift.tolist() == [0, -6, 0]


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        (-1, 1 << 30, 0),  # −0.5: ties go up on both sides of zero
        (-3, 1 << 30, -1),
        (1, 1 << 30, 1),
        (INT32_MIN, INT32_MIN, INT32_MAX),
        (100, 1649267456, 77),
        (208, 1649267442, 160),
    ],
)
def test_high_multiplication(a: int, b: int, result: int) -> None:
    assert rounding_doubling_high_multiply(a, b) == result


@given(int32s, int32s)
def test_high_multiplication_is_what_gemmlowp_computes(a: int, b: int) -> None:
    product = a * b
    nudged = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
    truncated = abs(nudged) >> 31
    expected = INT32_MAX if a == b == INT32_MIN else (truncated if nudged >= 0 else -truncated)
    assert rounding_doubling_high_multiply(a, b) == expected
    assert expected == saturated(half_up(Fraction(product, 1 << 31)))


@pytest.mark.parametrize(
    ("x", "exponent", "result"), [(-3, 1, -2), (3, 1, 2), (-5, 2, -1), (-2, 2, -1), (2, 2, 1), (-7, 0, -7)]
)
def test_division_by_a_power_of_two(x: int, exponent: int, result: int) -> None:
    assert rounding_divide_by_power_of_two(x, exponent) == result


@given(int32s, st.integers(0, 31))
def test_division_by_a_power_of_two_rounds_ties_away(x: int, exponent: int) -> None:
    assert rounding_divide_by_power_of_two(x, exponent) == half_away(Fraction(x, 1 << exponent))


@given(int32s, multipliers, shifts)
def test_double_rounding_is_its_definition(x: int, multiplier: int, shift: int) -> None:
    left, right = max(shift, 0), max(-shift, 0)
    high = half_up(Fraction(saturated(x << left) * multiplier, 1 << 31))
    assert multiply_double_rounding(x, multiplier, shift) == half_away(Fraction(high, 1 << right))


@given(int32s, multipliers, shifts)
def test_one_rounding_is_exact_but_for_ties(x: int, multiplier: int, shift: int) -> None:
    exact = Fraction(x * multiplier) * Fraction(2) ** (shift - 31)
    assert multiply_single_rounding(x, multiplier, shift) == half_up(exact)
    assert multiply_rounding_away(x, multiplier, shift) == half_away(exact)


@given(st.lists(int32s, min_size=3, max_size=3), multipliers, shifts)
def test_channels_broadcast_against_the_last_axis(x: list[int], multiplier: int, shift: int) -> None:
    per_channel = (np.array([multiplier, 1 << 30, 0]), np.array([shift, -5, 0]))
    for function in (multiply_double_rounding, multiply_single_rounding, multiply_rounding_away):
        together = function(np.array([x, x]), *per_channel)
        alone = [int(function(value, m, e)) for value, m, e in zip(x, *per_channel, strict=True)]
        assert together.tolist() == [alone, alone] and together.dtype == np.int64


def test_a_left_shift_saturates_instead_of_wrapping() -> None:
    """A wrapped shift would turn the largest sums into zeros."""
    x = np.array([1 << 29, -(1 << 29), 3 << 28])
    assert multiply_double_rounding(x, 1 << 30, 3).tolist() == [1 << 30, -(1 << 30), 1 << 30]


@pytest.mark.parametrize(
    ("x", "result", "floored"), [(100, 1, 1), (42, 1, 0), (-100, -1, -2), (125, 2, 1), (1000, 12, 12)]
)
def test_a_plain_shift_would_floor(x: int, result: int, floored: int) -> None:
    multiplier, shift = encode_multiplier(float(np.float32(0.012)))
    assert multiply_double_rounding(x, multiplier, shift) == result
    assert rounding_doubling_high_multiply(x, multiplier) >> -shift == floored


def test_two_roundings_can_be_wrong_by_one() -> None:
    """208 · 0.012 = 2.496; the first rounding makes it 160/64 = 2.5."""
    multiplier, shift = encode_multiplier(0.012)
    assert multiply_double_rounding(208, multiplier, shift) == 3
    assert multiply_single_rounding(208, multiplier, shift) == 2


def test_how_often_two_roundings_differ_from_one() -> None:
    multiplier, shift = encode_multiplier(0.0037)
    x = np.arange(-100_000, 100_001)
    single = multiply_single_rounding(x, multiplier, shift)
    assert (multiply_double_rounding(x, multiplier, shift) != single).mean() == pytest.approx(0.002, rel=0.2)
    in_float32 = np.rint(x.astype(np.float32) * np.float32(0.0037))
    assert (in_float32 != single).mean() < 0.0002


def test_large_sums_are_not_exact_in_float32() -> None:
    assert np.int32(16777217).astype(np.float32) == 16777216


@given(int32s, st.integers(1, 30))
def test_power_of_two_scales_are_multipliers_of_two_to_the_thirty(acc: int, right: int) -> None:
    """CMSIS-NN's q7 form: ``(acc + (1 << (right − 1))) >> right``."""
    multiplier, shift = encode_multiplier(2.0**-right)
    assert (multiplier, shift) == (1 << 30, 1 - right)
    assert multiply_single_rounding(acc, multiplier, shift) == (acc + (1 << (right - 1))) >> right


@given(int32s, multipliers, st.integers(MIN_SHIFT, -1))
def test_a_floored_product_and_a_rounding_shift_are_one_rounding(x: int, multiplier: int, shift: int) -> None:
    """NEON's form: VQDMULH floors, VRSHL rounds half up; needs a right shift of 1 at least."""
    floored = (x * multiplier) >> 31
    assert multiply_single_rounding(x, multiplier, shift) == (floored + (1 << (-shift - 1))) >> -shift


@given(st.integers(-(1 << 62), (1 << 62) - 1), st.integers(1, 62))
def test_an_arithmetic_shift_from_a_logical_one(value: int, right: int) -> None:
    """AVX2 lacks the 64-bit arithmetic shift: ``v >> t = ((v xor 2^63) >>> t) − 2^(63 − t)``."""
    flipped = np.array([value], np.int64).view(np.uint64) ^ np.uint64(1 << 63)
    logical = (flipped >> np.uint64(right)).view(np.int64) - np.int64(1 << (63 - right))
    assert logical[0] == value >> right
