"""Sums of codes in fixed point, written as sums in float32 that give the same codes.

    rint(fma(a, lhs, fma(b, rhs, fixed)))        a, b codes minus their zero points

The sum of two codes is a function of 256 · 256 pairs, so whether a float32 form has its codes can be asked of
every pair. The factors of the rule, as float32, are right but for a few pairs near a half; among their
neighbours there is mostly a form that is right for all. Kernels add it to the codes of a layer in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import multiply_double_rounding
from calib8.program.rounding.fma import fused_multiply_add
from calib8.program.rules import AlignedSum, ScaledSum

Ints = npt.NDArray[np.int64]

NEIGHBOURS: Final = (0, 1, -1, 2, -2)
"""Units in the last place from a factor to those that are tried, the nearest first."""

OFFSETS: Final = (0.0, 2.0**-18, -(2.0**-18), 2.0**-17, -(2.0**-17))
"""What is tried as ``fixed``: it parts ties, and is far below what rules can tell apart otherwise."""

NEAR: Final = 2.0**-10
"""Pairs whose sum is this near to a half decide between candidates; all pairs are asked in the end."""


def float_form(
    rule: ScaledSum | AlignedSum, zeros: tuple[int, int], sign: int, low: int, high: int
) -> tuple[float, float, float] | None:
    """A float32 form of a sum that has its codes for every pair of stored codes.

    Args:
        rule: in fixed point.
        zeros: stored zero points of both sides.
        sign: −1 where the right side is subtracted.
        low, high: the clamp minus the output's zero point.

    Returns:
        ``(lhs, rhs, fixed)``, float32 values; None where no candidate is right.
    """
    a, b = (np.arange(256, dtype=np.int64) - zero for zero in zeros)
    lhs, rhs = _factors(rule)
    real = a[:, None] * lhs + b * (sign * rhs)
    codes = np.clip(_codes(rule, a[:, None], sign * b), low, high)
    near = np.nonzero(np.abs(real - np.floor(real) - 0.5) < NEAR)
    left, right, wanted = a[near[0]], b[near[1]], codes[near]
    for form in _candidates(lhs, sign * rhs):
        if np.array_equal(_float_codes(form, left, right, low, high), wanted) and np.array_equal(
            _float_codes(form, a[:, None], b, low, high), codes
        ):
            return form
    return None


def _factors(rule: ScaledSum | AlignedSum) -> tuple[float, float]:
    """What a step of either side counts in the result, before any rounding."""
    if isinstance(rule, AlignedSum):
        return rule.lhs * 2.0**-rule.shift, rule.rhs * 2.0**-rule.shift
    lhs, rhs, output = (
        multiplier * 2.0 ** (shift - 31) for multiplier, shift in (rule.lhs, rule.rhs, rule.output)
    )
    unit = 2.0**rule.left_shift * output
    return lhs * unit, rhs * unit


def _codes(rule: ScaledSum | AlignedSum, a: Ints, b: Ints) -> Ints:
    if isinstance(rule, AlignedSum):
        total: Ints = (a * rule.lhs + b * rule.rhs + (1 << (rule.shift - 1))) >> rule.shift
        return total
    left = multiply_double_rounding(a << rule.left_shift, *rule.lhs)
    right = multiply_double_rounding(b << rule.left_shift, *rule.rhs)
    return multiply_double_rounding(left + right, *rule.output)


def _candidates(lhs: float, rhs: float) -> Iterator[tuple[float, float, float]]:
    for fixed in OFFSETS:
        for i in NEIGHBOURS:
            for j in NEIGHBOURS:
                yield _neighbour(lhs, i), _neighbour(rhs, j), fixed


def _neighbour(factor: float, places: int) -> float:
    """The nearest float32, moved by units in the last place away from 0."""
    nearest = np.float32(factor)
    return float(nearest + np.float32(places) * np.spacing(nearest))


def _float_codes(
    form: tuple[float, float, float], a: npt.NDArray[Any], b: npt.NDArray[Any], low: int, high: int
) -> npt.NDArray[Any]:
    lhs, rhs, fixed = form
    total = fused_multiply_add(a, lhs, fused_multiply_add(b, rhs, fixed))
    result: npt.NDArray[Any] = np.clip(np.rint(total), low, high)
    return result
