"""Rows of codes brought to mean 0 and spread 1, then scaled and shifted per channel.

    t[i] = n·q[i] − Σq,   V = n·Σq² − (Σq)²         of the n codes of a row; zero points cancel
    t[i] = n·(q[i] − z),  V = n·Σ(q − z)²           where the mean stays (``centred`` is False)

    FloatNorm   r = fl(1 / sqrt(V + ε)), of float64 numbers
                y[i] = rint(fl(fl(fl(t[i]·r)·factor[i]) + offset[i])) + z_y                     float32
    FixedNorm   W = V·2^16 + ε,   2k even with 2^60 ≤ W·2^(2k) < 2^62,   R = ⌊(2^61 − 1) / ⌊sqrt(⌊W·2^(2k)⌋)⌋⌋
                u[i] = (t[i]·R + 2^(30 − k)) >> (31 − k)                    22 fraction bits
                y[i] = ((u[i]·multiplier[i] + offset[i]·2^30 + 2^(h − 1)) >> h) + z_y,   h = shift[i]

(x − mean) / sqrt(variance + epsilon) is t / sqrt(V + ε) with ε = epsilon·n² / s_x², and so is x divided by
sqrt(mean of x² + epsilon) where the mean stays. A row of equal codes, or of zero points, has V = 0 and t = 0;
then r and u are 0, whatever ε is.

With n ≤ 2^16 codes of 8 bits: |t| ≤ 255·(n − 1) < 2^24, a float32 number; Σq² < 2^32 for stored codes;
V ≤ (255·n / 2)² < 2^46, a float64 number. By Samuelson's inequality t² ≤ (n − 1)·V, so |t|·r < 2^8. W < 2^63,
so k is −1 … 22; R < 2^31, |t|·R < 2^55, |u| ≤ 2^30, and the sum before the last shift stays below 2^63.
Where the mean stays, n ≤ 2^15, V ≤ (255·n)² < 2^46 and t² ≤ n·V, so all of that holds too.

Codes of 16 bits have FloatNorm alone: n·Σq² and (Σq)² stay below 2^63 for as many codes, and t and V are
rounded once where they become float numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import ANY_CODES, Takes
from calib8.program.ops.operand import Ints, Operand
from calib8.program.ops.rescale import clipped
from calib8.program.ops.shapes import Shape
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.rules import NORM_EPSILON_BITS, NORM_OFFSET_BITS, FixedNorm, FloatNorm, NormRule
from calib8.program.slot import Slot

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class LayerNorm(Instruction):
    """Rows of the last axis with mean 0 and spread 1, times a factor and plus an offset per channel.

    Attributes:
        rule: factors and offsets.
        low, high: clamp of the codes.
        centred: the mean is subtracted; else rows get a mean square of 1.
    """

    rule: NormRule
    low: int
    high: int
    centred: bool = True


def layer_norm(step: LayerNorm, operands: Sequence[Operand], output: Slot) -> Array:
    """Codes of the rows; an output that its scale cannot hold saturates."""
    (x,) = operands
    codes = x.data.astype(np.int64)
    if not step.centred:
        codes = codes - x.slot.zero_point
    count, total = codes.shape[-1], codes.sum(axis=-1, keepdims=True) * int(step.centred)
    centred = count * codes - total
    spread = count * (codes * codes).sum(axis=-1, keepdims=True) - total * total
    if isinstance(step.rule, FixedNorm):
        steps: Array = _fixed(step.rule, centred, spread)
    else:
        steps = _float(step.rule, centred, spread)
    return clipped(steps + output.zero_point, step.low, step.high, output.dtype)


def _float(rule: FloatNorm, centred: Ints, spread: Ints) -> Array:
    """Steps of the output, whole float64 numbers or infinite."""
    with np.errstate(over="ignore", under="ignore"):
        root = np.sqrt(np.where(spread == 0, 1, spread).astype(np.float64) + rule.epsilon)
        inverse = np.where(spread == 0, 0.0, 1.0 / root).astype(np.float32)
        values = centred.astype(np.float32) * inverse * rule.factor + rule.offset
    steps: Array = np.rint(values).astype(np.float64)
    return steps


def _fixed(rule: FixedNorm, centred: Ints, spread: Ints) -> Ints:
    """Steps of the output."""
    wide = (np.where(spread == 0, 1, spread) << NORM_EPSILON_BITS) + rule.epsilon
    k = (62 - bit_length(wide)) >> 1
    root = floor_of_root(np.where(k < 0, wide >> 2, wide << (2 * np.maximum(k, 0))))
    values = (centred * (((1 << 61) - 1) // root) + (np.int64(1) << (30 - k))) >> (31 - k)
    shift = rule.shift.astype(np.int64)
    sums = values * rule.multiplier + (rule.offset.astype(np.int64) << NORM_OFFSET_BITS)
    steps: Ints = (sums + (np.int64(1) << (shift - 1))) >> shift
    return steps


def bit_length(numbers: Ints) -> Ints:
    """Of positive numbers below 2^63."""
    length = np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
    exact: Ints = length - (numbers >> (length - 1) == 0)  # float64 may have rounded up to a power of two
    return exact


def floor_of_root(numbers: Ints) -> Ints:
    """Of numbers from 2^60 to 2^62."""
    root = np.sqrt(numbers.astype(np.float64)).astype(np.int64)
    root = root - (root * root > numbers)
    result: Ints = root + ((root + 1) * (root + 1) <= numbers)
    return result


def _norm_shape(step: Step, instruction: LayerNorm) -> tuple[Shape, ...]:
    if not step.inputs[0].shape:
        raise step.error("reads a scalar", "LayerNorm needs an axis")
    return (step.inputs[0].shape,)


def _check_width(step: Step, instruction: LayerNorm) -> None:
    """Integers alone are enough for 8-bit codes alone."""
    if isinstance(instruction.rule, FixedNorm) and any(s.is_wide for s in (*step.inputs, step.output)):
        raise step.error("has 16-bit codes and FixedNorm", "It takes 8-bit codes alone")


TRAITS: Final[dict[type[Instruction], Traits]] = {
    LayerNorm: Traits(Takes((ANY_CODES,), ANY_CODES), _norm_shape, layer_norm, check=_check_width)
}
