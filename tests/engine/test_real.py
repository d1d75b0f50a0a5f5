"""Steps by way of real numbers: the bits of the reference on every instruction set, anywhere in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from elementwise_cases import SHAPES, Shape, every_pair, random_shapes
from example_programs import EXAMPLES, codes, floats, single, sums
from gaps import run_in_gaps
from generated import SEEDS

from bits import ISAS, assert_same_bits, random_feeds
from calib8.engine.compile import compile_program
from calib8.program import instructions as op
from calib8.program.program import Program, Slot
from calib8.program.reference.executor import run_program
from calib8.program.rounding.real import softmax_table
from calib8.program.rules import RealAverage
from calib8.program.verify import verify

KINDS = ("sum", "difference", "product")


def random_codes(name: str, shape: Shape, rng: np.random.Generator, *, zero: bool) -> Slot:
    """Zero points of the files are 0; the steps take any."""
    dtype = "int8" if zero else str(rng.choice(["int8", "uint8"]))
    limits = np.iinfo(dtype)
    point = 0 if zero else int(rng.integers(limits.min, limits.max + 1))
    return codes(name, *shape, scale=float(rng.uniform(0.02, 0.1)), zero_point=point, dtype=dtype)


def clamp_of(slot: Slot, rng: np.random.Generator) -> dict[str, int]:
    limits = np.iinfo(slot.dtype)
    return {"low": int(limits.min + rng.integers(3)), "high": int(limits.max - rng.integers(40))}


def rescaled(shape: Shape, rng: np.random.Generator, *, zero: bool = True) -> Program:
    channels = shape[-1] if shape and rng.random() < 0.7 else 1
    y = random_codes("y", shape, rng, zero=zero)
    first, factor = (np.float32(0.1), rng.uniform(0, 0.003, channels).astype(np.float32))
    output = float(np.float32(float(first) * 0.0015 * 3000 / 60))
    fields: dict[str, Any] = {"input": float(first), "factor": factor, "output": output}
    return single(op.RealRescale, [sums("x", *shape)], y, "tengine", **fields, **clamp_of(y, rng))


def paired(kind: str, shapes: tuple[Shape, Shape], rng: np.random.Generator, *, zero: bool = True) -> Program:
    a, b = (random_codes(name, shape, rng, zero=zero) for name, shape in zip("ab", shapes, strict=True))
    y = random_codes("y", np.broadcast_shapes(*shapes), rng, zero=zero)
    return single(op.RealPair, [a, b], y, "tengine", kind=kind, **clamp_of(y, rng))


def random_program(rng: np.random.Generator) -> Program:
    shapes, zero = random_shapes(rng), bool(rng.random() < 0.5)
    if rng.random() < 0.5:
        return rescaled(np.broadcast_shapes(*shapes), rng, zero=zero)
    return paired(str(rng.choice(KINDS)), shapes, rng, zero=zero)


@pytest.mark.parametrize("name", sorted(name for name, profile in EXAMPLES if profile == "tengine"))
def test_examples(name: str) -> None:
    assert_same_bits(EXAMPLES[name, "tengine"])


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_programs(seed: int) -> None:
    rng = np.random.default_rng([53, seed])
    program = random_program(rng)
    verify(program)
    assert_same_bits(program, random_feeds(program, rng))


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_tensors_with_gaps(seed: int) -> None:
    rng = np.random.default_rng([59, seed])
    program = random_program(rng)
    feeds = random_feeds(program, rng)
    wanted = run_program(program, feeds)[0]
    for isa in ISAS:
        np.testing.assert_array_equal(run_in_gaps(program, feeds, rng, isa, 2), wanted, err_msg=isa)


@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_of_codes(kind: str) -> None:
    program = paired(kind, ((256, 1), (1, 256)), np.random.default_rng(len(kind)))
    assert np.unique(run_program(program, every_pair(program))[0]).size > 100
    assert_same_bits(program, every_pair(program), threads=(2,))


@pytest.mark.parametrize("scale", [1.0, 2.0, 0.5])
def test_ties_go_away_from_zero(scale: float) -> None:
    acc = np.arange(-300, 300, dtype=np.int32)
    y = codes("y", 600, scale=1.0, zero_point=0, dtype="int8")
    program = single(
        op.RealRescale, [sums("x", 600)], y, "tengine",
        input=0.25, factor=floats(scale), output=1.0, low=-127, high=127,
    )  # fmt: skip
    wanted = np.sign(acc) * np.floor(np.abs(acc) * scale / 4 + 0.5)
    (found,) = run_program(program, {"x": acc})
    np.testing.assert_array_equal(found, np.clip(wanted, -127, 127))
    assert_same_bits(program, {"x": acc})


@pytest.mark.parametrize("factor", [1e-38, 3e38])
def test_numbers_beyond_all_codes_end_at_the_clamp(factor: float) -> None:
    acc = np.array([-(1 << 31) + 1, -5, 0, 5, (1 << 31) - 1], np.int32)
    y = codes("y", 5, scale=1.0, zero_point=0, dtype="int8")
    program = single(
        op.RealRescale, [sums("x", 5)], y, "tengine",
        input=1.0, factor=floats(factor), output=1.0, low=-127, high=127,
    )  # fmt: skip
    assert_same_bits(program, {"x": acc})


def test_a_table_behind_a_pair_is_one_step() -> None:
    rng = np.random.default_rng(1)
    program = paired("sum", SHAPES[12], rng)
    y = program.slots[-1]
    z = codes("z", *y.shape, scale=0.03, zero_point=0, dtype="int8")
    relu = np.maximum(np.arange(-128, 128), 0).astype(np.int8)
    both = Program(
        "tengine", (*program.slots, z),
        (*program.instructions, op.Lookup("relu", (2,), (3,), relu, "Relu")),
        program.inputs, (type(program.outputs[0])("z", 3),), "net",
    )  # fmt: skip
    verify(both)
    opcodes = [row.opcode for row in compile_program(both).rows]
    assert "real_pair" in opcodes and "lookup" not in opcodes
    assert_same_bits(both)


@pytest.mark.parametrize("count_pads", [False, True])
@pytest.mark.parametrize("channels", [1, 17, 65])
def test_means(channels: int, count_pads: bool) -> None:
    x = codes("x", 2, 9, 7, channels, scale=0.05, zero_point=0, dtype="int8")
    y = codes("y", 2, 5, 4, channels, scale=0.021, zero_point=0, dtype="int8")
    program = single(
        op.AveragePool, [x], y, "tengine", kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1),
        count_pads=count_pads, rule=RealAverage(), low=-127, high=127,
    )  # fmt: skip
    verify(program)
    assert_same_bits(program)


@pytest.mark.parametrize("classes", [1, 2, 31, 64, 1000])
def test_shares(classes: int) -> None:
    x = codes("x", 5, classes, scale=0.043, zero_point=0, dtype="int8")
    y = codes("y", 5, classes, scale=1 / 127, zero_point=0, dtype="int8")
    program = single(op.Softmax, [x], y, "tengine", rule=softmax_table(x.scale))
    verify(program)
    assert_same_bits(program)
