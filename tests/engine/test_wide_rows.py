"""Lengths and norms of 16-bit codes: every instruction set and number of threads has the reference's bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from decode import steps_of
from example_programs import EXAMPLES, codes, single
from generated import CHANNELS, SEEDS, pick
from test_layer_norm import random_rows, random_rule
from test_reduce import reduced, shape_and_axes
from test_wide_pairs import clamp, some_codes
from wide_programs import WIDE, fed, widened

from bits import assert_same_bits
from calib8.engine.compile import compile_program
from calib8.engine.steps import WideLayerNorm, WideLength
from calib8.errors import ModelError
from calib8.program import instructions as op
from calib8.program.ops.length import MOST_WIDE
from calib8.program.program import Program
from calib8.program.rounding.quotient import length_rule
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify

Rng = np.random.Generator
SIZES = ((2, 2), (2, 1), (1, 2))
"""Bytes of a code that is read, and of one that is written."""


def length_of(rng: Rng, profile: Profile, shape: tuple[int, ...], axes: tuple[int, ...]) -> Program:
    """Of vectors whose lengths spread over the codes of the result."""
    reads, writes = pick(rng, *SIZES)
    x = some_codes("x", shape, reads, rng)
    y = some_codes("y", reduced(rng, shape, axes), writes, rng)
    wider = float(np.float32(y.scale * pick(rng, 1, 3, 20)))
    y = replace(y, scales=np.array([wider], np.float32))
    rule = length_rule(profile, x.scale, y.scale)
    return single(op.ReduceL2, [x], y, profile, axes=axes, rescale=rule, **clamp(y, rng))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", SEEDS)
def test_lengths(seed: int, profile: Profile) -> None:
    rng = np.random.default_rng((91, seed))
    program = length_of(rng, profile, *shape_and_axes(rng))
    verify(program)
    assert_same_bits(program, fed(program, seed))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("shape", [(1, 2, 4, 129), (1, 129, 4, 2), (3, 2, 200), (1, 65, 2, 64), (2, 1)])
def test_lengths_of_pairs(shape: tuple[int, ...], profile: Profile) -> None:
    """What a spectrum has: real and imaginary parts."""
    rng = np.random.default_rng(shape)
    program = length_of(rng, profile, shape, (shape.index(2),))
    assert_same_bits(program, fed(program, len(shape)), threads=(1, 2, 3))
    assert any(isinstance(step, WideLength) for step in steps_of(compile_program(program)))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("count", [1, 2, 257, 70_001])
def test_lengths_of_codes_at_the_end_of_their_range(count: int, profile: Profile) -> None:
    """Squares of 32 bits, sums beyond 2^48."""
    x = codes("x", 2, count, zero_point=-32768, scale=0.001, dtype="int16")
    y = codes("y", 2, zero_point=-32768, scale=0.3, dtype="int16")
    rule = length_rule(profile, x.scale, y.scale)
    program = single(op.ReduceL2, [x], y, profile, axes=(1,), rescale=rule, low=-32768, high=32767)
    assert_same_bits(program, {"x": np.full((2, count), 32767, np.int16)})


def test_a_length_of_too_many_codes_is_refused() -> None:
    x = codes("x", 2, MOST_WIDE, scale=0.001, dtype="int16")
    rule = length_rule("onnx", 0.001, 0.05)
    program = single(op.ReduceL2, [x], codes("y", 2), axes=(1,), rescale=rule, low=0, high=255)
    verify(program)
    with pytest.raises(ModelError, match="adds 268435457 squares of 16-bit codes"):
        verify(replace(program, slots=(replace(x, shape=(2, MOST_WIDE + 1)), program.slots[1])))


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_norms(seed: int, centred: bool) -> None:
    rng = np.random.default_rng((92, seed))
    rows = pick(rng, (), (1,), (3,), (2, 5), (2, 3, 5))
    reads, writes = pick(rng, *SIZES)
    x = some_codes("x", (*rows, pick(rng, *CHANNELS, 1000)), reads, rng)
    y = some_codes("y", x.shape, writes, rng)
    rule = random_rule(rng, x, y, "onnx", centred)
    program = single(op.LayerNorm, [x], y, rule=rule, centred=centred, **clamp(y, rng))
    verify(program)
    assert_same_bits(program, {"x": random_rows(x, rng)}, threads=(1, 2, 3))
    assert any(isinstance(step, WideLayerNorm) for step in steps_of(compile_program(program)))


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("longest", [1 << 16, 1 << 15])
def test_long_rows_of_the_ends_of_codes(longest: int, centred: bool) -> None:
    """Products of 62 bits."""
    rng = np.random.default_rng(longest)
    longest = longest if centred else longest // 2
    x, y = (codes(name, 2, longest, scale=1e-4, zero_point=-32768, dtype="int16") for name in "xy")
    rule = random_rule(rng, x, y, "onnx", centred)
    program = single(op.LayerNorm, [x], y, rule=rule, centred=centred, low=-32768, high=32767)
    verify(program)
    for data in (rng.choice([-32768, 32767], x.shape), np.full(x.shape, 32767)):
        assert_same_bits(program, {"x": data.astype(np.int16)})


@pytest.mark.parametrize("name", [name for name, profile in WIDE if profile == "onnx" and "," in name])
def test_examples(name: str) -> None:
    if name.startswith(("ReduceL2", "LayerNorm")):
        assert_same_bits(WIDE[name, "onnx"])


@pytest.mark.parametrize("profile", ["tflite", "single"])
@pytest.mark.parametrize("number", [0, 1])
def test_norms_of_integers_have_8_bits_alone(number: int, profile: Any) -> None:
    with pytest.raises(ModelError, match="16-bit codes and FixedNorm"):
        verify(widened(EXAMPLES["LayerNorm", profile], number))
