"""Instructions on 16-bit codes against Python's integers, and what the verifier lets through of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from example_programs import EXAMPLES, codes, fixed, floats, ints, single, sums, with_step
from hypothesis import given
from hypothesis import strategies as st
from plain_loops import conv_sums, conv_transpose_sums, curve_code, depthwise_sums, rescaled_code
from test_file import assert_equal
from wide_programs import NARROW, WIDE, ends_of, fed, wide, widened

from calib8.errors import ModelError
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.expressions import Apply, Expression, Source
from calib8.program.file import PREFIX, load_program, save_program
from calib8.program.listing import listing
from calib8.program.ops.weighted import largest_wide_sum
from calib8.program.program import Program, Slot
from calib8.program.reference.executor import run_program
from calib8.program.rounding.linear import layer_rescale, product_rule, sum_rule
from calib8.program.rounding.tables import table
from calib8.program.rounding.two_sided import two_sided_rescale
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify
from calib8.qparams import QParams

Array = npt.NDArray[Any]
NAMES = sorted({name for name, _ in WIDE})
LIMIT = (1 << 31) - 1


def plain_sums(layer: Any, x: Array, zero_point: int, shape: Sequence[int]) -> Array:
    loops = {op.Conv: conv_sums, op.DepthwiseConv: depthwise_sums, op.ConvTranspose: conv_transpose_sums}
    if type(layer) in loops:
        return loops[type(layer)](layer, x, zero_point, shape)
    return (x.astype(object) - zero_point) @ layer.weight.astype(object).T + layer.bias


def layer_code(layer: Any, acc: int, channel: int, target: Slot) -> int:
    rule = layer.rescale
    if isinstance(rule, rules.CurveRescale):
        return curve_code(rule, acc, channel, layer.low, layer.high, target.dtype)
    if isinstance(rule, rules.TwoSidedRescale):
        rule = rule.positive if acc >= 0 else rule.negative
    return rescaled_code(rule, acc, channel, target.zero_point, layer.low, layer.high)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "profile"), WIDE)
def test_what_passes_runs_is_listed_and_comes_back(name: str, profile: Profile, tmp_path: Path) -> None:
    program = WIDE[name, profile]
    verify(program)
    for port, result in zip(program.outputs, run_program(program, fed(program, 1)), strict=True):
        output = program.slots[port.slot]
        assert (result.shape, result.dtype) == (output.shape, np.dtype(output.dtype))
    assert "int16" in listing(program)
    save_program(program, tmp_path / "a.c8p")
    assert PREFIX.unpack_from((tmp_path / "a.c8p").read_bytes())[1] == 3
    assert_equal(program, load_program(tmp_path / "a.c8p"))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", [name for name in NAMES if "Conv" in name or "Fully" in name])
def test_layers_are_their_plain_loops(name: str, profile: Profile) -> None:
    program = WIDE[name, profile]
    layer: Any = program.instructions[0]
    x, y = program.slots
    feeds = fed(program, 2)
    acc = plain_sums(layer, feeds[x.name], x.zero_point, y.shape)
    result = run_program(program, feeds)[0]
    places = np.ndindex(*y.shape)
    if layer.rescale is None:
        assert result.tolist() == acc.tolist()
        return
    assert result.tolist() == np.reshape(
        [layer_code(layer, int(acc[place]), place[-1], y) for place in places], y.shape
    ).tolist()  # fmt: skip
    assert len(np.unique(result)) > min(10, result.size // 3)  # not everything is clamped


def connected(weight: Array, profile: Profile = "onnx", /, **changes: Any) -> Program:
    """One row of 16-bit codes times a weight [outputs, inputs]."""
    outputs, inputs = weight.shape
    fields: dict[str, Any] = {
        "weight": weight,
        "weight_zero_point": ints(0),
        "bias": ints(*[0] * outputs),
        "rescale": rules.FloatRescale(floats(2.0**-16)),
        "low": -32768,
        "high": 32767,
        **changes,
    }
    x = wide("x", 1, inputs, zero_point=-32768)
    return single(op.FullyConnected, [x], wide("y", 1, outputs), profile, **fields)


@pytest.mark.parametrize("profile", PROFILES)
def test_sums_beyond_int32_keep_every_bit(profile: Profile) -> None:
    """2^15 of the largest products one way, as many the other way, and one unit that is left of them."""
    weight = np.array([[1, *[127, -127] * (1 << 15)], [1, *[127] * (1 << 16)]], np.int8)
    program = connected(weight, profile)
    largest = largest_wide_sum(program.instructions[0], program.slots[0])  # type: ignore[arg-type]
    assert largest == 65535 * (127 * 65536 + 1)
    rule = layer_rescale(profile, 1.0, floats(1.0, 2.0**-24), 1.0, wide_sums=largest)
    program = with_step(program, rescale=rule)
    verify(program)
    x = np.full((1, 1 + (1 << 16)), 32767, np.int16)
    for first in (-32768, -32767, -5):
        x[0, 0] = first
        total = first + 32768 + 127 * 65535 * 65536
        codes_out = run_program(program, {"x": x})[0].tolist()
        assert codes_out == [[min(first + 32768 - 1234, 32767), round(total / 2**24) - 1234]]


@given(st.integers(1, 60), st.integers(0, 1 << 32))
def test_sums_are_those_of_two_layers_of_8_bits(depth: int, seed: int) -> None:
    """``x = 256·hi + lo``: the form in which engines compute them."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(-128, 128, (3, depth)).astype(np.int8)
    bias = rng.integers(-1000, 1000, 3).astype(np.int32)
    program = connected(weight, bias=bias, rescale=None, low=0, high=0)
    program = replace(program, slots=(program.slots[0], sums("y", 1, 3)))
    verify(program)
    x = rng.integers(-32768, 32768, (1, depth)).astype(np.int16)
    hi, lo = x.astype(np.int64) >> 8, x.astype(np.int64) & 255
    left = bias + 32768 * weight.sum(axis=1, dtype=np.int64)
    wide_weight = weight.T.astype(np.int64)
    wanted = 256 * (hi @ wide_weight) + lo @ wide_weight + left
    assert run_program(program, {"x": x})[0].tolist() == wanted.tolist()


def test_either_of_the_two_sums_fits_int32() -> None:
    """The bound of 8-bit layers: 255 · Σ |w|; 16-bit sums may be written where they fit int32."""
    fits = LIMIT // (127 * 255)
    for sign in (1, -1):
        verify(connected(np.full((1, fits), sign * 127, np.int8)))
        with pytest.raises(ModelError, match="sums over unsigned codes reach 2147"):
            verify(connected(np.full((1, fits + 1), sign * 127, np.int8)))
    to_sums = connected(np.array([[127] * 258], np.int8), rescale=None)
    to_sums = replace(to_sums, slots=(to_sums.slots[0], sums("y", 1, 1)))
    left = LIMIT - 258 * 127 * 65535
    verify(with_step(to_sums, bias=ints(left)))
    with pytest.raises(ModelError, match="sums and bias reach 2147483648, beyond int32"):
        verify(with_step(to_sums, bias=ints(left + 1)))


@pytest.mark.parametrize("profile", ["tflite", "single"])
@pytest.mark.parametrize("form", ["plain", "below 0", "curve"])
def test_multipliers_leave_room_for_the_sums(profile: Profile, form: str) -> None:
    """100 · 127 · 65535 is a number of 30 bits, 400 · 127 · 65535 one of 32."""
    for inputs, bits in ((100, 31), (400, 30)):
        most = fixed(1, "single", (1 << bits) - 1, -20)
        more = fixed(1, "single", (1 << 31) - 1, -20)
        for rule, passes in ((most, True), (more, bits == 31)):
            full: rules.LayerRescale = rule
            if form == "below 0":
                small = fixed(1, "single", 1 << 21, -20)
                full = rules.TwoSidedRescale(small, replace(rule, multiplier=-rule.multiplier))
            elif form == "curve":
                full = replace(CURVE, steps=rule)
            program = connected(np.full((1, inputs), 127, np.int8), profile, rescale=full)
            if passes:
                verify(program)
                continue
            with pytest.raises(ModelError, match=f"by {(1 << 31) - 1}, beyond 2.62"):
                verify(program)


ROWS = np.zeros(32, np.int16)
CURVE = rules.CurveRescale(
    rules.FloatRescale(floats(2.0**-16)), 10, -16, ROWS, ROWS + 100, ROWS, below=0, above=0, error=0
)


@pytest.mark.parametrize("largest", [LIMIT, LIMIT + 1, 65535 * (127 * 65535 + 1), (1 << 40) - 1])
def test_multipliers_have_as_many_bits_as_there_is_room_for(largest: int) -> None:
    factors = np.array([2.0**-33, 3e-9, 0.0001, 0.7, 1.0, 1.5], np.float32)
    for profile in ("tflite", "single"):
        rule = layer_rescale(profile, 1.0, factors, 1.0, wide_sums=largest)  # type: ignore[arg-type]
        assert isinstance(rule, rules.FixedRescale) and rule.rounding == "single"
        most = int(rule.multiplier.max())
        assert most * largest < 1 << 62
        assert largest <= LIMIT or 2 * most * largest >= 1 << 60
        for factor, multiplier, shift in zip(factors, rule.multiplier, rule.shift, strict=True):
            held = float(multiplier) * 2.0 ** (int(shift) - 31)
            assert abs(held - factor) <= factor * 2.0**-22 or factor < 2.0**-32
        below = two_sided_rescale(profile, 1.0, factors, -factors / 3, 1.0, wide_sums=largest)  # type: ignore[arg-type]
        assert below is not None and isinstance(below.negative, rules.FixedRescale)
        assert np.abs(below.negative.multiplier.astype(np.int64)).max() * largest < 1 << 62


@pytest.mark.parametrize("profile", ["tflite", "single"])
@pytest.mark.parametrize("name", ["Conv, 16 to 8", "Mul, 16 and 8 to 8"])
def test_what_reads_16_bits_rounds_once(name: str, profile: Profile) -> None:
    rule: Any = WIDE[name, profile].instructions[0].rescale  # type: ignore[attr-defined]
    for other in ("double", "away") if profile == "single" else ():
        with pytest.raises(ModelError, match=f"rounding {other} in profile {profile}"):
            verify(with_step(WIDE[name, profile], rescale=replace(rule, rounding=other)))
    with pytest.raises(ModelError, match=r"multiplier 2097151.*0 or in 2097152"):
        verify(
            with_step(
                WIDE[name, profile], rescale=replace(rule, multiplier=ints((1 << 21) - 1), shift=ints(0))
            )
        )


@pytest.mark.parametrize("other", ["double", "away"])
def test_sums_of_16_bits_that_tflite_rounds_otherwise_fit_int32(other: str) -> None:
    """As those of LiteRT's dense layers and products do."""
    program = WIDE["Conv, 16 to 8", "tflite"]
    rule = replace(
        program.instructions[0].rescale,
        multiplier=ints(1 << 30),
        shift=ints(-20),
        rounding=other,  # type: ignore[attr-defined]
    )
    verify(with_step(program, rescale=rule))
    bias = np.full_like(program.instructions[0].bias, LIMIT)  # type: ignore[attr-defined]
    with pytest.raises(ModelError, match=r"sums up to .* (beyond|leave) int32"):
        verify(with_step(program, rescale=rule, bias=bias))


def test_tflite_adds_16_bits_with_15_more() -> None:
    """Or in one rounding; 8-bit codes gain 20, or 7 where their difference has 16 bits and is squared."""
    scaled = EXAMPLES["Add", "tflite"].instructions[0].rule  # type: ignore[attr-defined]
    program = WIDE["Add, 16 and 8 to 8", "tflite"]
    with pytest.raises(ModelError, match=r"has the left shift 20\. It must be 15"):
        verify(with_step(program, rule=scaled))
    verify(with_step(program, rule=replace(scaled, left_shift=15)))
    with pytest.raises(ModelError, match=r"has the left shift 15\. It must be 20"):
        verify(with_step(EXAMPLES["Add", "tflite"], rule=replace(scaled, left_shift=15)))
    widening = WIDE["Sub, 8 to 16", "tflite"]
    verify(with_step(widening, rule=replace(scaled, left_shift=7)))
    for program in (EXAMPLES["Sub", "tflite"], WIDE["Sub, 16 to 16", "tflite"]):
        with pytest.raises(ModelError, match=r"has the left shift 7\. It must be"):
            verify(with_step(program, rule=replace(scaled, left_shift=7)))
    aligned = WIDE["Add, 16 to 16", "tflite"].instructions[0].rule  # type: ignore[attr-defined]
    with pytest.raises(ModelError, match="has AlignedSum in profile tflite"):
        verify(with_step(EXAMPLES["Add", "tflite"], rule=aligned))


@pytest.mark.parametrize("name", NARROW)
def test_other_instructions_have_codes_of_8_bits_alone(name: str) -> None:
    program = next(program for (known, _), program in EXAMPLES.items() if known == name)
    [step] = program.instructions
    places = [number for number in (*step.inputs, *step.outputs) if program.slots[number].is_codes]
    for place in places:
        with pytest.raises(ModelError, match=r"which holds int16 codes .* It takes 8-bit codes"):
            verify(widened(program, place))


def test_16_bits_without_a_scale_are_plain_numbers() -> None:
    slot = Slot("x", (2,), "int16")
    assert not slot.is_codes and not slot.is_wide
    with pytest.raises(ModelError, match="holds plain int16"):
        verify(replace(WIDE["Lookup, 16 to 8", "onnx"], slots=(slot, codes("y", 2))))


@pytest.mark.parametrize("shape", [(256,), (3, 65536), (65535,)])
def test_tables_of_16_bits_have_an_entry_per_code(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"Give \[65536\]"):
        verify(with_step(WIDE["Lookup, 16 to 8", "onnx"], table=np.zeros(shape, np.uint8)))


SCALES = {"a": 0.00031, "b": 0.00007, "y": 0.00042}


def slots_of(types: tuple[str, str, str], count: int) -> list[Slot]:
    """Of types given; 8-bit codes have 256 times the scale."""
    found = []
    for (name, scale), dtype in zip(SCALES.items(), types, strict=True):
        exact = float(np.float32(scale if dtype == "int16" else 256 * scale))
        zero = {"int16": -3001, "int8": -12, "uint8": 117}[dtype]
        found.append(codes(name, count, scale=exact, zero_point=zero, dtype=dtype))
    return found


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", ["add", "sub", "mul"])
@pytest.mark.parametrize(
    "types", [("int16", "int16", "int16"), ("int16", "uint8", "int16"), ("int8", "int16", "uint8"),
              ("uint8", "int8", "int16")]
)  # fmt: skip
def test_sums_and_products_are_those_of_real_numbers(
    profile: Profile, kind: Any, types: tuple[str, str, str]
) -> None:
    """Within half a code, and what a multiplier of 20 bits and float32 lose of 65536."""
    a, b, y = slots_of(types, 3000)
    if kind == "mul":
        ends = [max(abs(end - slot.zero_point) for end in ends_of(slot)) * slot.scale for slot in (a, b)]
        y = replace(y, scales=floats(ends[0] * ends[1] / (30000 if y.is_wide else 100)))
    reads = a.is_wide or b.is_wide
    sides = [QParams(slot.scale, slot.zero_point) for slot in (a, b, y)]
    low, high = ends_of(y)
    step: Any
    if kind == "mul":
        step = single(op.Mul, [a, b], y, profile, low=low, high=high,
                      rescale=product_rule(profile, a.scale, b.scale, y.scale, wide=reads))  # fmt: skip
    else:
        rule = sum_rule(profile, kind, *sides, wide=reads)
        step = single(op.Add if kind == "add" else op.Sub, [a, b], y, profile, rule=rule, low=low, high=high)
    verify(step)
    feeds = fed(step, 5)
    result = run_program(step, feeds)[0]
    left, right = ((feeds[slot.name].astype(np.float64) - slot.zero_point) * slot.scale for slot in (a, b))
    real = {"add": left + right, "sub": left - right, "mul": left * right}[kind]
    wanted = np.clip(real / y.scale + y.zero_point, low, high)
    lost = 2.0 if profile == "tflite" and not reads else 0.56
    assert np.abs(result - wanted).max() <= lost
    assert len(np.unique(result)) > (1000 if y.is_wide else 100)


SIGMOID = Apply("Sigmoid", (Source(),))
LEAKY = Apply("LeakyRelu", (Source(),))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("expression", [Source(), SIGMOID, LEAKY], ids=["scale", "sigmoid", "leaky"])
@pytest.mark.parametrize("types", [("int16", "int16"), ("int16", "uint8"), ("int8", "int16")])
def test_tables_are_functions_of_real_numbers(
    profile: Profile, expression: Expression, types: tuple[str, str]
) -> None:
    scale = {"int16": 0.0003, "int8": 0.07}[types[0]]
    x = codes("x", 4, scale=float(np.float32(scale)), zero_point=-7, dtype=types[0])
    limits, reach = np.iinfo(types[1]), 20.0
    y = codes(
        "y", 4, scale=float(np.float32(reach / (limits.max - limits.min))), zero_point=3, dtype=types[1]
    )
    entries = table(profile, expression, x, y)
    low, high = ends_of(x)
    assert entries.shape == (high - low + 1,) and entries.dtype == np.dtype(types[1])
    for code in (*range(low, high + 1, max(1, (high - low) // 501)), high):
        real = Fraction(code + 7) * Fraction(x.scale)
        value = float(real)
        wanted = {Source(): value}.get(expression, 1 / (1 + math.exp(-value)) if expression is SIGMOID
                                       else value if value >= 0 else 0.01 * value)  # fmt: skip
        exact = min(max(wanted / y.scale + 3, limits.min), limits.max)
        assert abs(int(entries[code - low]) - exact) <= (1.01 if profile == "tflite" else 0.51)


def test_borders_of_16_bits() -> None:
    program = WIDE["Quantize to 16 bits", "onnx"]
    x = np.zeros((1, 3, 5, 5), np.float32)
    x[0, 0, 0] = [np.inf, -np.inf, np.nan, 0.075, 0.025]
    result = run_program(program, {"x": x})[0]
    half = np.rint(np.float32(0.075) / np.float32(0.05))
    assert result[0, 0, :, 0].tolist() == [32767, -32768, -32768, half - 1234, -1234]
    program = WIDE["Dequantize of 16 bits", "onnx"]
    codes_in = np.full((1, 5, 3), 32767, np.int16)
    real = np.float32(0.05) * np.float32(32767 + 1234)
    assert (run_program(program, {"x": codes_in})[0] == real).all()
