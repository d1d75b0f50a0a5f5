"""LSTMs of integers, natively and in NumPy: the same bits on every instruction set."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from example_programs import EXAMPLES, with_step
from generated import CASES, pick

from bits import ISAS, assert_same_bits, with_fields
from calib8 import _core
from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify

sys.path.append(str(Path(__file__).parents[1] / "program"))
from integer_cells import constant_input, random_integer_lstm

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 20, 31, 32, 33, 48, 63, 64, 65, 100, 127, 129, 255, 257, 513)


@pytest.mark.parametrize("profile", PROFILES)
def test_examples(profile: Profile) -> None:
    assert_same_bits(EXAMPLES["IntegerLstm", profile])


@pytest.mark.parametrize("seed", range(4 * CASES))
def test_random_cells(seed: int) -> None:
    """All that a cell may have, of any size and codes."""
    rng = np.random.default_rng((31, seed))
    sizes = (int(rng.integers(1, 9)), pick(rng, 1, 1, 2, 3, 4, 5, 9), pick(rng, *SIZES), pick(rng, *SIZES))
    program = random_integer_lstm(rng, sizes)
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize("samples", [1, 3, 5])
def test_more_steps_than_are_multiplied_at_once(samples: int) -> None:
    program = random_integer_lstm(np.random.default_rng(samples), (61, samples, 11, 19), plain=samples == 1)
    assert_same_bits(program)


@pytest.mark.parametrize("bits", range(7))
def test_gates_and_cells_at_all_of_their_16_bits(bits: int) -> None:
    """Biases that spread what gates read over all 16-bit numbers, both ends among them."""
    rng = np.random.default_rng(bits)
    program = with_step(random_integer_lstm(rng, (6, 2, 3, 257), plain=True), cell_bits=bits)
    layer = program.instructions[0]
    ones = replace(
        layer.weight_multipliers,  # type: ignore[attr-defined]
        multiplier=np.full(4, 1 << 30, np.int32),
        shift=np.ones(4, np.int32),
    )
    bias = rng.integers(-40000, 40000, (4, 257)).astype(np.int32)
    bias[:, :4] = [-32768, 32767, 0, -1]
    assert_same_bits(with_step(program, weight_multipliers=ones, bias=bias))


@pytest.mark.parametrize("code", [-128, 127])
def test_the_deepest_sums_stay_within_32_bits(code: int) -> None:
    """Codes and weights at their ends, 65536 of them."""
    program = random_integer_lstm(np.random.default_rng(8), (1, 1, 1 << 16, 1), plain=True)
    for weight in (127, -127):
        changed = with_step(program, weight=np.full((4, 1, 1 << 16), weight, np.int8))
        assert_same_bits(changed, constant_input(changed, code))


@pytest.mark.parametrize("isa", _core.engine.available_isas())
def test_every_set_has_a_kernel_that_was_taken(isa: str) -> None:
    """The plain loops serve sets without vectors of their own."""
    wanted = {"amx": "avx512vnni", "avx512vnni": "avx512vnni", "avxvnni": "avxvnni", "avx2": "avx2"}
    assert _core.engine.kernel_origins(isa)["integer_lstm"] == wanted.get(isa, "reference")


def test_one_step_serves_the_sequence_and_copies_nothing() -> None:
    opcodes = [row.opcode for row in compile_program(EXAMPLES["IntegerLstm", "tflite"]).rows]
    assert opcodes.count("integer_lstm") == 1
    assert set(opcodes) <= {
        "integer_lstm",
        "lookup",
        "copy",
    }  # int8 ports are stored otherwise than they come


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"time_first": 2}, "an unknown form"),
        ({"coupled": -1}, "an unknown form"),
        ({"steps": 1 << 20}, "leaves its buffer"),
        ({"samples": 0}, "an absurd size"),
        ({"inputs": 1 << 17}, "sums of too many products"),
        ({"units": 1 << 20}, "sums of too many products"),
        ({"h_zero": 256}, "a zero point that is no code"),
        ({"hidden_zero": -129}, "a zero point that is no code"),
        ({"cell_bits": 7}, "integer bits of a cell"),
        ({"cell_clip": 1 << 15}, "a bound that is none"),
        ({"projection_clip": 128}, "a bound that is none"),
        ({"weight": 1 << 40}, "leaves its buffer"),
        ({"weight": 4}, "not aligned"),
        ({"factors": 0}, "a factor out of range"),
        ({"norm": 1 << 40}, "leaves its buffer"),
        ({"projection": -1}, "an h that is wider"),
        ({"target_buffer": 1}, "among the constants"),
    ],
)
def test_broken_steps_are_told_when_a_plan_is_opened(changes: dict[str, int], told: str) -> None:
    plan = compile_program(EXAMPLES["IntegerLstm", "tflite"])
    with pytest.raises(ValueError, match=told):
        Engine(with_fields(plan, "integer_lstm", changes))


def test_threads_take_samples_and_change_no_bit() -> None:
    program = random_integer_lstm(np.random.default_rng(4), (5, 13, 8, 40))
    assert_same_bits(program, threads=(1, 2, 3), isas=ISAS)
