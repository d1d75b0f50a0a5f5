"""The matrix product of two activations: ``acc = (a − z_a) @ (b − z_b)``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import CODES, EITHER, Takes
from calib8.program.ops.operand import Operand
from calib8.program.ops.reach import LEVELS, Interval, check_sums, code_steps, product
from calib8.program.ops.shapes import Shape, broadcast_shape
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.ops.weighted import centred, exact_type, largest_step, written
from calib8.program.rules import Rescale
from calib8.program.slot import Slot


@dataclass(frozen=True, eq=False)
class MatMul(Instruction):
    """Two activations: ``Σ (a − z_a)(b − z_b)`` over [..., M, K] × [..., K, N], batch axes broadcast."""

    rescale: Rescale | None
    low: int
    high: int


def mat_mul(step: MatMul, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """The matrix product of two activations; batch axes broadcast."""
    lhs, rhs = operands
    dtype = exact_type(lhs.slot.shape[-1] * largest_step(lhs.slot) * largest_step(rhs.slot))
    acc = centred(lhs, dtype) @ centred(rhs, dtype)
    return written(acc.astype(np.int64), step.rescale, step.low, step.high, output)


def _mat_mul_shape(step: Step, instruction: MatMul) -> tuple[Shape, ...]:
    a, b = (slot.shape for slot in step.inputs)
    if min(len(a), len(b)) < 2 or a[-1] != b[-2]:
        raise step.error(f"multiplies {list(a)} by {list(b)}", "Shapes must be […, M, K] and […, K, N]")
    return ((*broadcast_shape(step, a[:-2], b[:-2]), a[-2], b[-1]),)


def _reach(step: Step, instruction: MatMul, inputs: Sequence[Interval]) -> Interval:
    depth = step.inputs[0].shape[-1]
    left, right = (code_steps(slot) for slot in step.inputs)
    one = product(left, right)
    unsigned = depth * LEVELS * max(-right[0], right[1])  # |a − z_a| is no larger than a − qmin can be
    check_sums(step, np.array([unsigned]), f"sums of {depth} products")
    return Interval(depth * one.low, depth * one.high)


def _macs(instruction: MatMul, source: Slot, result: Slot) -> int:
    """Elements of the output, times the axis that vanishes."""
    return math.prod(result.shape) * source.shape[-1]


TRAITS: Final[dict[type[Instruction], Traits]] = {
    MatMul: Traits(Takes((CODES, CODES), EITHER), _mat_mul_shape, mat_mul, _reach, _macs)
}
