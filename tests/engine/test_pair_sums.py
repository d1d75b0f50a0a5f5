"""Layers whose products of two bytes fit into 16 bits, and layers where they just do not.

AVX2 multiplies bytes by bytes only into sums of two that saturate at 16 bits: it may do so where no codes at
all can reach that. All codes at their ends would show it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conv_cases import pointwise, random_connected, random_conv, with_tail
from generated import SEEDS
from test_wide import WIDTHS, checked

from bits import ISAS, assert_same_bits
from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.program import Program
from calib8.program.rules import PROFILES

Rng = np.random.Generator


def with_weights(program: Program, weight: np.ndarray) -> Program:
    """The same layer with other weights, around zero."""
    step, *rest = program.instructions
    assert isinstance(step, op.Conv | op.FullyConnected)
    points = np.zeros(1, np.int32)
    changed = replace(step, weight=weight.astype(np.int8), weight_zero_point=points)
    return replace(program, instructions=(changed, *rest))


def narrowed(program: Program, rng: Rng) -> Program:
    """The layer with weights of 7 bits, many of them at the ends."""
    shape = program.instructions[0].weight.shape  # type: ignore[union-attr]
    weight = rng.integers(-64, 64, shape, endpoint=True)
    return with_weights(program, np.where(rng.random(shape) < 0.3, np.where(weight < 0, -64, 64), weight))


def full(program: Program) -> dict[str, np.ndarray]:
    """All codes at their upper ends: stored, they are 255."""
    slots = {port.name: program.slots[port.slot] for port in program.inputs}
    return {name: np.full(slot.shape, np.iinfo(slot.dtype).max, slot.dtype) for name, slot in slots.items()}


def to_the_unit(program: Program) -> Program:
    """The layer with codes that are its sums, 100 in each channel where all codes are at their upper ends."""
    (step,), (x, y) = program.instructions, program.slots
    assert isinstance(step, op.Conv)
    sums = (np.iinfo(x.dtype).max - x.zero_point) * step.weight.astype(np.int64).sum(axis=(1, 2, 3))
    rule = rules.FloatRescale(np.ones(1, np.float32))
    changed = replace(step, bias=(100 - sums).astype(np.int32), rescale=rule, low=0, high=255)
    return replace(program, slots=(x, replace(y, dtype="uint8", zero_point=0)), instructions=(changed,))


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_of_7_bits(seed: int) -> None:
    rng = np.random.default_rng((91, seed))
    make = random_connected if seed % 4 == 0 else random_conv
    program = narrowed(make(rng, PROFILES[seed % 3]), rng)
    assert_same_bits(program, seed=seed)
    assert_same_bits(program, full(program))


@pytest.mark.parametrize("seed", SEEDS[::4])
def test_what_follows_the_layer(seed: int) -> None:
    rng = np.random.default_rng((92, seed))
    program = narrowed(random_conv(rng, PROFILES[seed % 3]), rng)
    assert_same_bits(with_tail(rng, program, add=seed % 8 == 0, lookup=seed % 8 == 4), seed=seed)


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("seed", SEEDS[::8])
def test_results_of_16_bits(seed: int, widths: str) -> None:
    rng = np.random.default_rng((93, seed))
    checked(rng, narrowed(random_conv(rng, PROFILES[seed % 3]), rng), seed, widths)


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "pair",
    [(64, 64), (64, 65), (127, 1), (127, 2), (127, 127), (-64, -64), (-64, -65), (-128, 0), (-128, -1),
     (-128, -128), (127, -128), (128 - 127, 127)],
)  # fmt: skip
def test_one_pair_at_the_limit(pair: tuple[int, int], place: int, rows: int) -> None:
    """255 · 128 is below 2^15 and 255 · 129 above; also where a pair does not lie in one half of a four."""
    rng = np.random.default_rng((94, place, rows))
    program = pointwise(rng, "onnx", rows, rows, 8, 40)
    weight = rng.integers(-3, 4, (40, 1, 1, 8))
    weight[17, 0, 0, place : place + 2] = pair
    assert_same_bits(to_the_unit(with_weights(program, weight)), full(program))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("largest", "fit"), [((64, 64), True), ((127, 1), True), ((64, 65), False)])
def test_a_layer_whose_pairs_fit_is_run_in_16_bits_by_avx2(
    isa: str, largest: tuple[int, int], fit: bool
) -> None:
    """Both ways give the same codes, so that no other test sees which of them ran."""
    weight = np.ones((40, 1, 1, 8))
    weight[17, 0, 0, 2:4] = largest
    program = with_weights(pointwise(np.random.default_rng(95), "onnx", 9, 9, 8, 40), weight)
    engine = Engine(compile_program(program), isa=isa)
    chosen = dict(zip((row.opcode for row in engine.plan.rows), engine._native.pair_sums, strict=True))
    assert chosen["conv"] == (fit and isa == "avx2")
