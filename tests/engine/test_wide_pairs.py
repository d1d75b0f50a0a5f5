"""Sums, products, tables and pools of 16-bit codes: ways to broadcast, gaps, results beside whole numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from elementwise_cases import SHAPES, Shape, qparams, random_shapes
from example_programs import codes, single
from gaps import run_in_gaps
from generated import SEEDS, pick
from test_pools import geometry, image
from wide_programs import fed

from bits import ISAS, THREADS, assert_same_bits
from calib8.engine.compile import compile_program
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.program import Program, Slot
from calib8.program.reference.executor import run_program
from calib8.program.rounding.linear import product_rule, sum_rule
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify

Rng = np.random.Generator
WIDTHS = ((2, 2, 2), (2, 2, 1), (2, 1, 2), (1, 2, 2), (2, 1, 1), (1, 2, 1), (1, 1, 2))
"""Bytes of a code of the left operand, the right one and the result."""


def some_codes(name: str, shape: Shape, size: int, rng: Rng) -> Slot:
    """Codes of a width over about −6 … 6, with any zero point."""
    dtype = "int16" if size == 2 else pick(rng, "uint8", "int8")
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    zero = pick(rng, low, high, int(rng.integers(low, high + 1)), 0)
    scale = float(rng.uniform(0.02, 0.12)) / (256 if size == 2 else 1)
    return codes(name, *shape, scale=scale, zero_point=zero, dtype=dtype)


def clamp(slot: Slot, rng: Rng) -> dict[str, int]:
    ends = np.iinfo(slot.dtype)
    below, above = rng.integers(0, 100, 2) if rng.random() < 0.4 else (0, 0)
    return {"low": int(ends.min + below), "high": int(ends.max - above)}


def pair(kind: str, profile: Profile, shapes: tuple[Shape, Shape], seed: int) -> Program:
    """One instruction of two operands."""
    rng = np.random.default_rng((67, seed))
    sizes = WIDTHS[int(rng.integers(len(WIDTHS)))]
    wide = sizes[0] + sizes[1] > 2
    a, b = (some_codes(name, shapes[i], sizes[i], rng) for i, name in enumerate("ab"))
    y = some_codes("y", np.broadcast_shapes(*shapes), sizes[2], rng)
    if kind == "Mul":
        y = replace(y, scales=np.array([y.scale * 6], np.float32))
        rule: Any = product_rule(profile, a.scale, b.scale, y.scale, wide=wide)
        program = single(op.Mul, [a, b], y, profile, rescale=rule, **clamp(y, rng))
    else:
        how: Any = kind.lower()
        rule = sum_rule(profile, how, qparams(a), qparams(b), qparams(y), wide=wide)
        program = single(getattr(op, kind), [a, b], y, profile, rule=rule, **clamp(y, rng))
    verify(program)
    return program


@pytest.mark.one_in(3)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
def test_all_ways_to_broadcast(kind: str, profile: Profile) -> None:
    for seed, shapes in enumerate(SHAPES):
        program = pair(kind, profile, shapes, 100 * PROFILES.index(profile) + seed)
        assert_same_bits(program, fed(program, seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_pairs(seed: int) -> None:
    rng = np.random.default_rng((68, seed))
    program = pair(pick(rng, "Add", "Sub", "Mul"), PROFILES[seed % 3], random_shapes(rng), seed)
    assert_same_bits(program, fed(program, seed))


@pytest.mark.parametrize("seed", SEEDS[::2])
def test_tensors_with_gaps(seed: int) -> None:
    rng = np.random.default_rng((69, seed))
    program = pair(pick(rng, "Add", "Mul"), PROFILES[seed % 3], random_shapes(rng), seed)
    feeds = fed(program, seed)
    wanted = run_program(program, feeds)[0]
    for isa in ISAS:
        for threads in THREADS:
            np.testing.assert_array_equal(run_in_gaps(program, feeds, rng, isa, threads), wanted, err_msg=isa)


@pytest.mark.parametrize("right", [44, 46, 47, 48])
def test_products_beside_whole_numbers(right: int) -> None:
    """Of fixed-point products of up to 62 bits, those a unit short of a whole number."""
    rng = np.random.default_rng((70, right))
    a, b = (rng.integers(0, 1 << 15, 1 << 20).astype(np.uint64) * 2 + 1 for _ in range(2))
    product, inverse = a * b, a * b
    for _ in range(5):  # modulo 2^64; right to twice as many bits each time
        inverse *= 2 - product * inverse
    multiplier = (np.uint64((1 << (right - 1)) - 1) * inverse) % np.uint64(1 << right)
    found = np.flatnonzero((multiplier >= 1 << 28) & (multiplier < 1 << 30))[:12]
    assert found.size > 1
    for place in found:
        m, x, y = (int(values[place]) for values in (multiplier, a, b))
        assert (x * y * m + (1 << (right - 1)) + 1) % (1 << right) == 0
        check_product(m, 31 - right, x, y, rng)


def check_product(multiplier: int, shift: int, a: int, b: int, rng: Rng) -> None:
    """The product of two codes, and of many like them."""
    x = codes("a", 100, zero_point=-32768, dtype="int16")
    z = codes("y", 100, zero_point=-32768, dtype="int16")
    rule = rules.FixedRescale(np.array([multiplier], np.int32), np.array([shift], np.int32), "single")
    program = single(op.Mul, [x, replace(x, name="b")], z, "single", rescale=rule, low=-32768, high=32767)
    verify(program)
    feeds = {
        name: np.clip(rng.integers(-2, 3, 100) + near - 32768, -32768, 32767).astype(np.int16)
        for name, near in (("a", a), ("b", b))
    }
    feeds["a"][0], feeds["b"][0] = a - 32768, b - 32768
    assert_same_bits(program, feeds, threads=(1,))


@pytest.mark.parametrize("shift", [1, 2, 15, 30, 31, 40, 46, 47, 48, 49, 53, 62])
def test_sums_beside_whole_numbers(shift: int) -> None:
    """Multipliers and codes of all sizes, ties among them."""
    rng = np.random.default_rng((71, shift))
    x = codes("a", 4096, zero_point=int(rng.integers(-32768, 32768)), dtype="int16")
    y, z = replace(x, name="b", zero_point=32767), codes("y", 4096, zero_point=-5, dtype="int16")
    most = 1 << 30
    pairs = (most, 1 << 29), (most - 1, 3), (1 << 29, (1 << 29) + 1), (most - 1, most - 1), (most, 0x8000)
    for multipliers in (*pairs, (0x20008000, 0x30008000), (0x2F00_8001, 0x2000_7FFF)):
        rule = rules.AlignedSum(*multipliers, shift)
        for kind in (op.Add, op.Sub):
            program = single(kind, [x, y], z, "single", rule=rule, low=-32768, high=32767)
            feeds = fed(program, shift)
            assert_same_bits(program, feeds, threads=(1,))


@pytest.mark.parametrize("seed", SEEDS[::2])
def test_tables(seed: int) -> None:
    rng = np.random.default_rng((72, seed))
    shape, _ = random_shapes(rng)
    sizes = pick(rng, (2, 2), (2, 1), (1, 2))
    x, y = some_codes("x", shape, sizes[0], rng), some_codes("y", shape, sizes[1], rng)
    rows = (shape[-1],) if shape and sizes[0] == 1 and rng.random() < 0.5 else ()
    ends = np.iinfo(y.dtype)
    entries = rng.integers(ends.min, ends.max + 1, (*rows, 65536 if sizes[0] == 2 else 256))
    program = single(op.Lookup, [x], y, PROFILES[seed % 3], table=entries.astype(y.dtype), function="any")
    verify(program)
    feeds = fed(program, seed)
    assert_same_bits(program, feeds)
    wanted = run_program(program, feeds)[0]
    for isa in ISAS:
        np.testing.assert_array_equal(run_in_gaps(program, feeds, rng, isa, 2), wanted, err_msg=isa)


@pytest.mark.parametrize("seed", SEEDS)
def test_pools(seed: int) -> None:
    rng = np.random.default_rng((73, seed))
    x = replace(image(rng), dtype="int16", zero_point=int(rng.integers(-32768, 32768)))
    fields, size = geometry(rng, *x.shape[1:3], dilated=True)
    program = single(op.MaxPool, [x], replace(x, name="y", shape=(x.shape[0], *size, x.shape[3])), **fields)
    verify(program)
    assert "wide_max_pool" in [row.opcode for row in compile_program(program).rows]
    assert_same_bits(program, fed(program, seed))
