"""Sums, products, tables: worked examples, all pairs of codes, and real arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_loops import codes, run_one, sums

from calib8.fixedpoint import encode_multiplier, multiply_double_rounding
from calib8.program.instructions import Add, AddSums, Lookup, Maximum, Minimum, Mul, Sub
from calib8.program.ops.rescale import rescale
from calib8.program.program import Slot
from calib8.program.rounding.linear import product_rule, sum_rule, sums_rescale, sums_rule
from calib8.program.rules import PROFILES, DequantizedSum, Profile, ScaledSum
from calib8.qparams import QParams

Array = npt.NDArray[Any]
A = codes("a", (5,), "int8", 0.05, -3)
B = codes("b", (5,), "int8", 0.031, 10)
Y = codes("y", (5,), "int8", 0.07, 5)
scales = st.floats(2.0**-6, 1.0, width=32)
points = st.integers(-128, 127)


def qparams(slot: Slot) -> QParams:
    return QParams(slot.scale, slot.zero_point)


def int8(*values: int) -> Array:
    return np.array(values, np.int8)


def all_pairs() -> tuple[Array, Array]:
    every = np.arange(-128, 128).astype(np.int8)
    return np.repeat(every, 256), np.tile(every, 256)


def add_step(profile: Profile, op: str, a: Slot, b: Slot, y: Slot) -> Add | Sub:
    kind = Add if op == "add" else Sub
    rule = sum_rule(profile, op, qparams(a), qparams(b), qparams(y))  # type: ignore[arg-type]
    return kind("sum", (0, 1), (2,), rule, -128, 127)


def test_add_as_tensorflow_lite_computes_it() -> None:
    pairs = int8(0, 100, -77, 127, -128), int8(0, -50, 33, 127, -128)
    step = add_step("tflite", "add", A, B, Y)
    assert run_one(step, [A, B, Y], *pairs).tolist() == [3, 52, -38, 127, -128]
    lhs, rhs = encode_multiplier(0.5), encode_multiplier(B.scale / (2 * A.scale))
    assert multiply_double_rounding([(0 + 3) << 20, (100 + 3) << 20], *lhs).tolist() == [1572864, 54001664]
    assert multiply_double_rounding([-10 << 20, -60 << 20], *rhs).tolist() == [-3250586, -19503513]


def test_add_as_xnnpack_computes_it() -> None:
    left, right = all_pairs()
    slots = [codes(slot.name, left.shape, "int8", slot.scale, slot.zero_point) for slot in (A, B, Y)]
    result = run_one(add_step("single", "add", A, B, Y), slots, left, right)
    acc = (left.astype(np.int64) + 3) * 1497966 + (right.astype(np.int64) - 10) * 928739
    np.testing.assert_array_equal(result, np.clip(((acc + (1 << 20)) >> 21) + 5, -128, 127))


@pytest.mark.parametrize("op", ["add", "sub"])
@pytest.mark.parametrize("profile", PROFILES)
@given(scales, scales, scales, points, points, points)
def test_sums_are_within_a_rounding_of_the_real_sum(
    profile: Profile, op: str, sa: float, sb: float, sy: float, za: int, zb: int, zy: int
) -> None:
    left, right = all_pairs()
    a, b, y = (
        codes(n, left.shape, "int8", s, z) for n, s, z in (("a", sa, za), ("b", sb, zb), ("y", sy, zy))
    )
    result = run_one(add_step(profile, op, a, b, y), [a, b, y], left, right).astype(np.float64)
    real_a, real_b = sa * (left.astype(np.float64) - za), sb * (right.astype(np.float64) - zb)
    exact = np.clip((real_a + real_b if op == "add" else real_a - real_b) / sy + zy, -128, 127)
    assert np.abs(result - exact).max() <= 0.52  # a half, and what 21-bit multipliers lose


@given(scales, scales, scales, points, points, points)
def test_subtracting_is_adding_the_negative(
    sa: float, sb: float, sy: float, za: int, zb: int, zy: int
) -> None:
    """One rounding of exact products: b and 2·z_b − b are negatives of each other."""
    left, right = np.arange(-60, 60).astype(np.int8), np.tile(np.arange(-20, 20), 3).astype(np.int8)
    zb //= 2
    mirrored = (2 * zb - right.astype(np.int16)).clip(-128, 127)
    kept = 2 * zb - right.astype(np.int16) == mirrored
    a, b, y = (codes(n, (120,), "int8", s, z) for n, s, z in (("a", sa, za), ("b", sb, zb), ("y", sy, zy)))
    minus = run_one(add_step("single", "sub", a, b, y), [a, b, y], left, right)
    plus = run_one(add_step("single", "add", a, b, y), [a, b, y], left, mirrored.astype(np.int8))
    np.testing.assert_array_equal(minus[kept], plus[kept])


def test_scaled_differences_round_each_side_before_subtracting() -> None:
    """b = 1 scales to 2^19 + 1/2, which rounds up; −b would round up to −2^19."""
    rule = ScaledSum(20, (1 << 30, 0), ((1 << 30) + (1 << 10), 0), (1 << 30, 1))
    slots = [codes(name, (1,), "int8") for name in "aby"]
    assert run_one(Sub("difference", (0, 1), (2,), rule, -128, 127), slots, int8(1), int8(1)) == -1
    assert run_one(Add("sum", (0, 1), (2,), rule, -128, 127), slots, int8(1), int8(-1)) == 0


@pytest.mark.parametrize("profile", PROFILES)
def test_the_clamp_of_a_sum_is_its_fused_activation(profile: Profile) -> None:
    step = add_step(profile, "add", A, B, Y)
    clamped = Add("sum", (0, 1), (2,), step.rule, 5, 50)
    pairs = int8(0, 100, -77, 127, -128), int8(0, -50, 33, 127, -128)
    assert run_one(clamped, [A, B, Y], *pairs).tolist() == [5, 50, 5, 50, 5]


def test_operands_broadcast() -> None:
    a, b = codes("a", (2, 1, 3)), codes("b", (4, 1))
    left, right = np.arange(6, dtype=np.uint8).reshape(2, 1, 3), np.arange(4, dtype=np.uint8).reshape(4, 1)
    y = codes("y", (2, 4, 3))
    rule = sum_rule("single", "add", QParams(1.0, 0), QParams(1.0, 0), QParams(1.0, 0))
    step = Add("sum", (0, 1), (2,), rule, 0, 255)
    np.testing.assert_array_equal(run_one(step, [a, b, y], left, right), left + right)
    np.testing.assert_array_equal(
        run_one(Maximum("larger", (0, 1), (2,)), [a, b, y], left, right), np.maximum(left, right)
    )
    np.testing.assert_array_equal(
        run_one(Minimum("smaller", (0, 1), (2,)), [a, b, y], left, right), np.minimum(left, right)
    )


def test_mul_as_tensorflow_lite_computes_it() -> None:
    y = codes("y", (4,), "int8", 0.12, 5)
    step = Mul("product", (0, 1), (2,), product_rule("tflite", A.scale, B.scale, y.scale), -128, 127)
    slots = [codes("a", (4,), "int8", 0.05, -3), codes("b", (4,), "int8", 0.031, 10), y]
    result = run_one(step, slots, int8(100, 60, 5, -128), int8(-50, 90, 6, 127))
    assert result.tolist() == [-75, 70, 5, -128]


@pytest.mark.parametrize("profile", PROFILES)
@given(scales, scales, scales, points, points, points)
def test_products_are_within_a_rounding_of_the_real_product(
    profile: Profile, sa: float, sb: float, sy: float, za: int, zb: int, zy: int
) -> None:
    left, right = all_pairs()
    a, b, y = (
        codes(n, left.shape, "int8", s, z) for n, s, z in (("a", sa, za), ("b", sb, zb), ("y", sy, zy))
    )
    step = Mul("product", (0, 1), (2,), product_rule(profile, sa, sb, sy), -128, 127)
    result = run_one(step, [a, b, y], left, right).astype(np.float64)
    real = sa * (left.astype(np.float64) - za) * sb * (right.astype(np.float64) - zb)
    allowed = 0.501 if profile != "tflite" else 0.76  # two roundings: a half and, before it, up to a quarter
    assert np.abs(result - np.clip(real / sy + zy, -128, 127)).max() <= allowed


def test_sums_and_codes_add_up_per_channel() -> None:
    """A layer's sums plus a tensor of codes, and the float form of ``onnx`` written out."""
    rng = np.random.default_rng(2)
    a = sums("a", (3, 4, 2), (0.001, 0.0003))
    b = codes("b", (3, 1, 1), "uint8", 0.02, 100)
    y = codes("y", (3, 4, 2), "uint8", 0.05, 120)
    left = rng.integers(-5000, 5000, a.shape).astype(np.int32)
    right = rng.integers(0, 256, b.shape).astype(np.uint8)
    real = left * a.scales.astype(np.float64) + b.scale * (right.astype(np.float64) - 100)
    expected = np.clip(real / y.scale + 120, 0, 255)
    for profile in PROFILES:
        rule = sums_rule(profile, a.scales, b.scales, y.scale)
        result = run_one(AddSums("sum", (0, 1), (2,), rule, 0, 255), [a, b, y], left, right)
        assert np.abs(result - expected).max() <= 0.501
    in_floats = run_one(AddSums("sum", (0, 1), (2,), None, 0, 255), [a, b, y], left, right)
    total = left.astype(np.float32) * a.scales + (right.astype(np.float32) - 100) * np.float32(0.02)
    np.testing.assert_array_equal(
        in_floats, np.clip(np.rint(total / np.float32(0.05)) + 120, 0, 255).astype(np.uint8)
    )


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 31), (1 << 31) - 1), scales, scales, scales)
def test_the_largest_sums_do_not_overflow(a: int, b: int, sa: float, sb: float, sy: float) -> None:
    rule = sums_rule("single", np.float32([sa]), np.float32([sb]), sy)
    assert rule is not None
    slots = [sums("a", (1,)), sums("b", (1,)), codes("y", (1,), "int8")]
    result = run_one(AddSums("sum", (0, 1), (2,), rule, -128, 127), slots, np.int32([a]), np.int32([b]))
    exact = Fraction(a * int(rule.lhs[0]) + b * int(rule.rhs[0]), 1 << int(rule.shift[0]))
    assert result[0] == min(max((exact + Fraction(1, 2)).__floor__(), -128), 127)


def test_dequantized_sums_of_infinite_parts_saturate() -> None:
    a, b, y = (codes(n, (3,), "uint8", 3e38, 0) for n in "aby")
    step = Sub("difference", (0, 1), (2,), DequantizedSum(3e38, 3e38, 1.0), 0, 255)
    left, right = np.uint8([200, 0, 200]), np.uint8([0, 200, 200])
    assert run_one(step, [a, b, y], left, right).tolist() == [255, 0, 0]  # the last is ∞ − ∞, lowest code


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_tables_start_at_the_lowest_code(dtype: str) -> None:
    info = np.iinfo(dtype)
    every = np.arange(info.min, info.max + 1).astype(dtype)
    table = every[::-1].copy()
    slots = [codes("x", (256,), dtype), codes("y", (256,), dtype)]
    assert run_one(Lookup("flip", (0,), (1,), table, "Flip"), slots, every).tolist() == table.tolist()


def test_tables_per_channel_belong_to_the_last_axis() -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(-128, 128, (3, 256)).astype(np.int8)
    x = rng.integers(0, 256, (2, 5, 3)).astype(np.uint8)
    slots = [codes("x", x.shape), codes("y", x.shape, "int8")]
    result = run_one(Lookup("function", (0,), (1,), table, "PRelu"), slots, x)
    for channel in range(3):
        np.testing.assert_array_equal(result[..., channel], table[channel, x[..., channel]])


@given(scales, scales, points, points)
def test_a_change_of_scale_as_tensorflow_lite_computes_it(sx: float, sy: float, zx: int, zy: int) -> None:
    """QUANTIZE int8 → int8: ``clip(M(q − z_x, s_x/s_y) + z_y)``."""
    every = np.arange(-128, 128)
    result = rescale(every - zx, sums_rescale("tflite", np.float32([sx]), sy), zy, -128, 127, "int8")
    assert np.abs(result - np.clip((every - zx) * (sx / sy) + zy, -128, 127)).max() <= 0.76
    same = rescale(every - zx, sums_rescale("tflite", np.float32([sx]), sx), zx, -128, 127, "int8")
    np.testing.assert_array_equal(same, every)
