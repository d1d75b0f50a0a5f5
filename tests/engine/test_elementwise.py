"""Elementwise steps: the bits of the reference for every rule, shape and place in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conv_cases import keep_fixed_sums
from decode import steps_of
from elementwise_cases import KINDS, SHAPES, every_pair, make_program, random_program
from example_programs import EXAMPLES, codes, floats, ints, single, sums, with_step
from gaps import run_in_gaps
from generated import CASES, SEEDS

from bits import ISAS, THREADS, assert_same_bits, random_feeds
from calib8.engine.compile import compile_program
from calib8.engine.fuse import Work
from calib8.engine.steps import Add, AddSums, Lookup, Mul
from calib8.fixedpoint import INT32_MAX, INT32_MIN
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.program import Port, Program
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile

PAIR_KINDS = ("Add", "Sub", "Mul", "Maximum", "Minimum")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", KINDS)
def test_examples(name: str, profile: Profile) -> None:
    assert_same_bits(EXAMPLES[name, profile])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", KINDS)
def test_all_ways_to_broadcast(kind: str, profile: Profile) -> None:
    rng = np.random.default_rng([len(kind), PROFILES.index(profile)])
    for shapes in SHAPES:
        assert_same_bits(make_program(kind, profile, shapes, rng), seed=1)


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_programs(seed: int) -> None:
    program = random_program(np.random.default_rng([41, seed]))
    feeds = random_feeds(program, np.random.default_rng(seed))
    assert_same_bits(program, feeds)


def test_generated_programs_are_not_all_saturated() -> None:
    """Of the results with room for many codes, nearly all have many."""
    many = []
    for seed in SEEDS:
        program = random_program(np.random.default_rng([41, seed]))
        result = run_program(program, random_feeds(program, np.random.default_rng(seed)))[0]
        if result.size > 200:
            many.append(np.unique(result).size > 10)
    assert len(many) > CASES // 4 and np.mean(many) > 0.8


@pytest.mark.parametrize("seed", SEEDS)
def test_tensors_with_gaps(seed: int) -> None:
    rng = np.random.default_rng([43, seed])
    program = random_program(rng)
    feeds = random_feeds(program, rng)
    wanted = run_program(program, feeds)[0]
    for isa in ISAS:
        for threads in THREADS:
            np.testing.assert_array_equal(run_in_gaps(program, feeds, rng, isa, threads), wanted, err_msg=isa)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", PAIR_KINDS)
def test_every_pair_of_codes(
    kind: str, profile: Profile, fixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fixed:
        keep_fixed_sums(monkeypatch)
    rng = np.random.default_rng([7, len(kind), PROFILES.index(profile)])
    programs = [make_program(kind, profile, ((256, 1), (1, 256)), rng) for _ in range(12)]
    lively = [
        program for program in programs if np.unique(run_program(program, every_pair(program))[0]).size > 50
    ]
    assert len(lively) >= 3
    for program in lively[:3]:
        assert_same_bits(program, every_pair(program), threads=(2,))


ODD_SUMS: dict[str, tuple[Profile, rules.SumRule]] = {
    "infinite": ("onnx", rules.FloatSum(3.0e38, 1.0e36, -3.0e38)),
    "ties": ("onnx", rules.FloatSum(0.5, 0.5, 0.0)),
    "all zero": ("onnx", rules.FloatSum(0.0, 0.0, 7.5)),
    "no bits left": ("single", rules.AlignedSum(1 << 21, 1 << 21, 62)),
    "half a bit": ("single", rules.AlignedSum(1 << 21, 1, 31)),
    "one bit": ("single", rules.AlignedSum(1 << 21, 3, 1)),
    "ties, integers": ("single", rules.AlignedSum(1 << 20, 1 << 20, 21)),
    "ties, twice rounded": ("tflite", rules.ScaledSum(20, (1 << 30, 0), (1 << 30, 0), (1 << 30, -19))),
    "small left side": ("tflite", rules.ScaledSum(20, (1234567890, -31), (1 << 30, 0), (1 << 30, -18))),
    "nothing": ("tflite", rules.ScaledSum(20, (0, 0), (0, 0), (0, 0))),
    "narrow side between codes": (
        "tflite",
        rules.ScaledSum(20, (1 << 30, 0), (1610610176, 0), (1 << 30, -18)),
    ),
    "half and left shift": ("tflite", rules.ScaledSum(20, (1 << 30, 0), (1 << 30, -19), (1 << 30, 1))),
    "left shift": ("tflite", rules.ScaledSum(20, (1 << 30, -27), (1 << 30, -27), (1 << 30, 5))),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("name", ODD_SUMS)
def test_sums_at_the_edge_of_their_rule(name: str, fixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if fixed:
        keep_fixed_sums(monkeypatch)
    profile, rule = ODD_SUMS[name]
    a, b, y = codes("a", 256, 1, dtype="int8", zero_point=-128), codes("b", 1, 256), codes("y", 256, 256)
    program = single(op.Add, [a, b], y, profile, rule=rule, low=1, high=254)
    assert_same_bits(program, every_pair(program))
    if not isinstance(rule, rules.FloatSum):
        opposite = single(op.Sub, [a, b], y, profile, rule=rule, low=0, high=255)
        assert_same_bits(opposite, every_pair(opposite))


@pytest.mark.parametrize("output", ["uint8", "int8"])
@pytest.mark.parametrize("rounding", ["double", "single", "away"])
def test_requantize_of_any_sum_by_any_shift(rounding: Any, output: str) -> None:
    rng = np.random.default_rng(len(rounding))
    shift = np.arange(-31, 31)
    multiplier = rng.integers(1 << 30, 1 << 31, shift.size)
    multiplier[::7], multiplier[1], multiplier[2] = 1 << 30, 0, INT32_MAX
    rule = rules.FixedRescale(multiplier.astype(np.int32), shift.astype(np.int32), rounding)
    x = sums("x", 400, shift.size)
    y = codes("y", 400, shift.size, dtype=output)
    profile: Profile = "single" if rounding == "single" else "tflite"
    info = np.iinfo(output)
    program = single(op.Requantize, [x], y, profile, rescale=rule, low=int(info.min), high=int(info.max))
    assert_same_bits(program, {"x": sums_around(shift, rng)})


def sums_around(shift: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """[400, channels]: sums that become codes, ties among them, and the ends of int32."""
    wide = np.minimum(2.0 ** (8 - shift), 2.0**31 - 1)
    values = np.rint(rng.uniform(-1, 1, (400, shift.size)) * wide).astype(np.int64)
    half = np.maximum(2.0 ** (-shift), 1).astype(np.int64)
    values[100:200] = rng.integers(-255, 256, (100, shift.size)) * half
    values[0], values[1], values[2] = INT32_MIN, INT32_MAX, 0
    return np.clip(values, INT32_MIN, INT32_MAX).astype(np.int32)


def test_requantize_in_float_saturates_and_takes_ties_to_even() -> None:
    rule = rules.FloatRescale(floats(0.5, 1.0e-9, 3.0e38, 0.0, 0.25))
    x, y = sums("x", 64, 5), codes("y", 64, 5, dtype="int8", zero_point=-3)
    values = np.random.default_rng(2).integers(-500, 500, (64, 5)).astype(np.int32)
    values[0], values[1] = INT32_MIN, INT32_MAX
    program = single(op.Requantize, [x], y, "onnx", rescale=rule, low=-128, high=127)
    assert_same_bits(program, {"x": values})


@pytest.mark.parametrize("profile", PROFILES)
def test_sums_of_sums_at_the_ends_of_int32(profile: Profile) -> None:
    rng = np.random.default_rng(5)
    shift = rng.integers(1, 63, 65)
    factors = [rng.integers(1 << 28, (1 << 30) + 1, 65) for _ in range(2)]
    rule = None if profile == "onnx" else rules.AlignedSums(*(ints(*part) for part in (*factors, shift)))
    scales = rng.uniform(1e-9, 1e-7, 65).tolist()
    a, b = sums("a", 40, 65, scales=scales), sums("b", 40, 65, scales=scales[::-1])
    values = [rng.integers(INT32_MIN, INT32_MAX + 1, (40, 65)).astype(np.int32) for _ in range(2)]
    values[0][0], values[1][0], values[0][1], values[1][1] = INT32_MIN, INT32_MIN, INT32_MAX, INT32_MAX
    values[0][20:], values[1][20:] = values[0][20:] >> 14, values[1][20:] >> 16
    program = single(op.AddSums, [a, b], codes("y", 40, 65), profile, rule=rule, low=0, high=255)
    assert_same_bits(program, {"a": values[0], "b": values[1]})


def test_products_that_overflow_float32() -> None:
    a, b, y = codes("a", 256, 1), codes("b", 1, 256, zero_point=200), codes("y", 256, 256, zero_point=7)
    for factor in (3.0e38, 0.0, 0.5):
        program = single(op.Mul, [a, b], y, "onnx", rescale=rules.FloatProduct(factor), low=2, high=250)
        assert_same_bits(program, every_pair(program))


def beside_itself(program: Program) -> Program:
    """The result twice in one tensor, whose pixels have gaps for who writes one of them."""
    *images, channels = program.slots[-1].shape
    both = replace(program.slots[-1], name="both", shape=(*images, 2 * channels))
    last = len(program.slots)
    joined = op.Concat("concat", (last - 1, last - 1), (last,), 3)
    return replace(
        program,
        slots=(*program.slots, both),
        instructions=(*program.instructions, joined),
        outputs=(Port("both", last),),
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("channels", [1, 8, 24, 63, 96, 144, 600, 2100, 4200])
def test_gates_of_channels(channels: int, left: bool) -> None:
    """One side has a code per channel and image; with and without a zero point, a clamp, a large factor."""
    rng = np.random.default_rng([channels, left])
    x = codes("x", 3, 5, 7, channels, zero_point=100)
    gate = codes("gate", 3, 1, 1, channels, zero_point=3, dtype="int8")
    sides = [gate, x] if left else [x, gate]
    for factor, low, high, zero_point in ((0.003, 0, 255, 0), (0.003, 3, 200, 90), (2e4, 0, 255, 128)):
        y = codes("y", 3, 5, 7, channels, zero_point=zero_point)
        rule = rules.FloatProduct(factor * float(rng.uniform(0.5, 2)))
        assert_same_bits(single(op.Mul, sides, y, "onnx", rescale=rule, low=low, high=high))
    gates = codes("a", 3, 1, 1, channels), codes("b", 3, 1, 1, channels, zero_point=9)
    y, rule = codes("y", 3, 1, 1, channels), rules.FloatProduct(0.004)
    assert_same_bits(single(op.Mul, gates, y, "onnx", rescale=rule, low=0, high=255))
    if channels < 100:
        assert_same_bits(
            beside_itself(
                single(op.Mul, sides, codes("y", 3, 5, 7, channels), "onnx", rescale=rule, low=0, high=255)
            )
        )


def test_operands_that_are_the_same_tensor() -> None:
    square = single(
        op.Mul, [codes("a", 3, 70)], codes("y", 3, 70), rescale=rules.FloatProduct(0.01), low=0, high=255
    )
    program = with_step(square, inputs=(0, 0))
    assert_same_bits(program)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", ["Add", "Sub"])
def test_a_table_behind_a_sum(kind: str, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    program = make_program(kind, profile, ((2, 9, 7, 24), (2, 1, 1, 24)), rng)
    table = rng.integers(-128, 128, 256).astype(np.int8)
    lookup = op.Lookup("table", (2,), (3,), table, "any")
    last = codes("z", 2, 9, 7, 24, dtype="int8")
    fused = replace(
        program,
        slots=(*program.slots, last),
        instructions=(*program.instructions, lookup),
        outputs=(Port("z", 3),),
    )
    works = [Work(program.instructions[0], (0, 1), 3, lookup=lookup)]
    monkeypatch.setattr("calib8.engine.compile.fuse", lambda _: works)
    assert step_of(fused, Add).table >= 0
    assert_same_bits(fused)


def test_axes_are_merged() -> None:
    """One long axis where nothing is between; the channels stay where parameters belong to them."""
    dense = make("Add", ((2, 7, 5, 24), (2, 7, 5, 24)))
    assert step_of(dense, Add).pair.sizes == (1, 1, 1, 1, 1, 2 * 7 * 5 * 24)
    gate = make("Mul", ((2, 7, 5, 24), (2, 1, 1, 24)))
    assert step_of(gate, Mul).pair.sizes == (1, 1, 1, 2, 35, 24)
    assert step_of(gate, Mul).pair.rhs_strides[3:] == (24, 0, 1)
    table = EXAMPLES["Lookup", "onnx"]
    assert step_of(table, Lookup).tensors.sizes == (1, 1, 1, 1, 2, 3)
    added = step_of(EXAMPLES["AddSums", "onnx"], AddSums)
    assert added.per_channel == 1 and added.pair.sizes[-1] == 4


DEEP = (2, 1) * 4, (1, 2) * 4
"""Operands that take turns to repeat: none of the eight axes of their result can be merged."""


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", [*PAIR_KINDS, "AddSums"])
def test_more_axes_than_a_step_has_loops(kind: str, profile: Profile) -> None:
    program = make_program(kind, profile, DEEP, np.random.default_rng(len(kind)))
    assert sum(row.opcode != "copy" for row in compile_program(program).rows) == 4
    assert_same_bits(program)


@pytest.mark.parametrize("kind", KINDS)
def test_more_axes_with_gaps_than_a_step_has_loops(kind: str) -> None:
    """Eleven axes: those of which gaps keep more than six apart make several steps."""
    rng = np.random.default_rng(len(kind))
    shape = (2,) * 10 + (3,)
    for profile in PROFILES:
        program = make_program(kind, profile, (shape, shape), rng)
        feeds = random_feeds(program, rng)
        wanted = run_program(program, feeds)[0]
        for isa in ISAS:
            np.testing.assert_array_equal(run_in_gaps(program, feeds, rng, isa, 2), wanted, err_msg=isa)


def make(kind: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Program:
    return make_program(kind, "onnx", shapes, np.random.default_rng(0))


def step_of(program: Program, kind: type[Any]) -> Any:
    (step,) = (step for step in steps_of(compile_program(program)) if isinstance(step, kind))
    return step


def test_equal_tables_of_all_channels_are_one_table() -> None:
    table = np.tile(np.arange(255, -1, -1, dtype=np.uint8), (3, 1))
    program = single(op.Lookup, [codes("x", 50, 3)], codes("y", 50, 3), table=table, function="Neg")
    assert step_of(program, Lookup).per_channel == 0
    assert_same_bits(program)
