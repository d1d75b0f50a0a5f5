"""Functions of float32 values, natively and in NumPy: the same bits on every instruction set."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from example_programs import EXAMPLES, plain, single
from generated import CASES, pick

from bits import ISAS, assert_same_bits, with_fields
from calib8.engine.compile import compile_program
from calib8.engine.emit.recurrent import KINDS
from calib8.engine.run import Engine
from calib8.program import instructions as op
from calib8.program.program import Program
from calib8.program.rules import PROFILES, CellFunction, Profile
from calib8.program.verify import verify

SIZES = (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 129, 257, 1000)
ODD = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-38, 3e38, -3e38, 88.0, -87.4, -104.0)


def function(rng: np.random.Generator, name: str, count: int) -> Program:
    alpha, beta = (float(np.float32(number)) for number in rng.normal(0, 2, 2))
    return single(
        op.RealFunction,
        [plain("x", count)],
        plain("y", count),
        "onnx",
        function=CellFunction(name, alpha, beta),  # type: ignore[arg-type]
    )


def values(rng: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
    """Of all magnitudes, and some that are no usual numbers."""
    usual = rng.normal(0, 1, count) * 10.0 ** rng.uniform(-6, 3, count)
    return np.where(rng.random(count) < 0.2, rng.choice(ODD, count), usual).astype(np.float32)


@pytest.mark.parametrize("profile", PROFILES)
def test_examples(profile: Profile) -> None:
    assert_same_bits(EXAMPLES["RealFunction", profile])


@pytest.mark.parametrize("seed", range(CASES))
def test_random_values(seed: int) -> None:
    rng = np.random.default_rng((34, seed))
    program = function(rng, list(KINDS)[seed % len(KINDS)], pick(rng, *SIZES))
    verify(program)
    assert_same_bits(program, {"x": values(rng, program.slots[0].shape[0])})


def test_what_is_no_number_has_the_same_bits_everywhere() -> None:
    program = function(np.random.default_rng(1), "Tanh", 37)
    plan, x = compile_program(program), np.full(37, np.nan, np.float32)
    x[::2] *= -1
    for isa in ISAS:
        [found] = Engine(plan, threads=1, isa=isa).run({"x": x})
        assert set(np.asarray(found).view(np.uint32).tolist()) == {0x7FC00000}, isa


def test_threads_take_values_and_change_no_bit() -> None:
    rng = np.random.default_rng(5)
    program = function(rng, "Sigmoid", 5003)
    assert_same_bits(program, {"x": values(rng, 5003)}, threads=(1, 2, 3), isas=ISAS)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"count": 0}, "an absurd size"),
        ({"count": 1 << 40}, "an absurd size"),
        ({"count": 1 << 20}, "leaves its buffer"),
        ({"function": 0}, "an unknown function"),
        ({"function": 8}, "an unknown function"),
        ({"~alpha": 0x7FF0 << 48}, "a parameter of a function"),
        ({"target_buffer": 1}, "leaves its buffer"),
    ],
)
def test_broken_steps_are_told_when_a_plan_is_opened(changes: dict[str, int], told: str) -> None:
    plan = compile_program(EXAMPLES["RealFunction", "onnx"])
    with pytest.raises(ValueError, match=told):
        Engine(with_fields(plan, "real_function", changes))
