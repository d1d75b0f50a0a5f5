"""16-bit codes in the engine: every instruction set and number of threads has the reference's bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from activation_cases import activated, factors
from conv_cases import random_connected, random_conv
from decode import steps_of
from example_programs import EXAMPLES, with_step
from generated import SEEDS, pick
from test_conv_transpose import transposed
from test_depthwise import CHANNELS, KERNELS, Case, program_of
from wide_programs import WIDE, fed

from bits import assert_same_bits
from calib8.engine.compile import compile_program
from calib8.engine.steps import Conv, WideConv, WideFillHalo
from calib8.fixedpoint import encode_multipliers
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.program import Port, Program, Slot
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify

Rng = np.random.Generator
WIDTHS = ("16 to 8", "8 to 16", "16 to 16")
WIDE_BITS = 22
"""Of the multipliers of layers that read 16-bit codes: enough for all sums."""


def wide_slot(rng: Rng, slot: Slot) -> Slot:
    """The slot with 16-bit codes; the zero point is often an extreme one, or lies between two upper bytes."""
    point = pick(rng, -32768, 32767, 0, -1, 255, 256, int(rng.integers(-32768, 32768)))
    return replace(slot, dtype="int16", zero_point=int(point))


def multiplied(rule: Any, by: float, reads_wide: bool) -> Any:
    """The rule with its factors multiplied, in the form that a layer with 16-bit codes has."""
    if isinstance(rule, rules.TwoSidedRescale):
        sides = (multiplied(side, by, reads_wide) for side in (rule.positive, rule.negative))
        return rules.TwoSidedRescale(*sides)
    if isinstance(rule, rules.CurveRescale):
        return replace(rule, steps=multiplied(rule.steps, by, reads_wide))
    if isinstance(rule, rules.FloatRescale):
        return rules.FloatRescale((rule.factor * np.float32(by)).astype(np.float32))
    found = factors(rule) * by
    multiplier, shift = encode_multipliers(np.abs(found))
    rounding = rule.rounding
    if reads_wide:
        multiplier, shift, rounding = multiplier >> (31 - WIDE_BITS), shift + (31 - WIDE_BITS), "single"
    sign = np.where(found < 0, -1, 1).astype(np.int32)
    return rules.FixedRescale((multiplier * sign).astype(np.int32), shift.astype(np.int32), rounding)


def widened(rng: Rng, program: Program, widths: str) -> Program:
    """One layer with 16-bit codes before it, behind it or on both sides."""
    (step,), (x, y) = program.instructions, program.slots
    assert isinstance(step, op.Weighted)
    reads, writes = widths != "8 to 16", widths != "16 to 8"
    slots = (wide_slot(rng, x) if reads else x, wide_slot(rng, y) if writes and y.is_codes else y)
    by = (1 / 256 if reads else 1.0) * (
        256 if writes and not isinstance(step.rescale, rules.CurveRescale) else 1
    )
    changes: dict[str, Any] = {
        "rescale": None if step.rescale is None else multiplied(step.rescale, by, reads)
    }
    if writes and y.is_codes:
        changes |= pick(rng, {"low": -32768, "high": 32767}, {"low": -20000, "high": 12345})
    return with_step(replace(program, slots=slots), **changes)


def checked(rng: Rng, program: Program, seed: int, widths: str) -> None:
    program = widened(rng, program, widths)
    verify(program)
    feeds = fed(program, seed)
    assert_same_bits(program, feeds, threads=(1, 2, 3))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "profile"), sorted(WIDE))
def test_every_instruction(name: str, profile: Profile) -> None:
    program = WIDE[name, profile]
    for seed in range(3):
        assert_same_bits(program, fed(program, seed))


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("seed", SEEDS)
def test_convolutions(seed: int, widths: str) -> None:
    rng = np.random.default_rng((61, seed))
    program = random_conv(rng, PROFILES[seed % 3])
    checked(rng, activated(rng, program) if seed % 2 else program, seed, widths)


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("seed", SEEDS[::2])
def test_fully_connected_layers(seed: int, widths: str) -> None:
    rng = np.random.default_rng((62, seed))
    program = random_connected(rng, PROFILES[seed % 3])
    (step,) = program.instructions
    if step.rescale is None:  # type: ignore[attr-defined]
        return
    if isinstance(step.rescale, rules.FixedRescale) and step.rescale.rounding == "away":  # type: ignore[attr-defined]
        program = with_step(program, rescale=replace(step.rescale, rounding="double"))  # type: ignore[attr-defined]
    checked(rng, activated(rng, program) if seed % 4 else program, seed, widths)


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("seed", SEEDS[::2])
def test_transposed_convolutions(seed: int, widths: str) -> None:
    rng = np.random.default_rng((63, seed))
    program = transposed(rng, PROFILES[seed % 3])
    checked(rng, activated(rng, program) if seed % 4 else program, seed, widths)


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("seed", SEEDS)
def test_depthwise_convolutions(seed: int, widths: str) -> None:
    rng = np.random.default_rng((64, seed))
    kernel = pick(rng, *KERNELS)
    case = Case(
        images=pick(rng, 1, 1, 2),
        size=(int(rng.integers(kernel[0], 14)), int(rng.integers(kernel[1], 19))),
        channels=pick(rng, *CHANNELS),
        multiplier=pick(rng, 1, 1, 2),
        kernel=kernel,
        strides=pick(rng, (1, 1), (2, 2), (1, 3)),
        pads=tuple(int(rng.integers(0, kernel[axis % 2])) for axis in range(4)),  # type: ignore[arg-type]
        weight_zero=pick(rng, 0, 0, -100),
        profile=PROFILES[seed % 3],
    )
    program = program_of(case, seed)
    checked(rng, activated(rng, program) if seed % 2 else program, seed, widths)


def test_sums_that_need_41_bits() -> None:
    """The largest sums that a layer may have, beyond all that float32 holds."""
    depth = 66311  # 255 · 127 · depth is just below 2^31
    weight = np.full((3, depth), 127, np.int8)
    weight[1], weight[2, ::2] = -127, -127
    x = Slot("x", (4, depth), "int16", np.array([0.05], np.float32), -32768)
    y = Slot("y", (4, 3), "int16", np.array([0.05], np.float32), 100)
    bias = np.array([(1 << 31) - 1, -(1 << 31), 12345], np.int32)
    rule = rules.FloatRescale(np.array([2.0**-24, 2.0**-24, 2.0**-10], np.float32))
    step = op.FullyConnected("fc", (0,), (1,), weight, np.zeros(1, np.int32), bias, rule, -32768, 32767)
    program = Program("onnx", (x, y), (step,), (Port("x", 0),), (Port("y", 1),), "net")
    verify(program)
    rng = np.random.default_rng(5)
    feed = rng.integers(-32768, 32768, x.shape).astype(np.int16)
    feed[0], feed[1] = 32767, -32768
    assert_same_bits(program, {"x": feed})


def kinds(program: Program) -> list[str]:
    return [row.opcode for row in compile_program(program).rows]


@pytest.mark.parametrize("widths", WIDTHS)
def test_layers_have_steps_of_their_own(widths: str) -> None:
    filters = widened(np.random.default_rng(8), program_of(Case(channels=5), 1), widths)
    layers = {name: WIDE[f"{name}, {widths}", "onnx"] for name in ("Conv", "ConvTranspose", "FullyConnected")}
    for name, program in (layers | {"DepthwiseConv": filters}).items():
        own = "wide_depthwise" if name == "DepthwiseConv" else "wide_conv"
        rows = kinds(program)
        assert own in rows and not {"conv", "depthwise", "plane", "finish"} & set(rows)


def beyond(program: Program) -> Program:
    """The layer with a bias that lets some sums leave int32."""
    (step,) = program.instructions
    bias = step.bias.copy()  # type: ignore[attr-defined]
    bias[0], bias[-1] = (1 << 31) - 1, -(1 << 31)
    return with_step(program, bias=bias)


def test_a_layer_with_larger_sums_is_two_of_8_bits() -> None:
    rows = kinds(beyond(WIDE["Conv, 16 to 8", "onnx"]))
    assert rows.count("conv") == rows.count("plane") == 2 and rows.count("finish") == 1
    assert kinds(beyond(WIDE["DepthwiseConv, 16 to 16", "onnx"])).count("depthwise") == 2
    assert "wide_conv" in kinds(WIDE["Conv, 8 to 16", "onnx"])


@pytest.mark.parametrize("zero_point", [-32768, -5, 0, 32767])
@pytest.mark.parametrize("side", [1, -1])
def test_where_sums_end(side: int, zero_point: int) -> None:
    """The largest sum, of the codes that make it, is the last int32: one more is taken apart."""
    weight = np.array([[127, -128, 5], [-127, 1, 0], [0, 1, -1]], np.int8)
    x = Slot("x", (2, 3), "int16", np.array([0.05], np.float32), zero_point)
    y = Slot("y", (2, 3), "int16", np.array([0.05], np.float32), -100)
    ends = np.array([-32768, 32767]) - zero_point
    extreme = np.where(side * weight.astype(np.int64) > 0, ends[1], ends[0])
    reached = int((extreme[0] * weight[0].astype(np.int64)).sum())
    last = (1 << 31) - 1 if side > 0 else -(1 << 31)
    rule = rules.FloatRescale(np.array([2.0**-17, 2.0**-9, 2.0**-2], np.float32))
    feed = (extreme[:2] + zero_point).astype(np.int16)
    for more in (0, side):
        bias = np.array([last - reached + more, 7, -7], np.int32)
        step = op.FullyConnected("fc", (0,), (1,), weight, np.zeros(1, np.int32), bias, rule, -32768, 32767)
        program = Program("onnx", (x, y), (step,), (Port("x", 0),), (Port("y", 1),), "net")
        verify(program)
        assert ("wide_conv" in kinds(program)) == (more == 0)
        assert_same_bits(program, {"x": feed})


def test_two_readers_share_the_planes() -> None:
    program = beyond(WIDE["Conv, 16 to 8", "onnx"])
    (step,), (x, y) = program.instructions, program.slots
    twice = replace(
        program,
        slots=(x, y, replace(y, name="z")),
        instructions=(step, replace(step, name="second", outputs=(2,))),
        outputs=(*program.outputs, Port("z", 2)),
    )
    rows = kinds(twice)
    assert rows.count("plane") == 2 and rows.count("conv") == 4
    assert_same_bits(twice, fed(twice, 1))


def test_the_border_of_a_plane_is_a_byte_of_the_zero_point() -> None:
    program = beyond(padded())
    fills = [step for step in steps_of(compile_program(program)) if step.opcode == "fill_halo"]
    assert sorted(step.value for step in fills) == sorted([-1234 // 256 + 128, -1234 % 256])  # type: ignore[attr-defined]
    assert_same_bits(program, fed(program, 2))


def test_the_border_of_16_bit_codes_is_the_zero_point() -> None:
    (fill,) = (s for s in steps_of(compile_program(padded())) if isinstance(s, WideFillHalo))
    assert fill.border.value == -1234


def padded() -> Program:
    """A 3×3 layer with a border."""
    rng = np.random.default_rng(3)
    fields: dict[str, Any] = {
        "weight": rng.integers(-127, 128, (8, 3, 3, 4)).astype(np.int8),
        "weight_zero_point": np.zeros(1, np.int32),
        "bias": rng.integers(-1000, 1000, 8).astype(np.int32),
        "rescale": rules.FloatRescale(np.full(8, 2.0**-18, np.float32)),
        "low": 0,
        "high": 255,
        "strides": (1, 1),
        "pads": (1, 1, 1, 1),
        "dilations": (1, 1),
        "groups": 1,
    }
    scale = np.array([0.05], np.float32)
    x, y = Slot("x", (1, 5, 6, 4), "int16", scale, -1234), Slot("y", (1, 5, 6, 8), "uint8", scale, 100)
    step = op.Conv("conv", (0,), (1,), **fields)
    return Program("onnx", (x, y), (step,), (Port("x", 0),), (Port("y", 1),), "net")


def test_no_sum_or_table_of_16_bits_joins_a_layer() -> None:
    """A layer of 8 bits, an Add that writes 16, a table of 256 entries behind an Add that reads 16."""
    layer = EXAMPLES["Conv", "onnx"]
    (step,), (x, y) = layer.instructions, layer.slots
    z = Slot("z", y.shape, "int16", y.scales, 5)
    add = op.Add("add", (1, 1), (2,), rules.FloatSum(3.0, 2.0, 5.0), -32768, 32767)
    other = op.Add("other", (2, 1), (3,), rules.FloatSum(0.125, 0.25, float(y.zero_point)), -128, 127)
    limits = np.iinfo(y.dtype)
    other = replace(other, low=int(limits.min), high=int(limits.max))
    table = np.arange(limits.max, limits.min - 1, -1).astype(y.dtype)
    lookup = op.Lookup("table", (3,), (4,), table, "Neg")
    slots = (x, y, z, replace(y, name="a"), replace(y, name="b"))
    program = replace(layer, slots=slots, instructions=(step, add, other, lookup), outputs=(Port("b", 4),))
    verify(program)
    rows = kinds(program)
    assert rows.count("wide_add") == 2 and rows.count("lookup") == 1
    assert_same_bits(program, fed(program, 3))


def test_weights_stay_those_of_8_bits() -> None:
    (high, low) = (s for s in steps_of(compile_program(beyond(padded()))) if isinstance(s, Conv))
    assert high.depth == low.depth and high.rescale.kind == low.rescale.kind == 0
    (whole,) = (s for s in steps_of(compile_program(padded())) if isinstance(s, WideConv))
    assert whole.layer.weight_bytes == high.weight_bytes


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("depthwise", "widths"), [(False, "16 to 8"), (False, "16 to 16"), *((True, widths) for widths in WIDTHS)]
)
def test_bands_of_rows(stride: int, depthwise: bool, widths: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several images, a border, rows that are no multiple of those of a band."""
    rng = np.random.default_rng((65, stride))
    case = Case(images=2, size=(11, 9), channels=35, multiplier=2, strides=(stride, stride))
    program = program_of(case, 3) if depthwise else images(rng, stride)
    program = widened(rng, program, widths)
    program = program if depthwise else beyond(program)
    verify(program)
    feeds = fed(program, 1)
    monkeypatch.setattr("calib8.engine.emit.wide.BAND_BYTES", 9 * 35 * 8)
    assert kinds(program).count("finish") > 2
    assert_same_bits(program, feeds, threads=(1, 2, 3))
    monkeypatch.setattr("calib8.engine.emit.wide.BAND_BYTES", 1 << 30)
    assert kinds(program).count("finish") == 1
    assert_same_bits(program, feeds)


def test_rows_longer_than_a_run() -> None:
    """Depthwise layers take 64 pixels of a row at a time."""
    rng = np.random.default_rng(66)
    for stride, kernel in ((1, (3, 3)), (2, (3, 3)), (1, (5, 5))):
        case = Case(size=(7, 71), channels=100, kernel=kernel, strides=(stride, stride))
        checked(rng, program_of(case, 4), 5, WIDTHS[stride])


def images(rng: Rng, stride: int) -> Program:
    """A 3×3 layer of two images with 35 channels on either side."""
    program = padded()
    (step,), (x, y) = program.instructions, program.slots
    rows, columns = -(-11 // stride), -(-9 // stride)
    fields: dict[str, Any] = {
        "weight": rng.integers(-127, 128, (35, 3, 3, 35)).astype(np.int8),
        "bias": rng.integers(-1000, 1000, 35).astype(np.int32),
        "rescale": rules.FloatRescale(np.full(35, 2.0**-11, np.float32)),
        "strides": (stride, stride),
    }
    narrow = replace(x, shape=(2, 11, 9, 35), dtype="uint8", zero_point=7)
    slots = (narrow, replace(y, shape=(2, rows, columns, 35)))
    return replace(program, slots=slots, instructions=(replace(step, **fields),))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 7), (5, 31), (2, 32), (7, 33), (3, 64), (2, 257)])
@pytest.mark.parametrize("edges", [False, True])
def test_sums_themselves(rows: int, columns: int, edges: bool) -> None:
    """A layer of 16-bit codes before the end of a graph: what its two halves sum up, and a bias."""
    rng = np.random.default_rng((65, rows, columns))
    depth, largest = 9, 127
    x = Slot("x", (rows, depth), "int16", np.array([0.05], np.float32), -1234)
    y = Slot("y", (rows, columns), "int32", rng.uniform(0.1, 2, columns).astype(np.float32), 0)
    weight = rng.integers(-largest, largest + 1, (columns, depth)).astype(np.int8)
    room = (1 << 31) - 1 - depth * largest * 65535 if edges else 1000
    bias = rng.choice([-room, room, 5], columns).astype(np.int32)
    step = op.FullyConnected("fc", (0,), (1,), weight, np.zeros(1, np.int32), bias, None, 0, 0)
    program = Program("onnx", (x, y), (step,), (Port("x", 0),), (Port("y", 1),), "net")
    verify(program)
    assert "finish" in kinds(program)
    feed = rng.integers(-32768, 32768, x.shape).astype(np.int16)
    feed[0] = rng.choice([-32768, 32767], depth)
    assert_same_bits(program, {"x": feed}, threads=(1, 2, 3))
