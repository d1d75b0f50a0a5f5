"""Softmax under every rule, natively and in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs import EXAMPLES, codes, single
from generated import SEEDS, code_slot, pick, qparams

from bits import assert_same_bits, random_array
from calib8.program import instructions as op
from calib8.program.program import Program, Slot
from calib8.program.rounding.softmax import softmax_rule
from calib8.program.rules import PROFILES, FixedSoftmax, Profile
from calib8.program.verify import verify

CLASSES = (1, 2, 3, 10, 15, 16, 17, 33, 64, 100, 255, 256, 257, 300)


def program_of(x: Slot, y: Slot, profile: Profile) -> Program:
    rule = softmax_rule(profile, x.scale, x.dtype, qparams(y), y.dtype, x.shape[-1])
    return single(op.Softmax, [x], y, profile, rule=rule)


def shares(x: Slot, dtype: str, scale: float = 1 / 256) -> Slot:
    return codes("y", *x.shape, scale=scale, zero_point=np.iinfo(dtype).min, dtype=dtype)


@pytest.mark.parametrize("profile", PROFILES)
def test_examples(profile: Profile) -> None:
    assert_same_bits(EXAMPLES["Softmax", profile])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", SEEDS)
def test_softmax(seed: int, profile: Profile) -> None:
    rng = np.random.default_rng((6, seed))
    rows = pick(rng, (), (1,), (3,), (2, 5))
    x = code_slot("x", rng, *rows, pick(rng, *CLASSES), scale=pick(rng, 0.004, 0.02, 0.05, 0.3, 3.0))
    y = shares(x, pick(rng, "uint8", "int8"))
    if profile != "tflite" and rng.random() < 0.5:
        y = code_slot("y", rng, *x.shape, scale=pick(rng, 0.01, 0.0005, 0.0021))
    program = program_of(x, y, profile)
    verify(program)
    feeds = {"x": random_array(x, rng)}
    if rng.random() < 0.5:  # close together, so that many shares are not 0
        feeds["x"] = (feeds["x"] // 8 + int(rng.integers(0, 4))).astype(x.dtype)
    assert_same_bits(program, feeds)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("scale", [0.02, 0.12])
def test_softmax_of_a_thousand_classes(scale: float, profile: Profile) -> None:
    x = codes("x", 2, 1000, scale=scale, dtype="int8")
    assert_same_bits(program_of(x, shares(x, "uint8"), profile))


@pytest.mark.parametrize("profile", PROFILES)
def test_equal_codes_share_evenly(profile: Profile) -> None:
    for classes, code in ((1, 0), (2, 255), (3, 7), (256, 128), (4500, 1)):
        x = codes("x", 1, classes)
        assert_same_bits(program_of(x, shares(x, "int8"), profile), {"x": np.full(x.shape, code, np.uint8)})


@pytest.mark.parametrize("scale", [1e-7, 1e-3, 20.0])
def test_fixed_point_at_both_ends_of_the_input_scales(scale: float) -> None:
    x = codes("x", 4, 40, scale=scale)
    program = program_of(x, shares(x, "int8"), "tflite")
    rule = program.instructions[0].rule  # type: ignore[attr-defined]
    assert isinstance(rule, FixedSoftmax)
    assert_same_bits(program)
