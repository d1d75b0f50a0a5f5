"""Filters over time, natively and in NumPy: the same bits on every instruction set."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs import EXAMPLES, codes, ints, single
from generated import CASES, pick

from bits import ISAS, assert_same_bits, with_fields
from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from calib8.program import instructions as op
from calib8.program.program import Program
from calib8.program.rules import PROFILES, Multipliers, Profile
from calib8.program.verify import verify

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 129)


def random_filter(rng: np.random.Generator, units: int, rank: int, taps: int, samples: int) -> Program:
    """Weights, codes and sums of all sizes; those of most cases reach beyond int32."""
    top, filters = int(rng.choice([100, 5000, 32767])), units * rank
    reach = max(1.0, np.sqrt(filters / units * taps) * top * 2.0**14)
    shift = -int(np.clip(np.log2(min(reach, 2.0**31) / 128), 0, 31))
    low = int(rng.choice([-128, -128, -7]))
    return single(
        op.TimeFilter,
        [codes("x", samples, filters * taps, zero_point=0, dtype="int16")],
        codes("y", samples, units, zero_point=int(rng.integers(-128, 128)), dtype="int8"),
        "tflite",
        weight=rng.integers(-top, top + 1, (filters, taps)).astype(np.int16),
        bias=rng.integers(-(1 << 20), 1 << 20, units).astype(np.int32),
        factor=Multipliers(ints(int(rng.integers(1 << 30, 1 << 31))), ints(shift)),
        low=low,
        high=127,
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_examples(profile: Profile) -> None:
    assert_same_bits(EXAMPLES["TimeFilter", profile])


@pytest.mark.parametrize("seed", range(CASES))
def test_random_filters(seed: int) -> None:
    rng = np.random.default_rng((33, seed))
    program = random_filter(
        rng, pick(rng, *SIZES), pick(rng, 1, 1, 2, 3), pick(rng, *SIZES), pick(rng, 1, 2, 5)
    )
    verify(program)
    assert_same_bits(program, seed=seed)


def test_threads_take_units_and_change_no_bit() -> None:
    program = random_filter(np.random.default_rng(4), 33, 2, 9, 7)
    assert_same_bits(program, threads=(1, 2, 3), isas=ISAS)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"samples": 0}, "an absurd size"),
        ({"units": 1 << 40}, "an absurd size"),
        ({"length": 1 << 20}, "leaves its buffer"),
        ({"samples": 1 << 20}, "leaves its buffer"),
        ({"weight": 1 << 40}, "leaves its buffer"),
        ({"bias": 1 << 40}, "leaves its buffer"),
        ({"multiplier": -1}, "a factor out of range"),
        ({"shift": 31}, "a factor out of range"),
        ({"zero_point": 256}, "a zero point that is no code"),
        ({"high": 256}, "a clamp that is none"),
        ({"target_buffer": 1}, "leaves its buffer"),
    ],
)
def test_broken_steps_are_told_when_a_plan_is_opened(changes: dict[str, int], told: str) -> None:
    plan = compile_program(EXAMPLES["TimeFilter", "tflite"])
    with pytest.raises(ValueError, match=told):
        Engine(with_fields(plan, "time_filter", changes))
