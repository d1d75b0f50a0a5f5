"""Tables: TFLite's worked examples and recipes as scalar loops, exact roundings, the float32 path."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from plain_loops import codes

from calib8.program.expressions import Apply, Constant, Expression, Source
from calib8.program.program import Slot
from calib8.program.rounding.tables import table
from calib8.program.rules import PROFILES, Profile

scales = st.floats(2.0**-10, 1.0, width=32)
dtypes = st.sampled_from(["uint8", "int8"])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Slot, Slot]:
    slots = []
    for name in ("x", "y"):
        dtype = draw(dtypes)
        info = np.iinfo(dtype)
        slots.append(codes(name, (4,), dtype, draw(scales), draw(st.integers(info.min, info.max))))
    return slots[0], slots[1]


def steps_of(slot: Slot) -> list[int]:
    info = np.iinfo(slot.dtype)
    return [code - slot.zero_point for code in range(info.min, info.max + 1)]


def stored(slot: Slot, steps: float) -> int:
    info = np.iinfo(slot.dtype)
    return int(min(max(steps + slot.zero_point, info.min), info.max))


def encode(factor: float) -> tuple[int, int]:
    fraction, shift = math.frexp(factor)
    multiplier = math.floor(fraction * 2**31 + 0.5)
    return (2**30, shift + 1) if multiplier == 2**31 else (multiplier, shift)


def high_multiply(a: int, b: int) -> int:
    return (a * b + 2**30) >> 31


def divide_by_power(x: int, exponent: int) -> int:
    magnitude = (abs(x) + (1 << exponent >> 1)) >> exponent
    return magnitude if x >= 0 else -magnitude


def double_rounding(x: int, factor: float) -> int:
    """TFLite's MultiplyByQuantizedMultiplier."""
    multiplier, shift = encode(factor)
    return divide_by_power(high_multiply(x << max(shift, 0), multiplier), max(-shift, 0))


def apply(op: str, **attributes: float) -> Apply:
    return Apply(op, (Source(),), attributes)


def test_logistic_and_tanh_of_tflite() -> None:
    x = codes("x", (1,), "int8", 0.05, 0)
    steps = np.array([-120, -40, -1, 0, 1, 40, 120]) + 128
    logistic = table("tflite", apply("Sigmoid"), x, codes("y", (1,), "int8", 1 / 256, -128))
    assert logistic[steps].tolist() == [-127, -97, -3, 0, 3, 97, 127]
    tanh = table("tflite", apply("Tanh"), x, codes("y", (1,), "int8", 1 / 128, 0))
    assert tanh[steps].tolist() == [-128, -123, -6, 0, 6, 123, 127]


@given(pairs())
def test_change_of_scale_of_tflite(slots: tuple[Slot, Slot]) -> None:
    x, y = slots
    expected = [stored(y, double_rounding(d, x.scale / y.scale)) for d in steps_of(x)]
    assert table("tflite", Source(), x, y).tolist() == expected


@given(pairs(), st.sampled_from([(0.0, math.inf), (0.0, 6.0), (-1.0, 1.0)]))
def test_stand_alone_relus_of_tflite(slots: tuple[Slot, Slot], bounds: tuple[float, float]) -> None:
    x, y = slots
    factor = float(np.float32(x.scale) / np.float32(y.scale))
    low, high = (stored(y, _half_away(b / y.scale)) if math.isfinite(b) else 255 for b in bounds)
    expected = [min(max(stored(y, double_rounding(d, factor)), low), high) for d in steps_of(x)]
    clip = apply("Clip", min=bounds[0], max=bounds[1])
    assert table("tflite", clip, x, y).tolist() == expected
    if bounds == (0.0, math.inf):
        assert table("tflite", apply("Relu"), x, y).tolist() == expected


def _half_away(value: float) -> int:
    return int(math.copysign(math.floor(abs(float(np.float32(value))) + 0.5), value))


def test_relu6_of_tflite() -> None:
    x = codes("x", (1,), "int8", 0.05, -20)
    result = table("tflite", apply("Clip", min=0.0, max=6.0), x, x)
    assert (result.min(), result.max()) == (-20, 100)


@given(pairs(), st.sampled_from([0.01, 0.1, 0.3, -0.2]))
def test_leaky_relu_of_tflite(slots: tuple[Slot, Slot], alpha: float) -> None:
    x, y = slots
    identity = float(np.float32(x.scale) / np.float32(y.scale))
    slope = float(np.float32(x.scale) * np.float32(alpha) / np.float32(y.scale))
    sign = 1 if alpha > 0 else -1
    expected = [
        stored(y, double_rounding(d, identity) if d >= 0 else sign * double_rounding(d, abs(slope)))
        for d in steps_of(x)
    ]
    assert table("tflite", apply("LeakyRelu", alpha=alpha), x, y).tolist() == expected
    one_slope = Apply("PRelu", (Source(), Constant(np.array([alpha], np.float32))))
    assert table("tflite", one_slope, x, y).tolist() == expected


@given(pairs())
@example((codes("x", (4,), "uint8", 2.0**-10, 108), codes("y", (4,), "int8", 0.7903581, 37)))
def test_hard_swish_of_tflite(slots: tuple[Slot, Slot]) -> None:
    x, y = slots
    result = table("tflite", apply("HardSwish"), x, y).tolist()
    if x.scale / y.scale < 127:
        assert result == [stored(y, _hard_swish(d, x.scale, y.scale)) for d in steps_of(x)]


def _hard_swish(step: int, x_scale: float, y_scale: float) -> int:
    """TFLite's recipe with plain integers."""
    fine = np.float32(x_scale) / np.float32(128)
    out, out_shift = encode(float(fine / np.float32(y_scale)))
    relu, relu_shift = encode(float(fine / np.float32(3 / 32768)))
    out16, relu16 = (min((m + 2**15) >> 16, 32767) for m in (out, relu))
    value = step * 128
    scaled = (value * out16 + 2**14) >> 15
    gate = value if relu_shift <= 0 else max(min(value << (relu_shift - 1), 32767), -32768)
    gate = (gate * relu16 + 2**14) >> 15
    gate = max(min(gate * 2, 32767), -32768) if relu_shift > 0 else _divide16(gate, -relu_shift)
    return _divide16(int(((gate + 32768) >> 1) * scaled / 2**15), -out_shift)


def _divide16(value: int, exponent: int) -> int:
    """LiteRT masks with 16 bits: divided by 2^16 and more, a value leaves its sign, and 0 leaves 1."""
    if exponent >= 16:
        return -1 if value < 0 else 1
    return divide_by_power(value, exponent)


def test_hard_swish_is_within_one_code_of_the_real_function() -> None:
    x, y = codes("x", (1,), "int8", 0.05, -10), codes("y", (1,), "int8", 0.03, -100)
    real = [v * min(max(v + 3, 0), 6) / 6 for v in (0.05 * d for d in steps_of(x))]
    difference = table("tflite", apply("HardSwish"), x, y) - [stored(y, round(v / 0.03)) for v in real]
    assert 0 < np.abs(difference).sum() <= 0.06 * 256
    assert np.abs(difference).max() == 1


def test_hard_swish_beyond_16_bits_falls_back_to_the_real_function() -> None:
    x, y = codes("x", (1,), "int8", 1.0, 0), codes("y", (1,), "int8", 2.0**-9, 0)
    assert table("tflite", apply("HardSwish"), x, y).tolist() == [
        stored(y, v * min(max(v + 3, 0), 6) / 6 * 512) for v in steps_of(x)
    ]


@given(pairs())
def test_change_of_scale_of_single_rounds_once(slots: tuple[Slot, Slot]) -> None:
    x, y = slots
    multiplier, shift = encode(x.scale / y.scale)
    factor = Fraction(multiplier) * Fraction(2) ** (shift - 31)
    expected = [stored(y, math.floor(d * factor + Fraction(1, 2))) for d in steps_of(x)]
    assert table("single", Source(), x, y).tolist() == expected


@given(pairs(), st.sampled_from([0.1, 0.5, -0.5]))
def test_leaky_relu_of_single_rounds_once(slots: tuple[Slot, Slot], alpha: float) -> None:
    x, y = slots
    result = table("single", apply("LeakyRelu", alpha=alpha), x, y)
    slope = float(np.float32(alpha))
    for d, code in zip(steps_of(x), result.tolist(), strict=True):
        multiplier, shift = encode(x.scale / y.scale * (1 if d >= 0 else abs(slope)))
        factor = Fraction(multiplier) * Fraction(2) ** (shift - 31) * (-1 if d < 0 and slope < 0 else 1)
        assert code == stored(y, math.floor(d * factor + Fraction(1, 2)))


def test_ties_per_profile() -> None:
    x, y = codes("x", (1,), "int8", 0.5, 0), codes("y", (1,), "int8", 1.0, 0)
    steps = np.array([-5, -3, -1, 1, 3, 5]) + 128
    real = Apply("Mul", (Source(), Constant(np.float32(1))))
    for expression in (Source(), real):
        assert table("onnx", expression, x, y)[steps].tolist() == [-2, -2, 0, 0, 2, 2]
        assert table("single", expression, x, y)[steps].tolist() == [-2, -1, 0, 1, 2, 3]
    assert table("tflite", real, x, y)[steps].tolist() == [-3, -2, -1, 1, 2, 3]
    # a factor of 1/2 or more has no second rounding: the first one, of the high product, sends ties up
    assert table("tflite", Source(), x, y)[steps].tolist() == [-2, -1, 0, 1, 2, 3]


@given(pairs())
def test_onnx_is_float32_throughout(slots: tuple[Slot, Slot]) -> None:
    x, y = slots
    values = np.array(steps_of(x), np.float32) * np.float32(x.scale)
    line = np.maximum(np.minimum(values * np.float32(0.2) + np.float32(0.5), 1), 0)
    expected = [stored(y, step) for step in np.rint(line / np.float32(y.scale)).tolist()]
    assert table("onnx", apply("HardSigmoid"), x, y).tolist() == expected


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_is_within_one_code_of_the_real_function(profile: Profile) -> None:
    x, y = codes("x", (1,), "uint8", 0.03, 100), codes("y", (1,), "int8", 0.011, -40)
    for op, function in {
        "Tanh": math.tanh,
        "Erf": math.erf,
        "Softplus": lambda v: math.log1p(math.exp(v)),
        "Elu": lambda v: v if v >= 0 else math.expm1(v),
        "HardSwish": lambda v: v * min(max(v + 3, 0), 6) / 6,
    }.items():
        real = [stored(y, round(function(0.03 * d) / 0.011)) for d in steps_of(x)]
        assert np.abs(table(profile, apply(op), x, y).astype(int) - real).max() <= 1


@pytest.mark.parametrize("profile", PROFILES)
def test_vectors_make_one_row_per_channel(profile: Profile) -> None:
    x, y = codes("x", (2, 3), "int8", 0.1, 3), codes("y", (2, 3), "int8", 0.09, -2)
    slopes = np.array([0.1, -0.4, 0.7], np.float32)
    rows = table(profile, Apply("PRelu", (Source(), Constant(slopes))), x, y)
    assert rows.shape == (3, 256)
    assert rows.flags.c_contiguous
    for slope, row in zip(slopes, rows, strict=True):
        alone = Apply("PRelu", (Source(), Constant(slope.reshape(1))))
        assert np.array_equal(row, table(profile, alone, x, y))
    shifted = table(profile, Apply("Add", (Source(), Constant(slopes))), x, y)
    assert shifted.shape == (3, 256)


@pytest.mark.parametrize("profile", PROFILES)
def test_clip_with_bounds_per_channel(profile: Profile) -> None:
    x = codes("x", (2, 2), "int8", 0.1, 0)
    low, high = Constant(np.array([-1, -2], np.float32)), Constant(np.array([3, 4], np.float32))
    rows = table(profile, Apply("Clip", (Source(), low, high)), x, x)
    assert [(row.min(), row.max()) for row in rows] == [(-10, 30), (-20, 40)]


@pytest.mark.parametrize("profile", PROFILES)
def test_values_without_a_code_saturate(profile: Profile) -> None:
    x, y = codes("x", (1,), "int8", 1.0, 0), codes("y", (1,), "int8", 0.1, 5)
    logarithm = table(profile, apply("Log"), x, y)
    assert set(logarithm[:129].tolist()) == {-128}
    assert logarithm[129] == 5
    with_nan = table(profile, Apply("PRelu", (Source(), Constant(np.float32([0.5, np.nan])))), x, x)
    assert with_nan[1].tolist() == [-128] * 128 + list(range(128))
    assert table(profile, apply("Exp"), x, codes("y", (1,), "uint8", 1e-30, 0))[-1] == 255
    assert (
        table(profile, Source(), x, codes("y", (1,), "int8", 1e-30, 5)).tolist()
        == [-128] * 128 + [5] + [127] * 127
    )


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("expression", [Source(), apply("Relu"), apply("Neg"), apply("Abs")])
def test_nothing_is_lost_where_the_scale_stays(profile: Profile, expression: Expression) -> None:
    x = codes("x", (1,), "int8", float(np.float32(0.017)), -3)
    function = {"Relu": lambda d: max(d, 0), "Neg": lambda d: -d, "Abs": abs}
    op = expression.op if isinstance(expression, Apply) else ""
    expected = [stored(x, function.get(op, lambda d: d)(d)) for d in steps_of(x)]
    assert table(profile, expression, x, x).tolist() == expected


@pytest.mark.parametrize("profile", PROFILES)
def test_scales_at_the_ends_of_float32(profile: Profile) -> None:
    x, y = codes("x", (1,), "int8", 1e30, 0), codes("y", (1,), "int8", 1e-30, 0)
    for op in ("Relu", "LeakyRelu", "HardSwish", "Tanh"):
        up = table(profile, apply(op), x, y)
        assert (up[128], set(up[129:].tolist())) == (0, {127})
        down = table(profile, apply(op), y, x)
        assert set(down.tolist()) == {0}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_constant_function(profile: Profile) -> None:
    x = codes("x", (1,), "int8", 0.5, 3)
    result = table(profile, Apply("Abs", (Constant(np.float32(-2)),)), x, x)
    assert result.shape == (256,)
    assert set(result.tolist()) == {7}


def test_errors() -> None:
    x = codes("x", (1,), "int8", 1.0, 0)
    with pytest.raises(KeyError, match="Det"):
        table("onnx", apply("Det"), x, x)
