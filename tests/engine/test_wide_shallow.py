"""Shallow layers with 16-bit codes: every shape of the tiles that take turns, and all of their ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conv_cases import code_slot, layer
from generated import pick
from test_wide import WIDTHS, checked, multiplied, wide_slot

from bits import assert_same_bits
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.program import Port, Program
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify

Rng = np.random.Generator
CHANNELS = (1, 7, 8, 9, 16, 23, 24, 25, 32, 33, 40, 41, 48, 57, 64, 88, 104, 112)
"""Of the last 16, some have up to 8 and some more."""


def shallow(rng: Rng, profile: Profile, outputs: int) -> Program:
    """A layer of 9 × 11 pixels."""
    kernel, inputs = pick(rng, (1, 5), (1, 16), (1, 30), (3, 3), (3, 12))
    stride = pick(rng, 1, 1, 2)
    x = code_slot(rng, "x", (1, 9 * stride, 11 * stride, inputs))
    y = code_slot(rng, "y", (1, 9, 11, outputs))
    pad = kernel // 2
    step = op.Conv(
        "conv",
        (0,),
        (1,),
        **layer(rng, profile, x, y, (outputs, kernel, kernel, inputs)),
        strides=(stride, stride),
        pads=(pad, pad, pad, pad),
        dilations=(1, 1),
        groups=1,
    )
    return Program(profile, (x, y), (step,), (Port("x", 0),), (Port("y", 1),), "net")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("outputs", CHANNELS)
def test_shapes_of_tiles(outputs: int, profile: Profile, widths: str) -> None:
    for seed in range(2):
        rng = np.random.default_rng((74, seed, outputs))
        checked(rng, shallow(rng, profile, outputs), seed, widths)


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("profile", ["onnx", "single"])
@pytest.mark.parametrize("outputs", [16, 24, 32, 40, 48, 64])
def test_ties(outputs: int, profile: Profile, widths: str) -> None:
    """Every eighth of the sums, about, lies between two codes."""
    rng = np.random.default_rng((75, outputs))
    program = shallow(rng, profile, outputs)
    (step,), (x, y) = program.instructions, program.slots
    x = wide_slot(rng, x) if widths != "8 to 16" else x
    y = wide_slot(rng, y) if widths != "16 to 8" else y
    ends = np.iinfo(y.dtype)
    weight = rng.integers(-3, 4, step.weight.shape).astype(np.int8)  # type: ignore[attr-defined]
    fields: dict[str, Any] = {
        "weight": weight,
        "weight_zero_point": np.zeros(1, np.int32),
        "bias": rng.integers(-20, 21, outputs).astype(np.int32),
        "rescale": eighth(profile, outputs, widths != "8 to 16"),
        "low": int(ends.min),
        "high": int(ends.max),
    }
    program = replace(program, slots=(x, y), instructions=(replace(step, **fields),))
    verify(program)
    near = np.clip(
        rng.integers(-20, 21, x.shape) + x.zero_point, np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    )
    assert_same_bits(program, {"x": near.astype(x.dtype)}, threads=(1, 2, 3))


def eighth(profile: Profile, outputs: int, reads_wide: bool) -> Any:
    """The factor 1/8 for all channels."""
    if profile == "onnx":
        return rules.FloatRescale(np.full(outputs, 0.125, np.float32))
    half, shift = np.full(outputs, 1 << 30, np.int32), np.full(outputs, -2, np.int32)
    return multiplied(rules.FixedRescale(half, shift, "single"), 1.0, reads_wide)
