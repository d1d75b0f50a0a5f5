"""Squares of differences and reciprocal roots: near the real numbers, and refused where LiteRT refuses."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.errors import NoFormError
from calib8.fixedpoint import multiply_double_rounding
from calib8.program.rounding.squares import difference_rule, reciprocal_root_table, square_table
from calib8.program.slot import Slot


def codes(scale: float, zero_point: int) -> Slot:
    return Slot("x", (4,), "int8", np.array([scale], np.float32), zero_point)


def test_squares_of_differences_by_hand() -> None:
    """Scales of powers of two: (16 − 6)² · 0.25 = 25 steps of 1, 6² · 0.25 = 9."""
    a, b, y = codes(0.5, 3), codes(0.5, -2), codes(1.0, -128)
    rule, table = difference_rule(a, b), square_table(a, b, y)
    for left, right, wanted in ((19, 4, 25), (9, -2, 9), (3, -2, 0), (4, -2, 0), (7, -2, 4)):
        scaled = [
            int(multiply_double_rounding((code - slot.zero_point) << rule.left_shift, *side))
            for code, slot, side in ((left, a, rule.lhs), (right, b, rule.rhs))
        ]
        assert table[scaled[0] - scaled[1] + (1 << 15)] == wanted - 128


def test_an_output_scale_that_is_too_small() -> None:
    with pytest.raises(NoFormError, match="the scale of its output, 1e-05, is too small"):
        square_table(codes(1.0, 0), codes(1.0, 0), codes(1e-5, 0))


@pytest.mark.parametrize("scale", [1e-4, 0.01, 0.37, 1.0])
def test_reciprocal_roots_are_within_a_code(scale: float) -> None:
    steps = np.arange(1, 256)
    real = 1 / np.sqrt(steps * scale)
    y = codes(float(real[0]) / 255, -128)
    table = reciprocal_root_table(codes(scale, -128), y)
    assert table[0] == 127
    assert np.abs(table[1:].astype(int) + 128 - real / y.scale).max() <= 1


def test_numbers_below_zero_have_no_root() -> None:
    with pytest.raises(NoFormError, match="its input has zero point -127: numbers below 0 have no root"):
        reciprocal_root_table(codes(0.1, -127), codes(0.1, 0))
