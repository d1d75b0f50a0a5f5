"""Constant tensors in plans: read where the plan stores them, copied for others, natively and in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs import EXAMPLES, codes

from bits import ISAS, THREADS, assert_same_bits
from calib8.engine.buffers import ARENA
from calib8.engine.compile import compile_program
from calib8.program import instructions as op
from calib8.program.program import Port, Program
from calib8.program.rules import PROFILES, FloatSum, Profile


def joined(dtype: str, shape: tuple[int, ...]) -> Program:
    """A constant that is joined along the channels, added, reshaped and given back."""
    info, rng = np.iinfo(dtype), np.random.default_rng(shape)
    zero = 3 if dtype == "uint8" else -7
    values = rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)
    of = {"dtype": dtype, "zero_point": zero}
    wide = (*shape[:-1], 2 * shape[-1])
    flat = (int(np.prod(shape)),)
    slots = (
        codes("x", *shape, **of), codes("c", *shape, **of), codes("joined", *wide, **of),
        codes("sum", *shape, **of), codes("flat", *flat, **of),
    )  # fmt: skip
    steps = (
        op.Constant("c", (), (1,), values),
        op.Concat("join", (0, 1), (2,), len(shape) - 1),
        op.Add("add", (0, 1), (3,), FloatSum(1.0, 0.5, float(zero)), int(info.min), int(info.max)),
        op.Reshape("flat", (1,), (4,)),
    )
    outputs = tuple(Port(slots[number].name, number) for number in (2, 3, 4, 1))
    return Program("onnx", slots, steps, (Port("x", 0),), outputs, "net")


@pytest.mark.parametrize("profile", PROFILES)
def test_example(profile: Profile) -> None:
    assert_same_bits(EXAMPLES["Constant", profile])


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 7, 33), (1, 6, 5, 17), (2, 3, 4, 64)])
def test_many_readers(shape: tuple[int, ...], dtype: str) -> None:
    assert_same_bits(joined(dtype, shape), isas=ISAS, threads=THREADS)


def test_it_takes_no_memory_of_a_run() -> None:
    """The arena holds what is fed, and results that are copied out."""
    program = joined("uint8", (4, 4, 64))
    with_it = compile_program(program)
    assert not any(row.opcode == "copy" and row.fields[0] == ARENA and name == "c"
                   for row, name in zip(with_it.rows, with_it.step_names, strict=True))  # fmt: skip
    assert with_it.arena_bytes < 5 * 4 * 4 * 64 + 4 * 64
