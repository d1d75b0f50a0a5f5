"""Filters over time: what the second half of an SVDF layer makes of its memory.

    s [N, F·M]   16-bit codes with the zero point 0: the last M results of each of F filters
    acc[u]       bias[u] + Σ_f Σ_m s[f, m]·w[f, m]      f: the filters of unit u, next to each other; mod 2^32
    y[u]         clip(double(acc · multiplier · 2^(shift − 31)) + z_y, low, high)

Sums wrap around as int32 does, as they do in LiteRT's kernel: weights and memory of 16 bits may reach beyond.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import INT32_MAX, MAX_SHIFT, MIN_SHIFT, multiply_double_rounding
from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import CODES, Takes
from calib8.program.ops.operand import Ints, Operand
from calib8.program.ops.reach import RECALIBRATE
from calib8.program.ops.rescale import clipped
from calib8.program.ops.shapes import Shape
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.rules import I16, I32, Multipliers
from calib8.program.slot import Slot

MULTIPLIER_MIN: Final = 1 << 30
LARGEST_WIDE: Final = 1 << 15
LARGEST_SUM: Final = 1 << 31


@dataclass(frozen=True, eq=False)
class TimeFilter(Instruction):
    """Sums over what filters gave lately, rescaled.

    Attributes:
        weight: int16 [F, M].
        bias: int32 [U], of which each has F/U filters.
        factor: one, ``s_s·s_w / s_y``.
        low, high: clamp of the output codes.
    """

    weight: I16
    bias: I32
    factor: Multipliers
    low: int
    high: int


def time_filter(step: TimeFilter, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of every unit, [N, U]."""
    (memory,) = operands
    products = memory.data.reshape(-1, step.bias.size, step.weight.size // step.bias.size).astype(np.int64)
    sums = (products * step.weight.reshape(step.bias.size, -1)).sum(axis=2) + step.bias
    wrapped: Ints = sums.astype(np.int32).astype(np.int64)
    steps = multiply_double_rounding(wrapped, step.factor.multiplier[0], step.factor.shift[0])
    return clipped(steps + output.zero_point, step.low, step.high, output.dtype)


def _shape(step: Step, instruction: TimeFilter) -> tuple[Shape, ...]:
    source, weight = step.inputs[0].shape, instruction.weight.shape
    if len(weight) != 2 or len(source) != 2 or source[1] != math.prod(weight):
        problem = f"reads {list(source)} and has weights of shape {list(weight)}"
        raise step.error(problem, "Shapes must be [N, F·M] and [F, M]")
    units = instruction.bias.size
    if instruction.bias.ndim != 1 or not units or weight[0] % units:
        problem = f"has a bias of shape {list(instruction.bias.shape)} for {weight[0]} filters"
        raise step.error(problem, "Give one number per unit, and units that divide the filters")
    return ((source[0], units),)


def _check(step: Step, instruction: TimeFilter) -> None:
    """Refuses factors that are none, and sums that a factor shifts beyond int32."""
    multiplier, shift = instruction.factor.multiplier, instruction.factor.shift
    if multiplier.shape != (1,) or shift.shape != (1,):
        raise step.error(f"has {multiplier.size} multipliers and {shift.size} shifts", "Give one of each")
    if multiplier[0] != 0 and multiplier[0] < MULTIPLIER_MIN:
        raise step.error(f"has the multiplier {multiplier[0]}", f"It must be 0 or at least {MULTIPLIER_MIN}")
    if not MIN_SHIFT <= shift[0] <= MAX_SHIFT:
        raise step.error(f"has the shift {shift[0]}", f"It must be in {MIN_SHIFT} … {MAX_SHIFT}")
    if step.inputs[0].zero_point:
        raise step.error(f"reads codes with the zero point {step.inputs[0].zero_point}", "It must be 0")
    largest = min(_largest_sum(instruction), LARGEST_SUM)
    if shift[0] > 0 and largest << int(shift[0]) > INT32_MAX:
        problem = f"has sums up to {largest}, shifted left by {shift[0]}, beyond int32"
        raise step.error(problem, RECALIBRATE)


def _largest_sum(instruction: TimeFilter) -> int:
    bias = np.abs(instruction.bias.astype(np.int64))
    weights = np.abs(instruction.weight.astype(np.int64)).reshape(bias.size, -1).sum(axis=1)
    return int((LARGEST_WIDE * weights + bias).max())


def _macs(instruction: TimeFilter, source: Slot, result: Slot) -> int:
    return math.prod(source.shape)


TRAITS: Final[dict[type[Instruction], Traits]] = {
    TimeFilter: Traits(Takes((("16-bit codes",),), CODES), _shape, time_filter, macs=_macs, check=_check),
}
