"""Transposed convolution, natively and in NumPy, and the phases that it is made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from decode import steps_of
from example_programs import EXAMPLES, codes, floats, single, sums
from generated import SEEDS, clamp, code_slot, pick

from bits import assert_same_bits
from calib8.engine.compile import compile_program
from calib8.engine.phases import phases
from calib8.engine.steps import Conv, FillHalo
from calib8.fixedpoint import encode_multiplier
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.ops.windows import Window, transposed_sizes
from calib8.program.program import Program
from calib8.program.rules import PROFILES, Profile, Rescale
from calib8.program.verify import verify

Rng = np.random.Generator


def rescale_of(rng: Rng, profile: Profile, depth: float, channels: int) -> Rescale:
    """Factors that spread the sums over the codes, one per channel."""
    factors = rng.uniform(0.5, 2, channels) * 60 / (130 * 74 * max(depth, 1) ** 0.5)
    if profile == "onnx":
        return rules.FloatRescale(floats(*factors))
    pairs = np.array([encode_multiplier(float(factor)) for factor in factors], np.int32)
    rounding: Any = "double" if profile == "tflite" else "single"
    return rules.FixedRescale(pairs[:, 0].copy(), pairs[:, 1].copy(), rounding)


def axis(rng: Rng, size: int) -> tuple[Window, int]:
    while True:
        stride, kernel = pick(rng, 1, 2, 2, 3, 4), pick(rng, 1, 2, 3, 4, 5)
        pads = [int(rng.integers(0, kernel + 1)) for _ in range(2)]
        window = Window(size, kernel, stride, pick(rng, 1, 1, 2, 3), *pads)
        sizes = transposed_sizes(window)
        if len(sizes):
            return window, pick(rng, *sizes)


def transposed(rng: Rng, profile: Profile) -> Program:
    groups = pick(rng, 1, 1, 1, 2, 3)
    depth, outputs = pick(rng, 1, 3, 4, 8, 17), pick(rng, 1, 2, 5, 16, 19, 33)
    x = code_slot("x", rng, pick(rng, 1, 2), *(int(size) for size in rng.integers(1, 7, 2)), depth * groups)
    (down, height), (across, width) = axis(rng, x.shape[1]), axis(rng, x.shape[2])
    channels = outputs * groups
    dtype = pick(rng, "int8", "int8", "uint8")
    weight = rng.integers(
        np.iinfo(dtype).min, np.iinfo(dtype).max + 1, (channels, down.kernel, across.kernel, depth)
    )
    points = rng.integers(100, 156, channels) if dtype == "uint8" else np.zeros(1)
    y = code_slot("y", rng, x.shape[0], height, width, channels)
    taps = down.kernel * across.kernel / (down.stride * across.stride)
    fields: dict[str, Any] = {
        "weight": weight.astype(dtype),
        "weight_zero_point": points.astype(np.int32),
        "bias": rng.integers(-9000, 9000, channels).astype(np.int32),
        "strides": (down.stride, across.stride),
        "pads": (down.before, across.before, down.after, across.after),
        "dilations": (down.dilation, across.dilation),
        "groups": groups,
    }
    if rng.random() < 0.2:
        y = sums("y", *y.shape)
        return single(op.ConvTranspose, [x], y, profile, **fields, rescale=None, low=0, high=0)
    rule = rescale_of(rng, profile, depth * taps, channels)
    return single(op.ConvTranspose, [x], y, profile, **fields, rescale=rule, **clamp(rng, y))


@pytest.mark.parametrize("profile", PROFILES)
def test_examples(profile: Profile) -> None:
    assert_same_bits(EXAMPLES["ConvTranspose", profile])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", SEEDS)
def test_conv_transpose(seed: int, profile: Profile) -> None:
    program = transposed(np.random.default_rng((9, seed)), profile)
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize(("kernel", "stride", "pad"), [(2, 2, 0), (4, 2, 1), (3, 2, 1), (1, 3, 0)])
def test_conv_transpose_of_networks(kernel: int, stride: int, pad: int) -> None:
    """A kernel smaller than the stride leaves pixels that are the bias alone."""
    rng = np.random.default_rng(kernel)
    size = (6 - 1) * stride + kernel - 2 * pad + (1 if (kernel, stride) == (3, 2) else 0)
    program = single(
        op.ConvTranspose,
        [codes("x", 1, 6, 6, 24)],
        codes("y", 1, size, size, 40),
        weight=rng.integers(-127, 128, (40, kernel, kernel, 24)).astype(np.int8),
        weight_zero_point=np.zeros(1, np.int32),
        bias=rng.integers(-9000, 9000, 40).astype(np.int32),
        rescale=rescale_of(rng, "onnx", 24, 40),
        low=0,
        high=255,
        strides=(stride,) * 2,
        pads=(pad,) * 4,
        dilations=(1, 1),
        groups=1,
    )
    verify(program)
    assert_same_bits(program)
    assert sum(isinstance(step, Conv) for step in steps_of(compile_program(program))) == stride * stride


def test_every_tap_belongs_to_exactly_one_phase() -> None:
    for kernel, stride, dilation, pad in ((5, 2, 1, 2), (3, 3, 2, 1), (4, 1, 3, 0), (2, 5, 1, 1)):
        found = [index for phase in phases(kernel, stride, dilation, pad, 60) for _, index in phase.taps]
        assert sorted(found) == list(range(kernel))


def test_a_stride_equal_to_the_kernel_needs_no_border() -> None:
    program = EXAMPLES["ConvTranspose", "onnx"]
    step = program.instructions[0]
    fields: dict[str, Any] = {"weight": step.weight[:, :2, :2], "strides": (2, 2), "pads": (0,) * 4}  # type: ignore[attr-defined]
    plan = compile_program(
        replace(
            program,
            slots=(program.slots[0], codes("y", 2, 18, 16, 6)),
            instructions=(replace(step, **fields, dilations=(1, 1)),),
        )
    )
    assert not any(isinstance(part, FillHalo) for part in steps_of(plan))
