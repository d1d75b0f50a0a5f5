"""Fixed-point rescales in float32: sums around every tie, shifts on both sides of what float32 can do."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from conv_cases import keep_fixed_sums, one_step
from generated import SEEDS

from bits import assert_same_bits
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.program import Port, Program, Slot
from calib8.program.reference.executor import run_program
from calib8.program.rules import Profile

SIDE: Final = 16
"""Pixels per axis of an image that holds all codes once."""

CHANNELS: Final = 96
LARGEST: Final = (1 << 30) - (1 << 16)
Rng = np.random.Generator


def factors(rng: Rng, least: int, most: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Multipliers and shifts; exact powers of two, for their ties, and the ends of the range among them."""
    multiplier = rng.integers(1 << 30, 1 << 31, CHANNELS)
    multiplier[::5] = 1 << 30
    multiplier[1::11] = (1 << 31) - 1
    multiplier[2::17] = (1 << 30) + 64
    multiplier[3::29] = 0
    shift = rng.integers(least, most + 1, CHANNELS)
    return multiplier.astype(np.int32), shift.astype(np.int32)


def fields(rng: Rng, profile: Profile, zero_point: int, span: tuple[int, int]) -> dict[str, Any]:
    """Biases that put the sums around (k + 1/2) / factor for some code k, or far outside."""
    multiplier, shift = factors(rng, *span)
    factor = np.maximum(multiplier, 1 << 30) * np.exp2(shift - 31.0)
    codes = rng.integers(-255, 256, CHANNELS)
    bias = np.rint((codes + 0.5) / factor)
    bias[::7] = 0
    bias[4::31], bias[5::31] = LARGEST, -LARGEST
    low = int(rng.choice([0, zero_point // 2, zero_point]))
    rounding = "single" if profile == "single" else "double"
    return {
        "bias": np.clip(bias, -LARGEST, LARGEST).astype(np.int32),
        "weight_zero_point": np.zeros(1, np.int32),
        "rescale": rules.FixedRescale(multiplier, shift, rounding),  # type: ignore[arg-type]
        "low": low,
        "high": int(rng.choice([255, 240])),
    }


def small_weights(rng: Rng) -> npt.NDArray[np.int8]:
    """Mostly 1, so that a pixel's code moves the sum by single units."""
    values: npt.NDArray[np.int8] = rng.choice([1, 1, 1, -1, 3, 127], CHANNELS).astype(np.int8)
    return values


def conv(rng: Rng, profile: Profile, inputs: int, span: tuple[int, int]) -> Program:
    """1×1, all weights but those of the first input channel 0."""
    zero_point = int(rng.choice([0, 100, 180]))
    x = Slot("x", (1, SIDE, SIDE, inputs), "uint8", np.array([0.05], np.float32), 128)
    y = Slot("y", (1, SIDE, SIDE, CHANNELS), "uint8", np.array([0.05], np.float32), zero_point)
    weight = np.zeros((CHANNELS, 1, 1, inputs), np.int8)
    weight[:, 0, 0, 0] = small_weights(rng)
    step = fields(rng, profile, zero_point, span)
    geometry = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "groups": 1}
    return one_step(profile, x, y, op.Conv("conv", (0,), (1,), weight=weight, **step, **geometry))


def depthwise(rng: Rng, profile: Profile, kernel: int, span: tuple[int, int]) -> Program:
    """k×k, all weights but those of the middle 0."""
    zero_point = int(rng.choice([0, 100, 180]))
    x = Slot("x", (1, SIDE, SIDE, CHANNELS), "uint8", np.array([0.05], np.float32), 128)
    y = Slot("y", (1, SIDE, SIDE, CHANNELS), "uint8", np.array([0.05], np.float32), zero_point)
    weight = np.zeros((kernel, kernel, CHANNELS), np.int8)
    weight[kernel // 2, kernel // 2] = small_weights(rng)
    step = fields(rng, profile, zero_point, span)
    edge = kernel // 2
    geometry = {"strides": (1, 1), "pads": (edge, edge, edge, edge), "dilations": (1, 1)}
    return one_step(profile, x, y, op.DepthwiseConv("deep", (0,), (1,), weight=weight, **step, **geometry))


def every_code(program: Program) -> dict[str, npt.NDArray[Any]]:
    shape = program.slots[0].shape
    codes = np.arange(SIDE * SIDE, dtype=np.uint8).reshape(1, SIDE, SIDE, 1)
    return {"x": np.ascontiguousarray(np.broadcast_to(codes, shape))}


SPANS: Final = ((-14, -1), (-9, -6), (-16, -1))
"""Shifts: all that float32 can do, those of real layers, and some beyond."""


@pytest.mark.parametrize("seed", SEEDS[::4])
@pytest.mark.parametrize("profile", ["single", "tflite"])
def test_sums_around_ties(profile: Profile, seed: int) -> None:
    rng = np.random.default_rng((5, seed))
    span = SPANS[seed % 3]
    programs = [conv(rng, profile, 1, span), conv(rng, profile, 300, span)]
    programs += [depthwise(rng, profile, kernel, (span[0], min(span[1], -2))) for kernel in (1, 3, 5)]
    found = [np.unique(run_program(program, every_code(program))[0]).size for program in programs]
    assert max(found) > 50 and min(found) > 10
    for program in programs:
        assert_same_bits(program, every_code(program), threads=(1,))


@pytest.mark.parametrize("seed", SEEDS[::4])
@pytest.mark.parametrize("profile", ["single", "tflite"])
def test_residuals_behind_sums_around_ties(
    profile: Profile, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half the residual is added to the code, of which nothing is lost."""
    if seed // 4 % 2:
        keep_fixed_sums(monkeypatch)
    rng = np.random.default_rng((6, seed))
    program = conv(rng, profile, (1, 300)[seed % 2], SPANS[seed % 3])
    layer, y = program.instructions[0], program.slots[1]
    residual = Slot("residual", y.shape, "uint8", y.scales, 0)
    total = Slot("sum", y.shape, "uint8", y.scales, y.zero_point)
    rule: rules.SumRule = rules.AlignedSum(1 << 20, 1 << 19, 20)
    if profile == "tflite":
        rule = rules.ScaledSum(20, (1 << 30, 0), (1 << 30, -1), (1 << 30, -18))
    inputs = (1, 2) if seed % 4 < 2 else (2, 1)
    add = op.Add("add", inputs, (3,), rule, 0, 255)
    ports = (Port("x", 0), Port("residual", 2))
    whole = Program(profile, (*program.slots, residual, total), (layer, add), ports, (Port("y", 3),), "net")
    feeds = every_code(program) | {"residual": rng.integers(0, 256, y.shape).astype(np.uint8)}
    assert_same_bits(whole, feeds, threads=(1,))
