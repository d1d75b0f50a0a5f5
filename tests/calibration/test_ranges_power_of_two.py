"""Power-of-two scales: exact exponents, everything reached, no smaller scale does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib8.calibration.ranges.power_of_two import power_of_two
from calib8.qparams import (
    FLOAT32_MAX,
    FLOAT32_TINY,
    INT8,
    INT8_SYMMETRIC,
    UINT8,
    QuantSpec,
    activation_qparams,
    representable_range,
)
from calib8.table import Range

ASYMMETRIC = [UINT8, INT8, QuantSpec(4), QuantSpec(16, signed=True)]
SYMMETRIC = [INT8_SYMMETRIC, QuantSpec(4, signed=True, symmetric=True)]
bounds = st.floats(-(2.0**100), 2.0**100).filter(lambda x: x == 0 or abs(x) > 2.0**-90)
ranges = st.lists(bounds, min_size=2, max_size=2).map(sorted).filter(lambda pair: pair[0] < pair[1])


def is_power_of_two(scale: float) -> bool:
    return math.frexp(scale)[0] == 0.5


@pytest.mark.parametrize(
    ("largest", "exponent"), [(1.0, -7), (1.0000001, -6), (0.99, -7), (0.5, -8), (6.0, -4), (128.0, 0)]
)
def test_symmetric_vectors(largest: float, exponent: int) -> None:
    chosen = power_of_two(Range(-largest, largest / 2), INT8_SYMMETRIC)
    assert chosen == Range(-127 * 2.0**exponent, 127 * 2.0**exponent)


def test_asymmetric_vectors() -> None:
    assert power_of_two(Range(0.0, 255 / 128), UINT8) == Range(0.0, 255 / 128)
    assert power_of_two(Range(0.0, 1.9922), UINT8) == Range(0.0, 255 / 64)
    assert power_of_two(Range(-6.0, 0.0), UINT8) == Range(-255 / 32, 0.0)
    assert power_of_two(Range(-1.0, 1.0), INT8) == Range(-127 / 64, 2.0)
    assert power_of_two(Range(-1.0, 127 / 128), INT8) == Range(-1.0, 127 / 128)
    assert power_of_two(Range(2.0, 3.0), UINT8) == Range(0.0, 255 / 64)


@pytest.mark.parametrize("spec", SYMMETRIC)
@given(pair=ranges)
def test_symmetric_scales(spec: QuantSpec, pair: list[float]) -> None:
    chosen = power_of_two(Range(*pair), spec)
    scale = activation_qparams(chosen.min, chosen.max, spec).scale
    assert is_power_of_two(scale)
    assert chosen.max == -chosen.min == scale * (spec.magnitude_levels - 1)
    magnitude = max(abs(pair[0]), abs(pair[1]))
    assert scale * spec.magnitude_levels / 2 < magnitude <= scale * spec.magnitude_levels


@pytest.mark.parametrize("spec", ASYMMETRIC)
@given(pair=ranges)
def test_asymmetric_scales(spec: QuantSpec, pair: list[float]) -> None:
    chosen = power_of_two(Range(*pair), spec)
    qparams = activation_qparams(chosen.min, chosen.max, spec)
    assert is_power_of_two(qparams.scale)
    assert representable_range(qparams, spec) == (chosen.min, chosen.max)
    low, high = min(pair[0], 0.0), max(pair[1], 0.0)
    assert chosen.min <= low and high <= chosen.max
    half = qparams.scale / 2
    needed = math.ceil(-low / half) + math.ceil(high / half)
    assert needed > spec.qmax - spec.qmin, "half the scale would do"
    assert (chosen.min == 0.0) == (low == 0.0) and (chosen.max == 0.0) == (high == 0.0)


@pytest.mark.parametrize("spec", ASYMMETRIC + SYMMETRIC)
@given(pair=ranges)
def test_twice_is_once(spec: QuantSpec, pair: list[float]) -> None:
    once = power_of_two(Range(*pair), spec)
    assert power_of_two(once, spec) == once


@pytest.mark.parametrize("spec", ASYMMETRIC + SYMMETRIC)
def test_the_ends_of_float32(spec: QuantSpec) -> None:
    assert power_of_two(Range(0.0, 0.0), spec) == Range(0.0, 0.0)
    for pair in ((0.0, FLOAT32_MAX), (-FLOAT32_MAX, 0.0), (-FLOAT32_MAX, FLOAT32_MAX), (-3e38, 1.0)):
        chosen = power_of_two(Range(*pair), spec)
        scale = activation_qparams(chosen.min, chosen.max, spec).scale
        assert is_power_of_two(scale)
        assert chosen.magnitude > 0.4 * max(abs(bound) for bound in pair)
    smallest = power_of_two(Range(0.0, 200 * FLOAT32_TINY), INT8)
    assert smallest == Range(0.0, 255 * FLOAT32_TINY)
