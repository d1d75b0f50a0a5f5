"""Groups of channels of an image brought to mean 0 and spread 1 over all its pixels, then scaled and shifted.

    n codes q of a group: the pixels times its channels           zero points cancel
    V = n·Σq² − (Σq)²,   c = ⌊Σq/n + 1/2⌋,   e = Σq − n·c,   |e| ≤ n/2

    FloatGroupNorm   r = 1 / sqrt(V + ε)                                                    float64
                     a = fl(n·r·factor),   b = fl(offset − e·r·factor)    float64, then float32; per channel
                     y = rint(fl(fl((q − c)·a) + b)) + z_y                                  float32
    FixedGroupNorm   W = V·2^f + ε,   k with 2^60 ≤ W·2^(2k) < 2^62
                     R = ⌊(2^61 − 1) / ⌊sqrt(⌊W·2^(2k)⌋)⌋⌋
                     G = ⌊n·R / 2^l⌋ with 2^30 ≤ G < 2^31,   p = 61 − f/2 − k − l        n·r is about G / 2^p
                     a = G·multiplier / 2^(p + multiplier_shift − h),   b = offset / 2^(offset_shift − h)
                     h = 1 … 30, the largest with 2^8·|a| and |b| below 2^29; both are rounded, ties up
                     E = ⌊e·2^22 / n + 1/2⌋,   b' = b − ⌊E·a / 2^22 + 1/2⌋
                     y = (((q − c)·a + b' + 2^(h − 1)) >> h) + z_y

(x − mean) / sqrt(variance + epsilon) is (n·q − Σq)·r with ε = epsilon·n² / s_x². A group of equal codes has
V = 0; then a is 0, whatever ε is.

With n ≤ 2^23 codes of 8 bits: V ≤ (255·n / 2)² < 2^60, f = 48 − 2·⌈log2 n⌉ and at most 16, so W < 2^63. All
numbers of the last line are below 2^31.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import UNARY
from calib8.program.ops.layer_norm import bit_length, floor_of_root
from calib8.program.ops.operand import Ints, Operand
from calib8.program.ops.rescale import clipped
from calib8.program.ops.shapes import Shape
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.rules import FixedGroupNorm, FloatGroupNorm, GroupNormRule, group_epsilon_bits
from calib8.program.slot import Slot

Array = npt.NDArray[Any]
PART_BITS: Final = 22
MOST_GAIN: Final = 1 << 21
MOST_OFFSET: Final = 1 << 29
MOST_SHIFT: Final = 30


@dataclass(frozen=True, eq=False)
class GroupNorm(Instruction):
    """Groups of neighbouring channels of [N, H, W, C] with mean 0 and spread 1, times a factor and plus an
    offset per channel."""

    groups: int
    rule: GroupNormRule
    low: int
    high: int


@dataclass(frozen=True)
class _Sums:
    """Of every image and group: n, Σq rounded to the mean c, what is left e, and V; int64 [N, 1, 1, G, 1]."""

    count: int
    centre: Ints
    rest: Ints
    spread: Ints


def group_norm(step: GroupNorm, operands: Sequence[Operand], output: Slot) -> Array:
    """Codes of the groups; an output that its scale cannot hold saturates."""
    (x,) = operands
    shape = x.data.shape
    codes = x.data.astype(np.int64).reshape(*shape[:-1], step.groups, -1)
    count, axes = math.prod(codes.shape[1:3]) * codes.shape[-1], (1, 2, 4)
    total = codes.sum(axis=axes, keepdims=True)
    spread = count * (codes * codes).sum(axis=axes, keepdims=True) - total * total
    centre = (2 * total + count) // (2 * count)
    sums = _Sums(count, centre, total - count * centre, spread)
    if isinstance(step.rule, FixedGroupNorm):
        steps: Array = _fixed(step.rule, codes, sums)
    else:
        steps = _float(step.rule, codes, sums)
    return clipped(steps.reshape(shape) + output.zero_point, step.low, step.high, output.dtype)


def _float(rule: FloatGroupNorm, codes: Ints, sums: _Sums) -> Array:
    """Steps of the output, whole float64 numbers or infinite."""
    groups = codes.shape[-2:]
    factor, offset = (a.astype(np.float64).reshape(groups) for a in (rule.factor, rule.offset))
    flat = sums.spread == 0
    inverse = np.where(
        flat, 0.0, 1.0 / np.sqrt(np.where(flat, 1, sums.spread).astype(np.float64) + rule.epsilon)
    )
    with np.errstate(over="ignore", under="ignore"):
        gain = (float(sums.count) * inverse * factor).astype(np.float32)
        added = (offset - sums.rest.astype(np.float64) * inverse * factor).astype(np.float32)
        values = (codes - sums.centre).astype(np.float32) * gain + added
    steps: Array = np.rint(values).astype(np.float64)
    return steps


def _fixed(rule: FixedGroupNorm, codes: Ints, sums: _Sums) -> Ints:
    """Steps of the output."""
    groups = codes.shape[-2:]
    multiplier, offset, multiplier_shift, offset_shift = (
        a.astype(np.int64).reshape(groups)
        for a in (rule.multiplier, rule.offset, rule.multiplier_shift, rule.offset_shift)
    )
    gain, places = _gain(rule, sums)
    product, right = gain * multiplier, places + multiplier_shift
    room = np.where(product == 0, MOST_SHIFT, right - 41)
    offset_room = np.where(offset == 0, MOST_SHIFT, offset_shift - 2)
    shift = np.clip(np.minimum(room, offset_room), 1, MOST_SHIFT)
    factor = _rounded_right(product, right - shift, 41, MOST_GAIN)
    added = _rounded_right(offset, offset_shift - shift, 2, MOST_OFFSET)
    part = (2 * (sums.rest << PART_BITS) + sums.count) // (2 * sums.count)
    added = added - ((part * factor + (1 << (PART_BITS - 1))) >> PART_BITS)
    steps: Ints = ((codes - sums.centre) * factor + added + (np.int64(1) << (shift - 1))) >> shift
    return steps


def _gain(rule: FixedGroupNorm, sums: _Sums) -> tuple[Ints, Ints]:
    """n / sqrt(V + ε) as a number of 31 bits and how many of them are fraction bits; 0 where V is."""
    bits = group_epsilon_bits(sums.count)
    wide = (np.where(sums.spread == 0, 1, sums.spread) << bits) + rule.epsilon
    k = (62 - bit_length(wide)) >> 1
    root = floor_of_root(np.where(k < 0, wide >> 2, wide << (2 * np.maximum(k, 0))))
    product = sums.count * (((1 << 61) - 1) // root)
    left = bit_length(product) - 31
    gain = np.where(sums.spread == 0, 0, product >> left)
    return gain, 61 - bits // 2 - k - left


def _rounded_right(numbers: Ints, right: Ints, least: int, most: int) -> Ints:
    """Numbers · 2^−right within ±most, ties up; with less than ``least`` places all are at the ends."""
    inner = np.clip(right, least, 62)
    rounded = np.clip((numbers + (np.int64(1) << (inner - 1))) >> inner, -most, most)
    result: Ints = np.where(right < least, np.sign(numbers) * most, np.where(right > 62, 0, rounded))
    return result


def _group_shape(step: Step, instruction: GroupNorm) -> tuple[Shape, ...]:
    shape = step.inputs[0].shape
    if len(shape) != 4:
        raise step.error(f"reads {len(shape)} axes", "GroupNorm takes images [N, H, W, C]")
    if instruction.groups < 1 or shape[3] % instruction.groups:
        raise step.error(f"has {instruction.groups} groups of {shape[3]} channels", "Give whole groups")
    return (shape,)


TRAITS: Final[dict[type[Instruction], Traits]] = {GroupNorm: Traits(UNARY, _group_shape, group_norm)}
