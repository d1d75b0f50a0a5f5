"""Sigmoid and Tanh of 16-bit numbers inside integer cells, with the arithmetic of gemmlowp's fixed point.

    a ∘ b         min((a·b + 2^14) >> 15, 2^15 − 1)              sums and left shifts saturate at 16 bits
    e(v)          v ≤ 0 of b integer bits, u = (v mod ¼) − ¼:    ¼ and all of it in 15 − b fraction bits
                  p(u·2^b) times exp(−2^k) for k = −2 … b − 1, wherever that bit of u − v is set;  1 of v = 0
    p(x)          y = x + ⅛,   exp(−⅛) + exp(−⅛)∘(y + half(((y⁴/4 + y³)∘⅓) + y²)),      half rounds ties away
    d             (1 + e)/2, rounded away from zero
    r             48/17 − 32/17∘d, then three times r + 4·(r∘(1 − d∘r)):   1/d with 2 integer bits
    Sigmoid(v)    1/(1 + e^−|v|) = r/2,   1 − that of v < 0,   ½ of 0
    Tanh(v)       2/(1 + e^−2|v|) − 1 = r − 1 with the sign of v,   0 of 0

1 is 2^15 − 1. Sigmoid lies within 7 · 2^−15 of the exact value, Tanh within 12 · 2^−15. Source: gemmlowp
(fixedpoint.h), as TensorFlow Lite's integer LSTM uses it.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import rounding_divide_by_power_of_two
from calib8.program.rules import I16

Ints = npt.NDArray[np.int64]

LOW, ONE = -(1 << 15), (1 << 15) - 1
SIGMOID_INTEGER_BITS: Final = 3
"""Of what a gate reads: Q3.12."""

MOST_INTEGER_BITS: Final = 6
"""Of what Tanh reads."""

EXP_OF_EIGHTH: Final = 28918
"""exp(−⅛) in Q0.15."""

THIRD: Final = 10923
"""⅓ in Q0.15."""

FACTORS: Final = {-2: 25520, -1: 19875, 0: 12055, 1: 4435, 2: 600, 3: 11, 4: 0}
"""k → exp(−2^k) in Q0.15."""

START, SLOPE = 23130, -15420
"""48/17 and −32/17 in Q2.13."""

NEWTON_STEPS: Final = 3


@cache
def sigmoid_table() -> I16:
    """Q0.15 of every Q3.12, lowest first: [65536]."""
    codes = _every()
    exponential = _exponential(_below(codes), SIGMOID_INTEGER_BITS)
    above = _saturated(_reciprocal(exponential) << 1)
    return _as_table(np.where(codes > 0, above, np.where(codes < 0, ONE - above, 1 << 14)))


@cache
def tanh_table(integer_bits: int) -> I16:
    """Q0.15 of every 16-bit number with 0 … 6 integer bits, lowest first: [65536]."""
    codes = _every()
    exponential = _exponential(_below(codes), integer_bits + 1)
    size = _saturated((_reciprocal(exponential) - (1 << 13)) << 2)
    return _as_table(np.where(codes == 0, 0, np.where(codes < 0, -size, size)))


def _every() -> Ints:
    return np.arange(LOW, ONE + 1, dtype=np.int64)


def _below(codes: Ints) -> Ints:
    """−|code|, which −2^15 has too."""
    return np.where(codes > 0, -codes, codes)


def _as_table(codes: Ints) -> I16:
    table: I16 = codes.astype(np.int16)
    table.flags.writeable = False
    return table


def _saturated(x: Ints) -> Ints:
    result: Ints = np.clip(x, LOW, ONE)
    return result


def _product(a: Ints, b: Ints | int) -> Ints:
    result: Ints = np.minimum((a * b + (1 << 14)) >> 15, ONE)
    return result


def _exponential(v: Ints, integer_bits: int) -> Ints:
    """e(v) in Q0.15."""
    fraction_bits = 15 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    rest = (v & (quarter - 1)) - quarter
    result, steps = _polynomial(_saturated(rest << integer_bits)), rest - v
    for power, factor in FACTORS.items():
        if power < integer_bits:
            is_set = steps & (1 << (fraction_bits + power)) != 0
            result = np.where(is_set, _product(result, factor), result)
    if integer_bits > max(FACTORS) + 1:
        result = np.where(v < -(1 << (fraction_bits + max(FACTORS) + 1)), 0, result)
    return np.where(v == 0, ONE, result)


def _polynomial(x: Ints) -> Ints:
    """exp(x) in Q0.15 of x in Q0.15, −¼ ≤ x < 0."""
    y = x + (1 << 12)
    square = _product(y, y)
    quarter = rounding_divide_by_power_of_two(_product(square, square), 2)
    rest = _product(quarter + _product(square, y), THIRD) + square
    inner = y + rounding_divide_by_power_of_two(rest, 1)
    return _saturated(EXP_OF_EIGHTH + _product(inner, EXP_OF_EIGHTH))


def _reciprocal(exponential: Ints) -> Ints:
    """2/(1 + e) in Q2.13 by Newton's method."""
    half = (exponential + ONE + 1) >> 1
    result = START + _product(half, SLOPE)
    for _ in range(NEWTON_STEPS):
        error = (1 << 13) - _product(half, result)
        result = result + _saturated(_product(result, error) << 2)
    return result
