"""Fixed-point sums in float32: the same code for every pair of codes, or no form at all."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.engine.emit.float_sums import float_form
from calib8.fixedpoint import encode_multiplier, multiply_double_rounding
from calib8.program.rules import AlignedSum, ScaledSum

CODES = np.arange(256, dtype=np.int64)


def random_rule(kind: str, rng: np.random.Generator) -> ScaledSum | AlignedSum:
    """The larger side counts one half of what is added, as lowering makes it."""
    lhs, rhs, scale = rng.uniform(0.05, 1), 1.0, rng.uniform(0.3, 1.2)
    if rng.random() < 0.5:
        lhs, rhs = rhs, lhs
    if kind == "single":
        return AlignedSum(round(lhs * scale * 2**20), round(rhs * scale * 2**20), 20)
    output = encode_multiplier(scale * 2.0**-19)
    return ScaledSum(20, encode_multiplier(lhs / 2), encode_multiplier(rhs / 2), output)


def fixed_codes(rule: ScaledSum | AlignedSum, zeros: tuple[int, int], sign: int) -> np.ndarray:
    """The definition, one row per left code."""
    a, b = (CODES - zeros[0])[:, None], sign * (CODES - zeros[1])
    if isinstance(rule, AlignedSum):
        return (a * rule.lhs + b * rule.rhs + (1 << (rule.shift - 1))) >> rule.shift
    left = multiply_double_rounding(a << 20, *rule.lhs)
    return multiply_double_rounding(left + multiply_double_rounding(b << 20, *rule.rhs), *rule.output)


@pytest.mark.parametrize("kind", ["single", "double"])
def test_most_sums_have_a_form_and_it_is_right(kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    found = 0
    for _ in range(24):
        rule, zeros = random_rule(kind, rng), (int(rng.integers(0, 256)), int(rng.integers(0, 256)))
        sign, zero_point = int(rng.choice([1, -1])), int(rng.integers(0, 256))
        low, high = -zero_point, 255 - zero_point
        form = float_form(rule, zeros, sign, low, high)
        if form is None:
            continue
        found += 1
        lhs, rhs, fixed = form
        assert form == tuple(float(np.float32(value)) for value in form)
        inner = ((CODES - zeros[1]) * rhs + fixed).astype(np.float32).astype(np.float64)  # exact in float64
        total = (((CODES - zeros[0]) * lhs)[:, None] + inner).astype(np.float32)
        wanted = np.clip(fixed_codes(rule, zeros, sign), low, high)
        np.testing.assert_array_equal(np.clip(np.rint(total), low, high), wanted)
    assert found >= 20


def test_the_nearest_factors_alone_are_not_enough() -> None:
    """Else looking for neighbours, and at every pair, would be idle."""
    rng = np.random.default_rng(3)
    rules = [random_rule("single", rng) for _ in range(30)]
    forms = [float_form(rule, (128, 100), 1, -128, 127) for rule in rules]
    moved = [
        form is not None and form != (rule.lhs * 2.0**-20, rule.rhs * 2.0**-20, 0.0)
        for rule, form in zip(rules, forms, strict=True)
        if isinstance(rule, AlignedSum)
    ]
    assert 0 < sum(moved) < 30


def test_sums_that_no_line_describes_have_no_form() -> None:
    """One side saturates int32 before it is rounded."""
    rule = ScaledSum(20, (1 << 30, 6), (1 << 30, -1), (1 << 30, -25))
    assert float_form(rule, (0, 0), 1, 0, 255) is None
