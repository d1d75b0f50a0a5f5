"""Functions behind layers, from the sums on: every instruction set has the reference's bits."""

from __future__ import annotations

import numpy as np
import pytest
from activation_cases import activated
from conv_cases import fused_tail, pointwise, random_connected, random_conv, with_tail
from generated import SEEDS, pick
from test_conv_transpose import transposed
from test_depthwise import CHANNELS, KERNELS, Case, program_of

from bits import assert_same_bits, random_feeds
from calib8.engine.compile import compile_program
from calib8.program.program import Program
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify

KINDS = ("two-sided", "curve")
SHAPES = [(1, 1, 24, 40), (9, 13, 16, 96), (8, 7, 24, 144), (20, 20, 64, 64), (5, 30, 3, 16)]
"""Rows, columns, input and output channels."""


def checked(program: Program, seed: int) -> None:
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_convolutions(seed: int, kind: str) -> None:
    rng = np.random.default_rng((41, seed))
    checked(activated(rng, random_conv(rng, PROFILES[seed % 3]), kind), seed)


@pytest.mark.parametrize("seed", SEEDS[::2])
def test_fully_connected_layers(seed: int) -> None:
    rng = np.random.default_rng((42, seed))
    checked(activated(rng, random_connected(rng, PROFILES[seed % 3])), seed)


@pytest.mark.parametrize("seed", SEEDS[::2])
def test_transposed_convolutions(seed: int) -> None:
    rng = np.random.default_rng((43, seed))
    checked(activated(rng, transposed(rng, PROFILES[seed % 3])), seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_depthwise_convolutions(seed: int, kind: str) -> None:
    rng = np.random.default_rng((44, seed))
    kernel = pick(rng, *KERNELS)
    case = Case(
        images=pick(rng, 1, 1, 2),
        size=(int(rng.integers(kernel[0], 14)), int(rng.integers(kernel[1], 19))),
        channels=pick(rng, *CHANNELS),
        multiplier=pick(rng, 1, 1, 1, 2, 3),
        kernel=kernel,
        strides=pick(rng, (1, 1), (1, 1), (2, 2), (1, 3)),
        pads=tuple(int(rng.integers(0, kernel[axis % 2])) for axis in range(4)),  # type: ignore[arg-type]
        output_type=pick(rng, "uint8", "int8"),
        weight_zero=pick(rng, 0, 0, -100),
        profile=PROFILES[seed % 3],
        factor=pick(rng, 1.0, 1.0, 30.0),
        low=pick(rng, None, 7),
    )
    checked(activated(rng, program_of(case, seed), kind), seed)


@pytest.mark.parametrize("seed", SEEDS[::4])
def test_table_behind_a_function(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calib8.engine.compile.fuse", fused_tail)
    rng = np.random.default_rng((45, seed))
    program = activated(rng, random_conv(rng, PROFILES[seed % 3]))
    assert_same_bits(with_tail(rng, program, add=False, lookup=True), seed=seed)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", range(3))
def test_residuals_stay_alone(seed: int, profile: Profile) -> None:
    """A sum behind a function is a step of its own."""
    rng = np.random.default_rng((46, seed))
    program = with_tail(rng, activated(rng, random_conv(rng, profile)), add=True, lookup=False)
    opcodes = [row.opcode for row in compile_program(program).rows]
    assert "conv" in opcodes and "add" in opcodes
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_shapes_of_networks(size: tuple[int, int, int, int], kind: str) -> None:
    """Shallow and deep pointwise layers, whole panels and parts of them."""
    rng = np.random.default_rng(size)
    rows, columns, depth, outputs = size
    for profile in PROFILES:
        for step in (0, 1):
            program = pointwise(rng, profile, rows, columns, depth, outputs - 5 * step)
            checked(activated(rng, program, kind), step)


def test_outputs_of_the_cases_spread_over_the_codes() -> None:
    """Cases that all saturate would prove nothing."""
    counts = []
    for seed in range(24):
        rng = np.random.default_rng((41, seed))
        program = activated(rng, random_conv(rng, PROFILES[seed % 3]))
        feeds = random_feeds(program, np.random.default_rng(seed))
        counts.append(len(np.unique(run_program(program, feeds)[0])))
    assert np.median(counts) > 15
