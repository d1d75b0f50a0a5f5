"""Codes by way of the real numbers that they stand for, in float32, ties away from zero: profile ``tengine``.

    RealRescale   y = round(fl(fl(fl(float32(acc)·input)·factor[c]) / output)) + z_y
    RealPair      y = round(fl(fl(a ∘ b) / s_y)) + z_y,   a = fl(s_a·(A − z_a)),  b = fl(s_b·(B − z_b)),
                  ∘ one of + − ·

then the clamp. So do Tengine's kernels (OAID Tengine, ``source/device/cpu/op``). Operands broadcast as in
NumPy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from calib8.program.ops.elementwise import elementwise_shape
from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import CODES, SUMS, Takes
from calib8.program.ops.operand import Operand
from calib8.program.ops.reach import Interval
from calib8.program.ops.rescale import clipped
from calib8.program.ops.shapes import same_shape
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.rules import F32
from calib8.program.slot import Slot

PairKind = Literal["sum", "difference", "product"]

JOIN: Final[Mapping[PairKind, Callable[[F32, F32], F32]]] = {
    "sum": operator.add,
    "difference": operator.sub,
    "product": operator.mul,
}
"""Kind of a RealPair → what becomes of the two numbers."""


@dataclass(frozen=True, eq=False)
class RealRescale(Instruction):
    """Sums (int32) → codes.

    Attributes:
        input: what sums are multiplied with first, a float32 value above 0.
        factor: float32 [1] or [channels of the last axis], ≥ 0.
        output: what the product is divided by, a float32 value above 0.
        low, high: clamp of the codes.
    """

    input: float
    factor: F32
    output: float
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class RealPair(Instruction):
    """Elementwise sum, difference or product of codes, broadcast; the scales are those of the slots.

    Attributes:
        kind: what is computed.
        low, high: clamp of the codes.
    """

    kind: PairKind
    low: int
    high: int


def real_rescale(step: RealRescale, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of the sums."""
    with np.errstate(over="ignore", under="ignore"):
        real = operands[0].data.astype(np.float32) * np.float32(step.input) * step.factor
    codes = quantized(real, step.output, output.zero_point, step.low, step.high, output.dtype)
    return codes.reshape(output.shape)  # one factor makes an axis of a scalar


def real_pair(step: RealPair, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of the sum, difference or product."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        a, b = (
            (operand.data.astype(np.int64) - operand.slot.zero_point).astype(np.float32)
            * np.float32(operand.slot.scale)
            for operand in operands
        )
        real = JOIN[step.kind](a, b)
    return quantized(real, output.scale, output.zero_point, step.low, step.high, output.dtype)


def quantized(real: F32, scale: float, zero_point: int, low: int, high: int, dtype: str) -> npt.NDArray[Any]:
    """``round(fl(real / scale)) + zero_point``, ties away from zero, clamped; no number counts as −∞."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        steps = rounded_away(np.asarray(real / np.float32(scale), np.float32)).astype(np.float64)
    steps = np.where(np.isnan(steps), -np.inf, steps)
    return clipped(steps + zero_point, low, high, dtype)


def rounded_away(values: F32) -> F32:
    """The nearest whole numbers, ties away from zero; x + ½ would round up what lies just below a half."""
    whole = np.trunc(values)
    with np.errstate(invalid="ignore"):
        up = np.abs(values - whole) >= np.float32(0.5)
    result: F32 = whole + np.where(up, np.sign(values), np.float32(0)).astype(np.float32)
    return result


def _as_read(step: Step, instruction: RealRescale, inputs: Sequence[Interval]) -> Interval:
    return inputs[0]


TRAITS: Final[dict[type[Instruction], Traits]] = {
    RealRescale: Traits(Takes((SUMS,), CODES), same_shape, real_rescale, _as_read),
    RealPair: Traits(Takes((CODES, CODES), CODES), elementwise_shape, real_pair),
}
