"""GRUs of integers, and LSTMs with states, natively and in NumPy: the same bits on every instruction set."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from example_programs import EXAMPLES, with_step
from generated import CASES, pick

from bits import ISAS, assert_same_bits
from calib8 import _core
from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify

sys.path.append(str(Path(__file__).parents[1] / "program"))
from integer_gru_cells import random_integer_gru, random_lstm_with_states

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 20, 31, 32, 33, 48, 63, 64, 65, 100, 127, 129, 255, 257, 513)


def random_sizes(rng: np.random.Generator) -> tuple[int, int, int, int]:
    return int(rng.integers(1, 9)), pick(rng, 1, 1, 2, 3, 4, 5, 9), pick(rng, *SIZES), pick(rng, *SIZES)


@pytest.mark.parametrize("profile", PROFILES)
def test_examples(profile: Profile) -> None:
    assert_same_bits(EXAMPLES["IntegerGru", profile])


@pytest.mark.parametrize("seed", range(CASES))
def test_random_cells(seed: int) -> None:
    """Both resets, both directions, states in and out, codes of either sign, any size."""
    rng = np.random.default_rng((32, seed))
    program = random_integer_gru(rng, random_sizes(rng))
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize("seed", range(CASES))
def test_random_lstms_with_states(seed: int) -> None:
    rng = np.random.default_rng((33, seed))
    program = random_lstm_with_states(rng, random_sizes(rng))
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize("samples", [1, 3, 5])
def test_more_steps_than_are_multiplied_at_once(samples: int) -> None:
    assert_same_bits(random_integer_gru(np.random.default_rng(samples), (61, samples, 11, 19)))


@pytest.mark.parametrize("seed", range(6))
def test_gates_at_all_of_their_16_bits(seed: int) -> None:
    """Biases that spread what gates read over all 16-bit numbers, both ends among them, and any first h."""
    rng = np.random.default_rng(seed)
    program = random_integer_gru(rng, (6, 2, 3, 257))
    by = program.instructions[0].weight_multipliers  # type: ignore[attr-defined]
    ones = replace(by, multiplier=np.full(3, 1 << 30, np.int32), shift=np.ones(3, np.int32))
    bias = rng.integers(-40000, 40000, (3, 257)).astype(np.int32)
    bias[:, :4] = [-32768, 32767, 0, -1]
    assert_same_bits(with_step(program, weight_multipliers=ones, bias=bias))


@pytest.mark.parametrize("isa", _core.engine.available_isas())
def test_every_set_has_a_kernel_that_was_taken(isa: str) -> None:
    """The plain loops serve sets without vectors of their own."""
    wanted = {"amx": "avx512vnni", "avx512vnni": "avx512vnni", "avxvnni": "avxvnni", "avx2": "avx2"}
    assert _core.engine.kernel_origins(isa)["integer_gru"] == wanted.get(isa, "reference")


def test_threads_take_samples_and_change_no_bit() -> None:
    program = random_integer_gru(np.random.default_rng(4), (5, 13, 8, 40))
    assert_same_bits(program, threads=(1, 2, 3), isas=ISAS)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"time_first": 2}, "an unknown form"),
        ({"reverse": -1}, "an unknown form"),
        ({"reset_after": 3}, "an unknown form"),
        ({"steps": 1 << 20}, "leaves its buffer"),
        ({"samples": 0}, "an absurd size"),
        ({"inputs": 1 << 17}, "sums of too many products"),
        ({"units": 1 << 20}, "sums of too many products"),
        ({"h_zero": 256}, "a zero point that is no code"),
        ({"h_buffer": -2}, "a buffer that does not exist"),
        ({"h_offset": 1 << 40}, "leaves its buffer"),
        ({"last_buffer": -2}, "a buffer that does not exist"),
        ({"last_offset": 1 << 40}, "leaves its buffer"),
        ({"weight": 1 << 40}, "leaves its buffer"),
        ({"candidate": 4}, "not aligned"),
        ({"factors": 0}, "a factor out of range"),
        ({"target_buffer": 1}, "among the constants"),
    ],
)
def test_broken_steps_are_told_when_a_plan_is_opened(changes: dict[str, int], told: str) -> None:
    broken("integer_gru", EXAMPLES["IntegerGru", "single"], changes, told)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"reverse": 2}, "an unknown form"),
        ({"h_buffer": -2}, "a buffer that does not exist"),
        ({"c_offset": 1 << 40}, "leaves its buffer"),
        ({"last_buffer": -2}, "a buffer that does not exist"),
        ({"last_offset": 1 << 40}, "leaves its buffer"),
    ],
)
def test_broken_states_of_lstms_are_told(changes: dict[str, int], told: str) -> None:
    rng = np.random.default_rng(0)
    program = random_lstm_with_states(rng, (3, 2, 4, 5))
    while len(program.inputs) < 3 or len(program.outputs) < 2:
        program = random_lstm_with_states(rng, (3, 2, 4, 5))
    broken("integer_lstm", program, changes, told)


def broken(opcode: str, program: object, changes: dict[str, int], told: str) -> None:
    plan = compile_program(program)  # type: ignore[arg-type]
    [place] = [place for place, row in enumerate(plan.rows) if row.opcode == opcode]
    names = _core.engine.schemas()[opcode]
    fields = plan.rows[place].fields.copy()
    for name, value in changes.items():
        fields[names.index(name)] = value
    rows = list(plan.rows)
    rows[place] = rows[place]._replace(fields=fields)
    with pytest.raises(ValueError, match=told):
        Engine(replace(plan, rows=tuple(rows)))
