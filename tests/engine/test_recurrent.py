"""Recurrent layers, natively and in NumPy: the same bits on every instruction set."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from decode import steps_of
from example_programs import EXAMPLES, with_step
from generated import CASES, pick

from bits import ISAS, assert_same_bits
from calib8 import _core
from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from calib8.errors import DataError
from calib8.program.ops.cells import Cell
from calib8.program.program import Program
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify

sys.path.append(str(Path(__file__).parents[1] / "program"))
from recurrent_cells import BOUNDED, random_layer, random_sequences

Array = npt.NDArray[Any]
CELLS: tuple[Cell, ...] = ("LSTM", "GRU", "RNN")
SIZES = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    15,
    16,
    17,
    20,
    31,
    32,
    33,
    48,
    63,
    64,
    65,
    100,
    127,
    129,
    200,
    255,
    257,
    513,
)
EVERY = (*BOUNDED, "Relu", "Affine")


@pytest.mark.parametrize("profile", PROFILES)
def test_examples(profile: Profile) -> None:
    assert_same_bits(EXAMPLES["Recurrent", profile])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("seed", range(2 * CASES))
def test_random_cells(seed: int, cell: Cell) -> None:
    """All that a cell may have, of any size, codes and lengths."""
    rng = np.random.default_rng((28, seed))
    sizes = (int(rng.integers(1, 12)), pick(rng, 1, 1, 2, 3, 4, 5, 9), pick(rng, *SIZES), pick(rng, *SIZES))
    layer = random_layer(rng, cell, sizes, functions=EVERY)
    verify(layer.program)
    assert_same_bits(layer.program, random_sequences(layer.program, rng))


@pytest.mark.parametrize("cell", CELLS)
def test_more_steps_than_are_multiplied_at_once(cell: Cell) -> None:
    rng = np.random.default_rng(3)
    for samples in (1, 3, 5):
        program = random_layer(rng, cell, (61, samples, 11, 19)).program
        assert_same_bits(program, random_sequences(program, rng))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e38, 3e38, 1e-38, 1e-44, 0.0])
def test_extreme_numbers(value: float, cell: Cell) -> None:
    """What is lost is told by NaN everywhere alike, what is tiny counts as 0."""
    rng = np.random.default_rng(5)
    program = random_layer(rng, cell, (6, 5, 9, 17), functions=EVERY).program
    feeds = random_sequences(program, rng)
    feeds["x"][2, 1, 4] = value
    feeds["x"][3, 2] = value
    for name in ("h", "c"):
        if name in feeds:
            feeds[name][0, 3, 5] = value
    assert_same_bits(program, feeds)


@pytest.mark.parametrize("cell", CELLS)
def test_what_is_lost_has_one_pattern_of_bits(cell: Cell) -> None:
    rng = np.random.default_rng(6)
    program = random_layer(rng, cell, (4, 3, 5, 6), usual=True).program
    feeds = random_sequences(program, rng)
    feeds["x"][1, 2, 0] = np.inf
    for isa in ISAS:
        (got,) = Engine(compile_program(program), isa=isa, threads=1).run(feeds)
        assert np.isfinite(got[:, :, :2]).all(), isa
        lost = (
            got[1:, 0, 2].view(np.uint32)
            if program.instructions[0].directions == ("forward",)
            else got[0, 0, 2].view(np.uint32)
        )  # type: ignore[attr-defined]
        assert (lost == 0x7FC00000).all(), isa


@pytest.mark.parametrize("length", [-1, 7, 2**31 - 1, -(2**31)])
def test_lengths_beyond_the_tensor_are_refused(length: int) -> None:
    """By all who run, with one text; the next run of the same engine, with all its threads, is as before."""
    rng = np.random.default_rng(7)
    program = random_layer(rng, "GRU", (6, 3, 4, 5), extras=("lengths",)).program
    right = random_sequences(program, rng)
    feeds = {**right, "lengths": np.array([6, length, 3], np.int32)}
    told = f"sequence_lens in 'lengths' has {length} for sample 1, and the sequence has 6 steps. Give lengths"
    with pytest.raises(DataError, match=told) as expected:
        run_program(program, feeds)
    [wanted] = run_program(program, right)
    for isa in ISAS:
        engine = Engine(compile_program(program), isa=isa, threads=2)
        with pytest.raises(DataError) as found:
            engine.run(feeds)
        assert str(found.value) == str(expected.value)
        np.testing.assert_array_equal(engine.run(right)[0], wanted)
        assert engine.contexts == 1


def test_a_bound_run_refuses_lengths_beyond_the_tensor() -> None:
    program = random_layer(np.random.default_rng(7), "RNN", (5, 2, 3, 4), extras=("lengths",)).program
    engine = Engine(compile_program(program))
    feeds = random_sequences(program, np.random.default_rng(8))
    result = np.empty(engine.plan.outputs[0].shape, np.float32)
    run = engine.bound(feeds, [result])
    assert run is not None
    feeds["lengths"][:] = 5
    run()
    whole = result.copy()
    feeds["lengths"][1] = 6
    with pytest.raises(DataError, match="has 6 for sample 1, and the sequence has 5 steps"):
        run()
    feeds["lengths"][1] = 5
    run()
    np.testing.assert_array_equal(result, whole)


def test_the_deepest_sums_stay_within_32_bits() -> None:
    """Codes and weights at their ends, 65536 of them."""
    rng = np.random.default_rng(8)
    layer = random_layer(rng, "RNN", (1, 1, 1 << 16, 1), usual=True)
    weight = np.full_like(layer.step.weight, 127)
    program = with_step(layer.program, weight=weight)
    verify(program)
    for sign in (1, -1):
        assert_same_bits(program, {"x": np.full((1, 1, 1 << 16), sign, np.float32)})


@pytest.mark.parametrize("isa", _core.engine.available_isas())
def test_every_set_has_a_kernel_that_was_taken(isa: str) -> None:
    """The plain loops serve sets without vectors of their own."""
    wanted = {"amx": "avx512vnni", "avx512vnni": "avx512vnni", "avxvnni": "avxvnni", "avx2": "avx2"}
    assert _core.engine.kernel_origins(isa)["recurrent"] == wanted.get(isa, "reference")


def test_one_step_serves_both_directions_and_copies_nothing() -> None:
    steps = Counter(step.opcode for step in steps_of(compile_program(EXAMPLES["Recurrent", "onnx"])))
    assert steps == {"recurrent": 1}


def test_what_lies_behind_the_result_stays() -> None:
    """The last row of states ends where the caller's array does."""
    program: Program = EXAMPLES["Recurrent", "onnx"]
    feeds = random_sequences(program, np.random.default_rng(0))
    for isa in ISAS:
        wide = np.full(5 * 2 * 2 * 4 + 16, 7, np.float32)
        Engine(compile_program(program), isa=isa, threads=2).run_into(feeds, [wide[:-16].reshape(5, 2, 2, 4)])
        assert (wide[-16:] == 7).all()
        assert not (wide[:-16] == 7).any()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cell": 4}, "an unknown recurrent layer"),
        ({"cell": 2}, "peepholes of no LSTM"),
        ({"directions": 3}, "directions that are none"),
        ({"reverse": 4}, "directions that are none"),
        ({"steps": 4}, "leaves its buffer"),
        ({"samples": 0}, "an absurd size"),
        ({"inputs": 1 << 17}, "sums of too many products"),
        ({"units": 1 << 20}, "sums of too many products"),
        ({"h_buffer": -2}, "a buffer that does not exist"),
        ({"c_offset": 64}, "leaves its buffer"),
        ({"weight": 1 << 40}, "leaves its buffer"),
        ({"weight": 4}, "not aligned"),
        ({"inner_bias": 0}, "an inner bias of no GRU"),
        ({"functions": 0}, "an unknown function"),
        ({"coupled": 2}, "neither coupled nor free"),
        ({"target_buffer": 1}, "among the constants"),
    ],
)
def test_broken_steps_are_told_when_a_plan_is_opened(changes: dict[str, int], told: str) -> None:
    plan = compile_program(EXAMPLES["Recurrent", "onnx"])
    names = _core.engine.schemas()["recurrent"]
    fields = plan.rows[0].fields.copy()
    for name, value in changes.items():
        fields[names.index(name)] = value
    broken = replace(plan, rows=(plan.rows[0]._replace(fields=fields),))
    with pytest.raises(ValueError, match=told):
        Engine(broken)
