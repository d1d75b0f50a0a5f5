"""The Depthwise step on every instruction set: the reference's bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from example_programs import EXAMPLES, codes, ints, single, sums
from generated import SEEDS, pick

from bits import assert_same_bits
from calib8.engine import compile as compile_module
from calib8.engine.fuse import Work
from calib8.fixedpoint import encode_multipliers
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.ops.windows import Window, conv_size
from calib8.program.program import Port, Program
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify

KERNELS = ((1, 1), (3, 3), (3, 3), (5, 5), (5, 5), (7, 7), (1, 3), (5, 2), (2, 2), (9, 9))
CHANNELS = (1, 3, 5, 16, 17, 24, 32, 40, 48, 63, 64, 65, 80, 96, 130, 144)


@dataclass(frozen=True)
class Case:
    """A layer, all of it that decides which path a kernel takes."""

    images: int = 1
    size: tuple[int, int] = (6, 7)
    channels: int = 17
    multiplier: int = 1
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    dilations: tuple[int, int] = (1, 1)
    input_type: str = "uint8"
    output_type: str = "uint8"
    input_zero: int = 3
    output_zero: int = 5
    weight_type: str = "int8"
    weight_zero: int = 0
    profile: Profile = "onnx"
    factor: float = 1.0
    per_channel: bool = True
    largest_bias: int = 500
    low: int | None = None
    high: int | None = None

    @property
    def output_size(self) -> tuple[int, int]:
        rows, columns = (
            conv_size(
                Window(
                    self.size[axis],
                    self.kernel[axis],
                    self.strides[axis],
                    self.dilations[axis],
                    self.pads[axis],
                    self.pads[axis + 2],
                )
            )
            for axis in (0, 1)
        )
        return rows, columns


def program_of(case: Case, seed: int, *, to_sums: bool = False) -> Program:
    """Codes that use most of their range when the factor of the case is 1."""
    rng = np.random.default_rng(seed)
    outputs = case.channels * case.multiplier
    info = np.iinfo(case.weight_type)
    shape = (*case.kernel, outputs)
    weight = rng.integers(info.min, info.max, shape, dtype=case.weight_type, endpoint=True)
    output = np.iinfo(case.output_type)
    output_shape = (case.images, *case.output_size, outputs)
    fields: dict[str, Any] = {
        "weight": weight,
        "weight_zero_point": ints(case.weight_zero),
        "bias": rng.integers(-case.largest_bias, case.largest_bias + 1, outputs).astype(np.int32),
        "rescale": None if to_sums else rescale_of(case, outputs, rng),
        "low": output.min if case.low is None else case.low,
        "high": output.max if case.high is None else case.high,
        "strides": case.strides,
        "pads": case.pads,
        "dilations": case.dilations,
    }
    x = codes("x", case.images, *case.size, case.channels, zero_point=case.input_zero, dtype=case.input_type)
    y = codes("y", *output_shape, zero_point=case.output_zero, dtype=case.output_type)
    output_slot = sums("y", *output_shape) if to_sums else y
    program = single(op.DepthwiseConv, [x], output_slot, case.profile, **fields)
    verify(program)
    return program


def rescale_of(case: Case, outputs: int, rng: np.random.Generator) -> rules.Rescale:
    """Factors around what spreads the sums over the codes."""
    spread = 256 / (128 * 74 * np.sqrt(4 * case.kernel[0] * case.kernel[1]))
    count = outputs if case.per_channel else 1
    factors: npt.NDArray[np.float64] = case.factor * spread * rng.uniform(0.5, 2, count)
    if case.profile == "onnx":
        return rules.FloatRescale(factors.astype(np.float32))
    multiplier, shift = encode_multipliers(factors)
    return rules.FixedRescale(multiplier, shift, "double" if case.profile == "tflite" else "single")


def random_case(rng: np.random.Generator) -> Case:
    while True:
        input_type, output_type = pick(rng, "uint8", "uint8", "int8"), pick(rng, "uint8", "uint8", "int8")
        weight_type = pick(rng, "int8", "int8", "int8", "uint8")
        kernel = pick(rng, *KERNELS)
        same = (kernel[0] // 2, kernel[1] // 2) * 2
        case = Case(
            images=pick(rng, 1, 1, 2),
            size=(int(rng.integers(1, 16)), int(rng.integers(1, 16))),
            channels=pick(rng, *CHANNELS),
            multiplier=pick(rng, 1, 1, 1, 1, 2, 3, 8),
            kernel=kernel,
            strides=pick(rng, (1, 1), (1, 1), (2, 2), (2, 2), (1, 2), (3, 1)),
            pads=pick(rng, same, same, (0, 0, 0, 0), (2, 0, 1, 3)),
            dilations=pick(rng, (1, 1), (1, 1), (1, 1), (2, 2), (1, 3)),
            input_type=input_type,
            output_type=output_type,
            input_zero=zero_point(rng, input_type),
            output_zero=zero_point(rng, output_type),
            weight_type=weight_type,
            weight_zero=zero_point(rng, weight_type) if rng.random() < 0.3 else 0,
            profile=pick(rng, *PROFILES),
            factor=pick(rng, 1.0, 1.0, 1.0, 0.1, 30.0),
            per_channel=pick(rng, True, True, False),
            largest_bias=pick(rng, 500, 10000, 1 << 25),
        )
        if min(case.output_size) >= 1 and case.channels * case.multiplier <= 400:
            return case


def zero_point(rng: np.random.Generator, dtype: str) -> int:
    info = np.iinfo(dtype)
    return int(rng.choice([info.min, info.max, int(rng.integers(info.min, info.max + 1))]))


@pytest.mark.parametrize("profile", PROFILES)
def test_example(profile: Profile) -> None:
    assert_same_bits(EXAMPLES["DepthwiseConv", profile])


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_layers(seed: int) -> None:
    case = random_case(np.random.default_rng([seed, 7]))
    assert_same_bits(program_of(case, seed), seed=seed)


def mobile_case(kernel: int, stride: int, channels: int, **fields: Any) -> Case:
    """A layer as networks for phones have it: the border of half a kernel."""
    sides: Any = {"kernel": (kernel, kernel), "strides": (stride, stride), "pads": (kernel // 2,) * 4}
    return Case(size=(9, 12), channels=channels, **sides, **fields)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("channels", [8, 32, 48, 64, 80, 144])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_shapes_of_mobile_networks(kernel: int, stride: int, channels: int, profile: Profile) -> None:
    case = mobile_case(kernel, stride, channels, profile=profile, low=9, high=240)
    assert_same_bits(program_of(case, channels))


@pytest.mark.parametrize("channels", [8, 32, 48, 64, 144])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_codes_of_a_relu(kernel: int, stride: int, channels: int) -> None:
    """From zero point 0 on, all codes of uint8: nothing is added, and nothing is clamped."""
    assert_same_bits(program_of(mobile_case(kernel, stride, channels, output_zero=0), channels))


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (2, 1), (5, 40), (40, 3)])
@pytest.mark.parametrize("kernel", [3, 5])
def test_narrow_and_long_images(kernel: int, size: tuple[int, int]) -> None:
    pad = kernel // 2
    case = Case(images=2, size=size, channels=70, kernel=(kernel, kernel), pads=(pad, pad, pad, pad))
    assert_same_bits(program_of(case, kernel))


@pytest.mark.parametrize("profile", PROFILES)
def test_sums_are_stored(profile: Profile) -> None:
    for channels in (5, 64, 83):
        assert_same_bits(program_of(Case(channels=channels, profile=profile), channels, to_sums=True))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("factor", [0.0, 1e-12, 200.0, 1e4, 1e7])
def test_factors_beyond_the_usual(profile: Profile, factor: float) -> None:
    """Dead channels, all sums saturated, products that leave int32."""
    case = Case(channels=70, profile=profile, factor=factor, largest_bias=1 << 16, output_zero=100)
    if profile == "tflite":
        case = replace(case, factor=min(factor, 200.0))
    assert_same_bits(program_of(case, 1))


@pytest.mark.parametrize("profile", PROFILES)
def test_ties(profile: Profile) -> None:
    """Factors of a quarter and an eighth: every fourth or eighth sum lies half way between two codes."""
    case = Case(size=(11, 11), channels=66, profile=profile, output_zero=127)
    program = program_of(case, 3)
    step = program.instructions[0]
    assert isinstance(step, op.DepthwiseConv)
    factors = np.where(np.arange(66) % 2 == 0, 0.25, 0.125)
    if profile == "onnx":
        rule: rules.Rescale = rules.FloatRescale(factors.astype(np.float32))
    else:
        multiplier, shift = encode_multipliers(factors)
        rule = rules.FixedRescale(multiplier, shift, "double" if profile == "tflite" else "single")
    small = replace(step, weight=(step.weight // 64).astype(np.int8), rescale=rule)
    assert_same_bits(replace(program, instructions=(small,)))


def test_more_threads_than_rows() -> None:
    for size in ((1, 9), (3, 7), (14, 14)):
        program = program_of(Case(size=size, channels=144), 5)
        assert_same_bits(program, threads=(3, 7))


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("rows", [7, 13, 14, 27, 28])
def test_rows_cut_between_pairs(rows: int, stride: int, kernel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads begin and end at odd rows where that makes their shares even, also with a table behind."""
    case = replace(mobile_case(kernel, stride, 40, output_zero=80), size=(rows * stride, 15))
    program = program_of(case, 5)
    assert_same_bits(program, threads=(2, 3, 4, 6))
    assert_same_with_table(with_table(program, 1), monkeypatch, threads=(2, 4))


def test_images_in_bands() -> None:
    """So large that a thread takes some rows with all channels before the next ones."""
    program = program_of(Case(size=(60, 70), channels=144, output_zero=80), 2)
    assert_same_bits(program)
    program = program_of(Case(size=(61, 70), channels=96, kernel=(5, 5), strides=(2, 2)), 3)
    assert_same_bits(program)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("dilations", [(1, 2), (2, 1), (2, 2), (3, 2), (4, 4), (7, 3)])
def test_dilations(dilations: tuple[int, int], kernel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers that fall apart into layers without, with codes, sums, and a table; rows in several threads."""
    rows, columns = (size * (kernel // 2) for size in dilations)
    for channels, size in ((8, (5, 19)), (70, (17, 16)), (16, (2, 30))):
        case = Case(
            images=2, channels=channels, size=size, kernel=(kernel, kernel), dilations=dilations,
            pads=(rows, columns, rows, columns), output_zero=80,
        )  # fmt: skip
        assert_same_bits(program_of(case, kernel), threads=(1, 2, 3))
        assert_same_bits(program_of(case, kernel, to_sums=True), threads=(1, 2))
        with monkeypatch.context() as patched:
            assert_same_with_table(with_table(program_of(case, kernel), 1), patched)


def with_table(layer: Program, seed: int) -> Program:
    """The layer, and a table of other codes behind it."""
    hidden, y = layer.slots[1], replace(layer.slots[1], name="z", dtype="uint8", zero_point=40)
    table = np.random.default_rng(seed).integers(0, 256, 256).astype(np.uint8)
    lookup = op.Lookup("table", (1,), (2,), table, "Sigmoid")
    return replace(
        layer,
        slots=(layer.slots[0], hidden, y),
        instructions=(*layer.instructions, lookup),
        outputs=(Port("z", 2),),
    )


def assert_same_with_table(program: Program, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """A fused Lookup gives the bits of the two instructions."""
    layer, lookup = program.instructions[:2]
    assert isinstance(lookup, op.Lookup)
    both = Work(layer, (0,), 2, lookup=lookup)
    monkeypatch.setattr(compile_module, "fuse", lambda _: [both])
    assert_same_bits(program, **options)


@pytest.mark.parametrize("channels", [17, 64, 100, 130])
def test_table_behind_the_layer(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(channels=channels, size=(9, 9), output_type="int8", output_zero=-11)
    assert_same_with_table(with_table(program_of(case, channels), channels), monkeypatch)


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_behind_generated_layers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = program_of(random_case(np.random.default_rng([63, seed])), seed)
    assert_same_with_table(with_table(layer, seed), monkeypatch, seed=seed)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("factor", [1e-12, 200.0])
def test_tables_behind_factors_beyond_the_usual(
    profile: Profile, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for channels in (8, 70):
        layer = program_of(Case(channels=channels, profile=profile, factor=factor), 3)
        assert_same_with_table(with_table(layer, 3), monkeypatch)


@pytest.mark.parametrize("factor", [1.0, 1e5])
@pytest.mark.parametrize("channels", [3, 8, 24, 70])
def test_a_table_behind_a_layer_that_writes_into_a_concat(channels: int, factor: float) -> None:
    """The pixels of the layer have gaps: what lies in them stays."""
    case = Case(channels=channels, size=(9, 11), factor=factor)
    program = with_table(program_of(case, channels), channels)
    wide = replace(program.slots[2], name="both", shape=(*program.slots[2].shape[:3], 2 * channels))
    joined = replace(
        program,
        slots=(*program.slots, wide),
        instructions=(*program.instructions, op.Concat("concat", (2, 2), (3,), 3)),
        outputs=(Port("both", 3),),
    )
    assert_same_bits(joined)


def test_most_codes_lie_inside_their_range() -> None:
    """The cases above would find a wrong rounding."""
    inside = []
    for seed in range(12):
        program = program_of(Case(channels=40), seed)
        rng = np.random.default_rng(seed)
        feeds = {"x": rng.integers(0, 256, (1, 6, 7, 40)).astype(np.uint8)}
        (result,) = run_program(program, feeds)
        inside.append(np.mean((result > 0) & (result < 255)))
    assert np.mean(inside) > 0.4


@pytest.mark.parametrize("profile", ["tflite", "single"])
@pytest.mark.parametrize("kernel", [1, 3, 5, 7])
@pytest.mark.parametrize("low", [0, 9])
def test_shifts_of_both_directions(profile: Profile, kernel: int, low: int) -> None:
    """Small weights with factors from 2^-10 to 2^8 in one block, ties among them; every stride of a block."""
    pad, rng = kernel // 2, np.random.default_rng(kernel)
    for channels in (16, 70, 200):
        case = Case(
            size=(9, 13), channels=channels, kernel=(kernel, kernel), pads=(pad, pad, pad, pad),
            strides=(1, 1) if channels != 70 else (2, 2), profile=profile, output_zero=9, low=low, high=250,
        )  # fmt: skip
        program = program_of(case, channels)
        step = program.instructions[0]
        assert isinstance(step, op.DepthwiseConv)
        factors = np.exp2(rng.integers(-10, 9, channels)) * rng.choice([1.0, 0.75, 0.9999, 0.5001], channels)
        multiplier, shift = encode_multipliers(factors)
        rule = rules.FixedRescale(multiplier, shift, "double" if profile == "tflite" else "single")
        weight = np.where(factors > 1, step.weight // 100, step.weight // 8).astype(np.int8)
        bias = np.where(factors > 1, step.bias // 50, step.bias).astype(np.int32)
        assert_same_bits(
            replace(program, instructions=(replace(step, weight=weight, bias=bias, rescale=rule),))
        )


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("output_type", ["uint8", "int8"])
def test_dead_channels(profile: Profile, output_type: str) -> None:
    """Biases of 2^30 beside weights that cannot move the code, and those that just can."""
    case = Case(size=(9, 13), channels=70, profile=profile, output_type=output_type, output_zero=20)
    program = program_of(case, 5)
    step = program.instructions[0]
    assert isinstance(step, op.DepthwiseConv)
    dead = np.arange(70) % 3 == 0
    bias = np.where(
        dead, np.array([1 << 30, -(1 << 30), (1 << 30) - 77, 900_000_000])[np.arange(70) % 4], step.bias
    )
    factors = np.where(dead, np.exp2(-24.5 - np.arange(70) % 7), 2.0**-8)
    weight = np.where(dead, step.weight // 120, step.weight).astype(np.int8)
    if profile == "onnx":
        rule: rules.Rescale = rules.FloatRescale(factors.astype(np.float32))
    else:
        multiplier, shift = encode_multipliers(factors)
        rule = rules.FixedRescale(multiplier, shift, "double" if profile == "tflite" else "single")
    assert_same_bits(
        replace(
            program,
            instructions=(replace(step, weight=weight, bias=bias.astype(np.int32), rescale=rule),),
        )
    )
