"""Kernels that reach beyond their image: fewer products, the same bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conv_cases import code_slot, fused_tail, layer, one_step, with_tail
from decode import steps_of
from generated import SEEDS, pick
from test_wide import WIDTHS, checked

from bits import assert_same_bits
from calib8.engine import dead_taps, steps
from calib8.engine.compile import compile_program
from calib8.engine.dead_taps import Axis
from calib8.program import instructions as op
from calib8.program.program import Program
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify

Rng = np.random.Generator


@pytest.mark.parametrize("seed", range(300))
def test_the_taps_that_an_output_sees(seed: int) -> None:
    rng = np.random.default_rng((95, seed))
    axis = Axis(*(int(value) for value in rng.integers((1, 1, 1, 1, 1, -5), (20, 20, 6, 4, 30, 60))))
    for output in range(axis.outputs):
        rows = [output * axis.stride - axis.pad + tap * axis.dilation for tap in range(axis.kernel)]
        assert list(axis.taps(output)) == [tap for tap, row in enumerate(rows) if 0 <= row < axis.size]
    bands = axis.bands()
    assert [output for band in bands for output in band.outputs] == list(range(axis.outputs))
    assert all(axis.taps(output) == band.taps for band in bands for output in band.outputs)
    live = {tap for output in range(axis.outputs) for tap in axis.taps(output)}
    assert live <= set(axis.live()) and (not live or {min(live), max(live)} <= set(axis.live()))


def reaching(rng: Rng, profile: Profile, depthwise: bool = False) -> Program:
    """A layer whose kernel reaches beyond the image, some of it always."""
    groups = 1 if depthwise else pick(rng, 1, 1, 1, 2)
    inputs, outputs = int(pick(rng, 1, 3, 8, 17, 32)), int(pick(rng, 1, 5, 16, 33))
    sizes = [int(rng.integers(1, 15)) for _ in "rc"]
    kernel = [int(rng.integers(1, 5)) for _ in "rc"]
    dilations = [int(rng.integers(1, 18)) for _ in "rc"]
    strides = [int(pick(rng, 1, 1, 2, 3)) for _ in "rc"]
    reach = [(size - 1) * by + 1 for size, by in zip(kernel, dilations, strict=True)]
    before = [int(rng.integers(0, reach[i])) for i in (0, 1)]
    need = [max(reach[i] - before[i] - sizes[i], 0) for i in (0, 1)]
    behind = [need[i] + int(rng.integers(0, reach[i])) for i in (0, 1)]
    target = [(sizes[i] + before[i] + behind[i] - reach[i]) // strides[i] + 1 for i in (0, 1)]
    x = code_slot(rng, "x", (int(pick(rng, 1, 2)), *sizes, inputs * groups))
    geometry: dict[str, Any] = {
        "strides": tuple(strides), "pads": (*before, *behind), "dilations": tuple(dilations),
    }  # fmt: skip
    if depthwise:
        y = code_slot(rng, "y", (x.shape[0], *target, inputs))
        fields = layer(rng, profile, x, y, (inputs, *kernel, 1))
        fields["weight"] = fields["weight"][..., 0].transpose(1, 2, 0)
        return one_step(profile, x, y, op.DepthwiseConv("layer", (0,), (1,), **fields, **geometry))
    y = code_slot(rng, "y", (x.shape[0], *target, outputs * groups))
    fields = layer(rng, profile, x, y, (outputs * groups, *kernel, inputs))
    return one_step(profile, x, y, op.Conv("layer", (0,), (1,), **fields, **geometry, groups=groups))


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands wherever there are any."""
    monkeypatch.setattr(dead_taps, "SAVED", 0.0001)
    monkeypatch.setattr(dead_taps, "SAVED_PRODUCTS", 0)
    monkeypatch.setattr(dead_taps, "PIXELS_PER_WEIGHT", 0)
    monkeypatch.setattr(dead_taps, "MOST_WINDOWS", 10**6)


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("seed", SEEDS)
def test_random_layers(seed: int) -> None:
    rng = np.random.default_rng((96, seed))
    program = reaching(rng, PROFILES[seed % 3])
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("seed", SEEDS[::2])
def test_what_follows_the_layer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calib8.engine.compile.fuse", fused_tail)
    rng = np.random.default_rng((97, seed))
    program = reaching(rng, PROFILES[seed % 3])
    add, lookup = ((True, False), (True, True), (False, True))[seed // 2 % 3]
    assert_same_bits(with_tail(rng, program, add=add, lookup=lookup), seed=seed)


@pytest.mark.parametrize("seed", SEEDS[::2])
def test_depthwise_layers(seed: int) -> None:
    rng = np.random.default_rng((98, seed))
    program = reaching(rng, PROFILES[seed % 3], depthwise=True)
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("seed", SEEDS[::6])
def test_codes_of_16_bits(seed: int, widths: str) -> None:
    rng = np.random.default_rng((99, seed))
    checked(rng, reaching(rng, PROFILES[seed % 3]), seed, widths)


def pyramid(dilation: int, size: int = 33) -> Program:
    """A layer as DeepLab has it."""
    rng = np.random.default_rng(1)
    x, y = code_slot(rng, "x", (1, size, size, 64)), code_slot(rng, "y", (1, size, size, 32))
    pads = (dilation,) * 4
    step = op.Conv(
        "layer", (0,), (1,), **layer(rng, "onnx", x, y, (32, 3, 3, 64)), strides=(1, 1), pads=pads,
        dilations=(dilation, dilation), groups=1,
    )  # fmt: skip
    return one_step("onnx", x, y, step)


@pytest.mark.parametrize(
    ("dilation", "parts", "products"), [(1, 1, 9), (2, 1, 9), (12, 9, (75 / 33) ** 2), (36, 1, 1)]
)
def test_how_much_is_computed(dilation: int, parts: int, products: float) -> None:
    program = pyramid(dilation)
    plan = compile_program(program)
    layers = [step for step in steps_of(plan) if isinstance(step, steps.Conv)]
    borders = [step for step in steps_of(plan) if isinstance(step, steps.FillHalo)]
    assert len(layers) == parts and bool(borders) == (dilation < 12)
    assert sum(plan.step_macs) == pytest.approx(33 * 33 * products * 32 * 64)
    assert_same_bits(program)


@pytest.mark.parametrize(("size", "dilation"), [(12, 4), (16, 4)])
def test_layers_whose_weights_would_serve_few_pixels_stay_whole(size: int, dilation: int) -> None:
    plan = compile_program(pyramid(dilation, size))
    assert sum(isinstance(step, steps.Conv) for step in steps_of(plan)) == 1


def test_long_images_are_looked_at_once_per_tap() -> None:
    """And not once per output."""
    axis = Axis(10**9, 10**9, 3, 1, 10**6, 10**6)
    assert [(band.outputs.start, band.taps) for band in axis.bands()] == [
        (0, range(1, 3)), (10**6, range(3)), (10**9 - 10**6, range(2)),
    ]  # fmt: skip
    assert axis.live() == range(3)


def test_small_layers_stay_whole() -> None:
    """A step costs more than some thousand products."""
    program = pyramid(12)
    (step,) = program.instructions
    assert isinstance(step, op.Conv)
    few = replace(step, weight=step.weight[..., :1])
    slots = (replace(program.slots[0], shape=(1, 33, 33, 1)), program.slots[1])
    plan = compile_program(replace(program, slots=slots, instructions=(few,)))
    assert sum(isinstance(step, steps.Conv) for step in steps_of(plan)) == 1
