"""Layers of few products, for which AVX-512 has tiles without loops, and those beside them: all bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from activation_cases import curve
from conv_cases import code_slot, fused_tail, layer, one_step, pointwise, with_tail
from example_programs import with_step

from bits import assert_same_bits
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.ops.weighted import layer_sums
from calib8.program.program import Program
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify

Rng = np.random.Generator
DEPTHS = (4, 13, 16, 20, 24, 32, 37, 40, 44)
OUTPUTS = (7, 8, 16, 21, 24, 32, 40, 48, 64, 96)
ENDS = ("layer", "relu", "curve", "table", "relu and table")


def program_of(rng: Rng, profile: Profile, depth: int, outputs: int) -> Program:
    """1×1 over ``depth`` channels; a depth of 3 stands for the first layer of a network."""
    rows, columns = int(rng.integers(4, 8)), int(rng.integers(7, 12))
    if depth != 3:
        return pointwise(rng, profile, rows, columns, depth, outputs)
    x = code_slot(rng, "x", (1, 2 * rows, 2 * columns, depth))
    y = code_slot(rng, "y", (1, rows, columns, outputs))
    fields = layer(rng, profile, x, y, (outputs, 3, 3, depth))
    geometry = {"strides": (2, 2), "pads": (0, 0, 1, 1), "dilations": (1, 1), "groups": 1}
    return one_step(profile, x, y, op.Conv("conv", (0,), (1,), **fields, **geometry))


def from_zero(program: Program) -> Program:
    """The layer with the codes of a Relu: zero point and lower end are the least code."""
    x, y = program.slots
    info = np.iinfo(y.dtype)
    return replace(
        with_step(program, low=int(info.min), high=int(info.max)),
        slots=(x, replace(y, zero_point=int(info.min))),
    )


def with_curve(rng: Rng, program: Program) -> Program:
    """… with a curve whose segments are all of 16 bits."""
    (step,) = program.instructions
    assert isinstance(step, op.Conv) and isinstance(step.rescale, rules.FloatRescale | rules.FixedRescale)
    reached = layer_sums(step, program.slots[0])
    largest = np.maximum(-reached.low, reached.high).astype(np.float64)
    rule = replace(curve(rng, step.rescale, largest), shift=rules.CURVE_SHIFT_MAX, first=-16)
    return with_step(program, rescale=rule)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("depth", (3, *DEPTHS))
def test_few_products(depth: int, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calib8.engine.compile.fuse", fused_tail)
    for number, outputs in enumerate(OUTPUTS):
        rng = np.random.default_rng((61, depth, outputs))
        profile = PROFILES[(depth + number) % 3] if end == "layer" else "onnx"
        program = program_of(rng, profile, depth, outputs)
        if "relu" in end:
            program = from_zero(program)
        if end == "curve":
            program = with_curve(rng, program)
            verify(program)
        if "table" in end:
            program = with_tail(rng, program, add=False, lookup=True)
        assert_same_bits(program, seed=outputs)


@pytest.mark.parametrize("profile", PROFILES)
def test_relu_in_every_profile(profile: Profile) -> None:
    for outputs in OUTPUTS[::2]:
        program = from_zero(program_of(np.random.default_rng((62, outputs)), profile, 16, outputs))
        assert_same_bits(program, seed=outputs)
