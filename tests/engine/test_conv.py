"""Convolutions and fully connected layers run natively with the reference's bits."""

from __future__ import annotations

import numpy as np
import pytest
from conv_cases import fused_tail, keep_fixed_sums, random_connected, random_conv, with_tail
from example_programs import EXAMPLES
from generated import SEEDS

from bits import assert_same_bits, random_feeds
from calib8.program import instructions as op
from calib8.program.program import Program
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile

LAYERS = ("Conv", "Conv of uint8", "FullyConnected", "FullyConnected to sums")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", LAYERS)
def test_examples(name: str, profile: Profile) -> None:
    assert_same_bits(EXAMPLES[name, profile])


@pytest.mark.parametrize("seed", SEEDS)
def test_random_convolutions(seed: int) -> None:
    rng = np.random.default_rng((1, seed))
    assert_same_bits(random_conv(rng, PROFILES[seed % 3]), seed=seed)


@pytest.mark.parametrize("seed", SEEDS[::2])
def test_random_fully_connected_layers(seed: int) -> None:
    rng = np.random.default_rng((2, seed))
    assert_same_bits(random_connected(rng, PROFILES[seed % 3]), seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_residuals_and_tables_in_the_same_step(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calib8.engine.compile.fuse", fused_tail)
    if seed // 6 % 2:
        keep_fixed_sums(monkeypatch)
    rng = np.random.default_rng((3, seed))
    program = random_conv(rng, PROFILES[seed % 3])
    add, lookup = ((True, False), (True, True), (True, False), (False, True))[seed // 3 % 4]
    assert_same_bits(with_tail(rng, program, add=add, lookup=lookup), seed=seed)


def test_outputs_of_the_cases_spread_over_the_codes() -> None:
    """Cases that all saturate would prove nothing."""

    def spread(program: Program, seed: int) -> int:
        feeds = random_feeds(program, np.random.default_rng(seed))
        return len(np.unique(run_program(program, feeds)[0]))

    programs = [random_conv(np.random.default_rng((1, seed)), PROFILES[seed % 3]) for seed in range(20)]
    counts = [spread(program, seed) for seed, program in enumerate(programs)]
    assert np.median(counts) > 30
    assert isinstance(programs[0].instructions[0], op.Conv)
