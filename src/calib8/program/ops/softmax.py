"""Softmax of codes over the last axis: two tables and a division, or gemmlowp's fixed point.

    d = q − max of the row
    TableSoftmax   onnx     y = rint(fl(fl(e[d]·factor) / S)) + z_y,   S = fl(fl(e₁ + e₂) + …)      float32
                   single   y = floor((2·e[d]·factor + S·2^f) / (S·2^(f + 1))) + z_y                int64
    RealSoftmax    y = round(fl(fl(e[max, q] / S) / s_y)) + z_y,  S as in onnx      float32, ties away
    FixedSoftmax   r = SRDHM(d << shift, multiplier),  e = exp(r),  d < diff_min counts as −∞
                   S = Σ RDPOT(e, 12),   y = lowest code + RDPOT(SRDHM(1/S, e), …)

Fixed point as in gemmlowp: Qa.b has a integer and b fraction bits in int32; products are SRDHM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import (
    INT32_MAX,
    INT32_MIN,
    Ints,
    rounding_divide_by_power_of_two,
    rounding_doubling_high_multiply,
)
from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import UNARY
from calib8.program.ops.operand import Operand
from calib8.program.ops.real import quantized
from calib8.program.ops.rescale import clipped
from calib8.program.ops.shapes import Shape
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.rules import F32, FixedSoftmax, RealSoftmax, SoftmaxRule, TableSoftmax
from calib8.program.slot import Slot

Array = npt.NDArray[Any]

EXP_MINUS_EIGHTH: Final = 1895147668
"""e^(−1/8) in Q0.31."""

ONE_THIRD: Final = 715827883
"""1/3 in Q0.31."""

EXP_OF_MINUS_POWERS: Final = {
    -2: 1672461947,
    -1: 1302514674,
    0: 790015084,
    1: 290630308,
    2: 39332535,
    3: 720401,
    4: 242,
}
"""e^(−2^k) in Q0.31, by k."""

SUM_BITS: Final = 12
"""Integer bits of the sum of exponentials."""


@dataclass(frozen=True, eq=False)
class Softmax(Instruction):
    """Softmax over the last axis."""

    rule: SoftmaxRule


def softmax(step: Softmax, operands: Sequence[Operand], output: Slot) -> Array:
    """Shares of one; an output that its scale cannot hold saturates."""
    (x,) = operands
    below = x.data.astype(np.int64)
    below = below - below.max(axis=-1, keepdims=True)
    lowest, highest = np.iinfo(output.dtype).min, np.iinfo(output.dtype).max
    if isinstance(step.rule, RealSoftmax):
        shares = _real_shares(step.rule, x)
        return quantized(shares, output.scale, output.zero_point, lowest, highest, output.dtype)
    if isinstance(step.rule, FixedSoftmax):
        return clipped(_fixed(step.rule, below) + lowest, lowest, highest, output.dtype)
    table = _integer_table if step.rule.fraction_bits else _float_table
    return clipped(table(step.rule, below) + output.zero_point, lowest, highest, output.dtype)


def _real_shares(rule: RealSoftmax, x: Operand) -> F32:
    place = x.data.astype(np.intp) - np.iinfo(x.slot.dtype).min
    exponentials = rule.table[place.max(axis=-1, keepdims=True), place]
    shares: F32 = exponentials / exponentials.cumsum(axis=-1, dtype=np.float32)[..., -1:]
    return shares


def _float_table(rule: TableSoftmax, below: Ints) -> Array:
    exponentials = rule.table[below + 255]
    # cumsum adds one after the other, which sum does not
    total = exponentials.cumsum(axis=-1, dtype=np.float32)[..., -1:]
    with np.errstate(over="ignore"):
        shares: Array = np.rint(exponentials * np.float32(rule.factor) / total).astype(np.float64)
    return shares


def _integer_table(rule: TableSoftmax, below: Ints) -> Array:
    exponentials = rule.table[below + 255].astype(np.int64)
    total = exponentials.sum(axis=-1, keepdims=True)
    doubled = 2 * exponentials * int(rule.factor) + (total << rule.fraction_bits)
    shares: Array = doubled // (total << (rule.fraction_bits + 1))
    return shares


def _fixed(rule: FixedSoftmax, below: Ints) -> Ints:
    """Shares in 1/256, 0 … 256."""
    counted = below >= rule.diff_min
    scaled = rounding_doubling_high_multiply(np.where(counted, below, 0) << rule.shift, rule.multiplier)
    exponentials = np.where(counted, exp_of_negative(scaled, 5), 0)
    total = rounding_divide_by_power_of_two(exponentials, SUM_BITS).sum(axis=-1, keepdims=True)
    total = np.minimum(total, INT32_MAX)  # 4096 codes as large as the largest; TFLite's sum would wrap
    headroom = _leading_zeros(total)
    inverse = one_over_one_plus((total << headroom) - (1 << 31))
    shares = rounding_doubling_high_multiply(inverse, exponentials)
    return rounding_divide_by_power_of_two(shares, SUM_BITS - headroom + 23)


def exp_of_negative(a: Ints, integer_bits: int) -> Ints:
    """e^a in Q0.31 of a ≤ 0 with that many integer bits."""
    fraction_bits = 31 - integer_bits
    quarter = np.int64(1) << (fraction_bits - 2)
    within = (a & (quarter - 1)) - quarter
    result = _exp_within_quarter(within << integer_bits)
    whole = within - a
    for power, factor in EXP_OF_MINUS_POWERS.items():
        if integer_bits > power:
            bit = np.int64(1) << (fraction_bits + power)
            result = np.where(whole & bit, rounding_doubling_high_multiply(result, factor), result)
    return np.where(a == 0, INT32_MAX, result)


def _exp_within_quarter(a: Ints) -> Ints:
    """e^a in Q0.31 of −1/4 ≤ a < 0: four terms of the series around −1/8."""
    x = a + (1 << 28)
    square = rounding_doubling_high_multiply(x, x)
    cube = rounding_doubling_high_multiply(square, x)
    fourth = rounding_divide_by_power_of_two(rounding_doubling_high_multiply(square, square), 2)
    rest = rounding_doubling_high_multiply(fourth + cube, ONE_THIRD) + square
    series = x + rounding_divide_by_power_of_two(rest, 1)
    return EXP_MINUS_EIGHTH + rounding_doubling_high_multiply(series, EXP_MINUS_EIGHTH)


def one_over_one_plus(a: Ints) -> Ints:
    """1/(1 + a) in Q0.31 of 0 ≤ a < 1 in Q0.31: three steps of Newton's method."""
    half = (a + INT32_MAX + 1) // 2
    x = 1515870810 + rounding_doubling_high_multiply(half, -1010580540)  # 48/17 − 32/17·half in Q2.29
    for _ in range(3):
        error = (1 << 29) - rounding_doubling_high_multiply(half, x)
        x = x + _saturating_left_shift(rounding_doubling_high_multiply(x, error), 2)
    return _saturating_left_shift(x, 1)


def _saturating_left_shift(x: Ints, bits: int) -> Ints:
    result: Ints = np.clip(x << bits, INT32_MIN, INT32_MAX)
    return result


def _leading_zeros(x: Ints) -> Ints:
    """Of positive int32 numbers."""
    return 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64)


def _softmax_shape(step: Step, instruction: Softmax) -> tuple[Shape, ...]:
    if not step.inputs[0].shape:
        raise step.error("reads a scalar", "Softmax needs an axis")
    return (step.inputs[0].shape,)


TRAITS: Final[dict[type[Instruction], Traits]] = {Softmax: Traits(UNARY, _softmax_shape, softmax)}
