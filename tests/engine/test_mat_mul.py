"""MatMul of two activations, natively and in NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from example_programs import EXAMPLES, codes, floats, single, sums
from generated import SEEDS, clamp, code_slot, pick

from bits import assert_same_bits
from calib8.fixedpoint import encode_multiplier
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.rules import PROFILES, Profile, Rescale
from calib8.program.verify import verify

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 49, 64, 65)
BATCHES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()),
    ((2,), (2,)),
    ((2, 3), (2, 3)),
    ((1, 3), (2, 1)),
    ((), (3,)),
    ((3,), ()),
)


def factor_rule(profile: Profile, factor: float) -> Rescale:
    if profile == "onnx":
        return rules.FloatRescale(floats(factor))
    multiplier, shift = encode_multiplier(factor)
    rounding: Any = "double" if profile == "tflite" else "single"
    return rules.FixedRescale(np.array([multiplier], np.int32), np.array([shift], np.int32), rounding)


@pytest.mark.parametrize("profile", PROFILES)
def test_examples(profile: Profile) -> None:
    assert_same_bits(EXAMPLES["MatMul", profile])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "sizes",
    [
        (197, 64, 197),
        (197, 197, 64),
        (49, 32, 49),
        (16, 16, 16),
        (17, 130, 70),
        (47, 1027, 65),
        (33, 63, 129),
    ],
    ids=str,
)
def test_sizes_of_attention(sizes: tuple[int, int, int], profile: Profile) -> None:
    """Whole tiles of 16 rows, 64 codes and 16 columns, and what is left of them."""
    rows, depth, columns = sizes
    rng = np.random.default_rng((9, *sizes))
    for zero_points in ((0, 0), (0, 131), (77, 0), (255, 255)):
        a, b = (
            replace(code_slot(name, rng, 2, *shape), dtype="uint8", zero_point=zero_point)
            for name, shape, zero_point in zip(
                "ab", ((rows, depth), (depth, columns)), zero_points, strict=True
            )
        )
        y = code_slot("y", rng, 2, rows, columns)
        rule = factor_rule(profile, 1 / (130 * 130 * depth**0.5) * 60)
        program = single(op.MatMul, [a, b], y, profile, rescale=rule, **clamp(rng, y))
        assert_same_bits(program, seed=depth)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", SEEDS)
def test_mat_mul(seed: int, profile: Profile) -> None:
    rng = np.random.default_rng((8, seed))
    rows, depth, columns = (pick(rng, *SIZES) for _ in range(3))
    left, right = pick(rng, *BATCHES)
    a, b = code_slot("a", rng, *left, rows, depth), code_slot("b", rng, *right, depth, columns)
    shape = (*np.broadcast_shapes(left, right), rows, columns)
    if rng.random() < 0.3:
        program = single(op.MatMul, [a, b], sums("y", *shape), profile, rescale=None, low=0, high=0)
    else:
        y = code_slot("y", rng, *shape)
        rule = factor_rule(profile, rng.uniform(0.5, 2) / (130 * 130 * depth**0.5) * 60)
        program = single(op.MatMul, [a, b], y, profile, rescale=rule, **clamp(rng, y))
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize("ends", [(0, 0), (255, 255), (0, 255), (255, 0)])
def test_products_of_the_largest_steps(ends: tuple[int, int]) -> None:
    """Every factor is as far from its zero point as can be."""
    a, b = codes("a", 9, 130, zero_point=255 - ends[0]), codes("b", 130, 40, zero_point=255 - ends[1])
    feeds = {"a": np.full(a.shape, ends[0], np.uint8), "b": np.full(b.shape, ends[1], np.uint8)}
    assert_same_bits(single(op.MatMul, [a, b], sums("y", 9, 40), rescale=None, low=0, high=0), feeds)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_constant_stack_on_one_side(seed: int, profile: Profile) -> None:
    """Positions that attention adds: the matrices are codes of the program, and never change."""
    rng = np.random.default_rng((10, seed))
    rows, depth, columns = (pick(rng, *SIZES) for _ in range(3))
    left, right = pick(rng, *BATCHES)
    a, b = code_slot("a", rng, *left, rows, depth), code_slot("b", rng, *right, depth, columns)
    y = code_slot("y", rng, *np.broadcast_shapes(left, right), rows, columns)
    rule = factor_rule(profile, rng.uniform(0.5, 2) / (130 * 130 * depth**0.5) * 60)
    program = single(op.MatMul, [a, b], y, profile, rescale=rule, **clamp(rng, y))
    fixed = int(rng.integers(2))
    slot = program.slots[fixed]
    kind = np.iinfo(slot.dtype)
    values = rng.integers(kind.min, kind.max + 1, slot.shape).astype(slot.dtype)
    constant = op.Constant("matrices", (), (fixed,), values)
    inputs = tuple(port for port in program.inputs if port.slot != fixed)
    program = replace(program, instructions=(constant, *program.instructions), inputs=inputs)
    verify(program)
    assert_same_bits(program, seed=seed)
