"""Accumulators are bounded exactly: the last program that fits passes, the next does not. So are windows."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import example_programs as make
import numpy as np
import pytest
from example_programs import EXAMPLES, codes, fixed, floats, ints, single, sums, with_step
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from calib8.errors import ModelError
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.ops.weighted import weight_sums
from calib8.program.ops.windows import Window, conv_size, empty_window, pool_sizes, transposed_sizes
from calib8.program.program import Port, Program
from calib8.program.rules import Profile
from calib8.program.verify import verify


def connected(weight: Any, profile: Profile = "single", /, zero_point: int = 0, **changes: Any) -> Program:
    """One row of int8 codes times a weight [outputs, inputs]."""
    outputs, inputs = weight.shape
    base = {**make.layer(profile, outputs, weight), "bias": ints(*[0] * outputs), **changes}
    x = codes("x", 1, inputs, dtype="int8", zero_point=zero_point)
    return single(op.FullyConnected, [x], codes("y", 1, outputs), profile, **base)


def rows(*values: int, length: int) -> Any:
    return np.array([[value] * length for value in values], np.int8)


LIMIT = (1 << 31) - 1
ALL_127 = 127 * 128
"""How far one weight of 127 takes a sum of int8 codes with zero point 0 (at −128)."""

FITS = LIMIT // ALL_127
FITS_UNSIGNED = LIMIT // (127 * 255)


def test_bias_counts_in_full() -> None:
    weight, bias = rows(0, 127, length=4), LIMIT - 4 * ALL_127
    verify(connected(weight, bias=ints(LIMIT, bias)))
    verify(connected(weight, bias=ints(-LIMIT, -bias)))
    for spoiled in (ints(0, bias + 1), ints(0, -bias - 1)):
        with pytest.raises(ModelError, match="sums and bias of output channel 1 reach 2147483648"):
            verify(connected(weight, bias=spoiled))
    with pytest.raises(ModelError, match="of output channel 0 reach 2147483648"):
        verify(connected(weight, bias=ints(-(1 << 31), 0)))


@pytest.mark.parametrize("profile", ["onnx", "single"])
def test_steps_of_a_curve_stay_below_half_of_int32(profile: Profile) -> None:
    """2 · 128 · 127 · 2^15 < 2^30 < 3 · 128 · 127 · 2^15, the factor that of the curve."""
    factor = 2.0**15
    steps = rules.FloatRescale(floats(factor)) if profile == "onnx" else fixed(1, "single", shift=16)
    rule = replace(make.curve(profile), steps=steps)
    verify(connected(rows(127, length=2), profile, rescale=rule))
    with pytest.raises(ModelError, match=r"reaches step .* of its curve, beyond 2\^30"):
        verify(connected(rows(127, length=3), profile, rescale=rule))


def test_both_sides_are_shifted_left() -> None:
    """TFLite shifts before it multiplies: of either side."""
    even, wide = make.fixed(1, "double", shift=0), make.fixed(1, "double", shift=17)
    verify(connected(rows(127, length=1), "tflite", rescale=rules.TwoSidedRescale(even, even)))
    for pair in ((even, wide), (wide, even)):
        with pytest.raises(ModelError, match="shifted left by 17 leave int32"):
            verify(connected(rows(127, length=2), "tflite", rescale=rules.TwoSidedRescale(*pair)))


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_over_unsigned_codes_are_bounded_too(sign: int) -> None:
    assert FITS_UNSIGNED < FITS
    verify(connected(rows(127 * sign, length=FITS_UNSIGNED)))
    with pytest.raises(ModelError, match="sums over unsigned codes reach"):
        verify(connected(rows(127 * sign, length=FITS_UNSIGNED + 1)))


def test_the_zero_point_counts() -> None:
    """Codes from −128 − 127 on reach 255 weights' worth, on one side only."""
    length = FITS_UNSIGNED
    verify(connected(rows(127, length=length), zero_point=127))
    with pytest.raises(ModelError, match="sums and bias reach"):
        verify(connected(rows(127, length=length), zero_point=127, bias=ints(LIMIT // 2)))
    far = connected(rows(1, length=4), zero_point=127, bias=ints(LIMIT - 4 * 255))
    verify(far)
    with pytest.raises(ModelError, match="sums and bias reach 2147483648"):
        verify(with_step(far, bias=ints(LIMIT - 4 * 255 + 1)))


def test_weight_zero_points_count() -> None:
    weight = np.full((1, 44_000), 200, np.uint8)
    verify(connected(weight, weight_zero_point=ints(190)))
    with pytest.raises(ModelError, match="unsigned codes reach"):
        verify(connected(weight * 0, weight_zero_point=ints(255)))
    with pytest.raises(ModelError, match="reach"):
        verify(connected(weight))


@pytest.mark.parametrize("high", [True, False])
def test_double_rounding_shifts_left_without_loss(high: bool) -> None:
    """acc in [−128, 127] · 127 · 16 + bias; bias moves one end to the limit of the shift by 4."""
    low_end, high_end, shift = -128 * 127 * 16, 127 * 127 * 16, 4
    bias = (LIMIT >> shift) - high_end if high else -(1 << 31 - shift) - low_end
    rescale = fixed(2, "double", shift=shift)
    weight = rows(0, 127, length=16)
    verify(connected(weight, "tflite", rescale=rescale, bias=ints(0, bias)))
    with pytest.raises(ModelError, match=r"\(channel 1\) shifted left by 4 leave int32"):
        verify(connected(weight, "tflite", rescale=rescale, bias=ints(0, bias + (1 if high else -1))))
    once = fixed(2, "away", shift=shift)
    verify(connected(weight, "tflite", rescale=once, bias=ints(0, bias + (1 if high else -1))))


def scaled_up(name: str, shift: int) -> Program:
    return with_step(EXAMPLES[name, "tflite"], rescale=fixed(1, "double", shift=shift))


@pytest.mark.parametrize(
    ("name", "shift"),
    [
        ("Mul", 15),  # (255 − 3)² · 2^15 < 2^31
        ("MatMul", 13),  # 4 · (255 − 3)² · 2^13 < 2^31
        ("Mean", 17),  # 42 · (255 − 3) · 2^17 < 2^31
    ],
)
def test_other_sums_shifted_left(name: str, shift: int) -> None:
    verify(scaled_up(name, shift))
    with pytest.raises(ModelError, match=f"shifted left by {shift + 1} leave int32"):
        verify(scaled_up(name, shift + 1))


def through_sums(shift: int, *, moved: bool) -> Program:
    """A layer, its sums perhaps moved, requantized with a left shift."""
    x, acc = codes("x", 1, 4, dtype="int8", zero_point=0), sums("acc", 1, 2)
    fields = {**make.layer("tflite", 2, rows(1, 127, length=4)), "rescale": None, "bias": ints(0, 0)}
    steps: list[op.Instruction] = [op.FullyConnected("fc", (0,), (1,), **fields)]
    slots = [x, acc]
    if moved:
        steps.append(op.Transpose("move", (1,), (2,), (1, 0)))
        slots.append(sums("moved", 2, 1))
    last = len(slots)
    requantize = fixed(1 if moved else 2, "double", shift=shift)
    steps.append(op.Requantize("out", (last - 1,), (last,), requantize, 0, 255))
    slots.append(codes("y", *slots[-1].shape))
    return Program("tflite", tuple(slots), tuple(steps), (Port("x", 0),), (Port("y", last),), "net")


@pytest.mark.parametrize("moved", [False, True])
def test_requantize_knows_what_the_layer_reaches(moved: bool) -> None:
    verify(through_sums(15, moved=moved))  # 4 · 128 · 127 · 2^15 = 2^31 − 2^24
    with pytest.raises(ModelError, match=r'Requantize "out".* sums up to .* shifted left by 16 leave int32'):
        verify(through_sums(16, moved=moved))


def test_sums_that_a_float_node_made_may_be_anything() -> None:
    """The layer's own sums take a shift by 15; what a model makes of them does not."""
    program = through_sums(15, moved=True)
    layer, _, requantize = program.instructions
    node = helper.make_node("Transpose", ["acc"], ["moved"])
    ports = [helper.make_tensor_value_info(name, TensorProto.INT32, None) for name in ("acc", "moved")]
    model = helper.make_model(helper.make_graph([node], "part", ports[:1], ports[1:]))
    middle = op.Float("move", (1,), (2,), model.SerializeToString(), ("move",))
    with pytest.raises(ModelError, match="sums up to 2147483647"):
        verify(replace(program, instructions=(layer, middle, requantize)))


def test_sums_of_unknown_origin_take_no_left_shift() -> None:
    verify(with_step(EXAMPLES["Requantize", "tflite"], rescale=fixed(3, "double", shift=0)))
    with pytest.raises(ModelError, match="sums up to 2147483647"):
        verify(with_step(EXAMPLES["Requantize", "tflite"], rescale=fixed(3, "double", shift=1)))


def test_the_sum_of_an_add_shifted_left() -> None:
    halves = {"lhs": (1 << 30, 0), "rhs": (1 << 30, 0)}  # each (255 − 3) · 2^20 / 2, together 2^28 − 3 · 2^20
    fits = replace(make.SUM_RULES["tflite"], **halves, output=(1 << 30, 3))
    verify(with_step(EXAMPLES["Add", "tflite"], rule=fits))
    with pytest.raises(ModelError, match="shifted left by 4 leave int32"):
        verify(with_step(EXAMPLES["Add", "tflite"], rule=replace(fits, output=(1 << 30, 4))))


def product_of(depth: int) -> Program:
    a = codes("a", 1, depth, dtype="int8", zero_point=0)
    b = codes("b", depth, 1, dtype="int8", zero_point=0)
    rescale = make.rescale("single")
    return single(op.MatMul, [a, b], codes("y", 1, 1), "single", rescale=rescale, low=0, high=255)


def test_products_of_two_activations_are_bounded() -> None:
    deepest = LIMIT // (255 * 128)
    verify(product_of(deepest))
    with pytest.raises(ModelError, match=f"sums of {deepest + 1} products reach"):
        verify(product_of(deepest + 1))


@pytest.mark.parametrize("name", ["Mean", "AveragePool"])
def test_sums_of_codes_are_bounded(name: str) -> None:
    def over(count: int) -> Program:
        x, y = codes("x", 1, 1, count, 1), codes("y", 1, 1, 1, 1)
        clamp = {"low": 0, "high": 255}
        if name == "Mean":
            return single(op.Mean, [x], y, axes=(2,), rescale=make.rescale("onnx"), **clamp)
        window = {"kernel": (1, count), "strides": (1, 1), "pads": (0, 0, 0, 0), "count_pads": False}
        return single(
            op.AveragePool, [x], y, **window, rule=rules.FloatAverage(make.HALF, make.HALF), **clamp
        )

    most = LIMIT // 255
    verify(over(most))
    with pytest.raises(ModelError, match=f"sums of {most + 1} codes reach"):
        verify(over(most + 1))


@given(st.data())
def test_weight_sums_are_those_of_their_definition(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["int8", "uint8"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    limits = np.iinfo(dtype)
    name = data.draw(st.sampled_from(["Conv", "DepthwiseConv", "FullyConnected", "ConvTranspose"]))
    shape = {"DepthwiseConv": (2, 3, 4), "FullyConnected": (4, 5)}.get(name, (4, 2, 3, 2))
    weight = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    points = rng.integers(limits.min, limits.max, data.draw(st.sampled_from([1, 4])), endpoint=True)
    layer = EXAMPLES[name, "onnx"].instructions[0]
    assert isinstance(layer, op.Weighted)
    layer = replace(layer, weight=weight, weight_zero_point=points.astype(np.int32))
    positive, negative = weight_sums(layer)
    for channel in range(4):
        own = weight[..., channel] if name == "DepthwiseConv" else weight[channel]
        steps = own.astype(int) - int(np.broadcast_to(points, 4)[channel])
        assert (positive[channel], negative[channel]) == (steps[steps > 0].sum(), steps[steps < 0].sum())


WINDOWS = [
    Window(*sizes)
    for sizes in product(range(1, 5), range(1, 4), range(1, 4), range(1, 5), range(5), range(5))
]
"""All small windows."""


def taps(window: Window, place: int) -> list[int]:
    return [place * window.stride - window.before + k * window.dilation for k in range(window.kernel)]


def test_window_counts_are_those_of_the_plain_loop() -> None:
    for window in WINDOWS:
        if window.room < 0:
            continue
        end = window.size + window.after
        whole = sum(max(taps(window, place)) < end for place in range(20))
        assert conv_size(window) == whole, window
        left_over = max(taps(window, whole - 1)) + 1 < end
        next_begins_inside = taps(window, whole)[0] < window.size
        assert set(pool_sizes(window)) == {whole, whole + (left_over and next_begins_inside)}, window


def test_empty_windows_are_found() -> None:
    for window, outputs in product(WINDOWS, (1, 2, 5)):
        seen = [any(0 <= tap < window.size for tap in taps(window, place)) for place in range(outputs)]
        found = empty_window(window, outputs)
        assert (found is None) == all(seen), window
        assert found is None or not seen[found], window


def test_transposed_sizes_are_those_of_the_plain_loop() -> None:
    for window in WINDOWS:
        reach = (window.size - 1) * window.stride + (window.kernel - 1) * window.dilation + 1
        least = reach - window.before - window.after
        padding = max(window.stride, window.dilation) - 1
        expected = [size for size in range(least, least + padding + 1) if size > 0]
        assert list(transposed_sizes(window)) == expected, window
