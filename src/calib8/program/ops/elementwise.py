"""Elementwise instructions: sums, differences and products of codes, the larger, the smaller, tables.

    FloatSum         rint(fma(A, lhs, fma(B, rhs, fixed)))                               float32
    DequantizedSum   rint(fl(fl(s_a·(A−z_a)) ± fl(s_b·(B−z_b))) / s_y) + z_y             float32
    ScaledSum        M(M((A−z_a) << 20, lhs) ± M((B−z_b) << 20, rhs), output) + z_y      double rounding
    AlignedSum       (((A−z_a)·lhs ± (B−z_b)·rhs + 2^(shift−1)) >> shift) + z_y          one rounding

then the clamp. Operands broadcast as in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import multiply_double_rounding
from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import ANY_CODES, CODES, EITHER, SUMS, Takes
from calib8.program.ops.operand import Ints, Operand
from calib8.program.ops.reach import Interval, code_steps, product
from calib8.program.ops.rescale import clipped, rescale
from calib8.program.ops.shapes import Shape, broadcast_shape, same_shape
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.rounding.fma import fused_multiply_add
from calib8.program.rules import (
    F32,
    AlignedSum,
    AlignedSums,
    DequantizedSum,
    FloatSum,
    ProductRule,
    Rescale,
    ScaledSum,
    SumRule,
    Table,
)
from calib8.program.slot import Slot


@dataclass(frozen=True, eq=False)
class Requantize(Instruction):
    """Sums (int32) → codes."""

    rescale: Rescale
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Add(Instruction):
    """Elementwise sum of codes, broadcast."""

    rule: SumRule
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Sub(Instruction):
    """Elementwise difference of codes, broadcast; same rules with the right side negative."""

    rule: SumRule
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class AddSums(Instruction):
    """Elementwise sum, broadcast, where an operand is a slot of sums (a layer that no quantizer reads).

    Attributes:
        rule: None for ``onnx``: ``clip(rint(fl(fl(s_a[c]·a) + fl(s_b[c]·b)) / s_y) + z_y)`` in float32 with
            the scales of the slots.
    """

    rule: AlignedSums | None
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Mul(Instruction):
    """Elementwise product ``(A − z_a)(B − z_b)`` of codes, broadcast, rescaled by s_a·s_b/s_y."""

    rescale: ProductRule
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Maximum(Instruction):
    """Elementwise larger code, broadcast; all slots share scale and zero point."""


@dataclass(frozen=True, eq=False)
class Minimum(Instruction):
    """Elementwise smaller code, broadcast; all slots share scale and zero point."""


@dataclass(frozen=True, eq=False)
class Lookup(Instruction):
    """A unary function of codes, a change of scale included: ``output = table[code − lowest code]``.

    Attributes:
        table: codes of the output: [256], or [channels, 256] with one row per index of the last axis;
            [65536] for 16-bit codes of the input.
        function: what it computes, for the listing (``Sigmoid``, ``Requantize`` …).
    """

    table: Table
    function: str


def requantize(step: Requantize, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of the sums of a slot; per-channel factors belong to its last axis."""
    acc = operands[0].data.astype(np.int64)
    return rescale(acc, step.rescale, output.zero_point, step.low, step.high, output.dtype)


def add(step: Add, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of the sum."""
    return clipped(_sum(step.rule, operands, 1, output.zero_point), step.low, step.high, output.dtype)


def sub(step: Sub, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of the difference."""
    return clipped(_sum(step.rule, operands, -1, output.zero_point), step.low, step.high, output.dtype)


def _sum(rule: SumRule, operands: Sequence[Operand], sign: int, zero_point: int) -> npt.NDArray[Any]:
    """Whole numbers before the clamp, the output's zero point included."""
    lhs, rhs = operands
    if isinstance(rule, FloatSum):  # the zero points and, of a difference, the sign lie in the rule
        inner = fused_multiply_add(rhs.data, np.float32(rule.rhs), np.float32(rule.fixed))
        return np.rint(fused_multiply_add(lhs.data, np.float32(rule.lhs), inner))
    a, b = _centred(lhs), _centred(rhs)
    if isinstance(rule, DequantizedSum):
        return _dequantized_sum(_real(a, rule.lhs), sign * _real(b, rule.rhs), rule.output) + zero_point
    if isinstance(rule, ScaledSum):
        scaled_a = multiply_double_rounding(a << rule.left_shift, *rule.lhs)
        scaled_b = multiply_double_rounding(b << rule.left_shift, *rule.rhs)
        return multiply_double_rounding(scaled_a + sign * scaled_b, *rule.output) + zero_point
    return _aligned_sum(rule, a, sign * b) + zero_point


def add_sums(step: AddSums, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of the sum of two tensors of which one or both are sums; scales belong to the last axis."""
    lhs, rhs = operands
    a, b = _centred(lhs), _centred(rhs)
    total: npt.NDArray[Any]
    if step.rule is None:
        total = _dequantized_sum(_real(a, lhs.slot.scales), _real(b, rhs.slot.scales), output.scale)
    else:
        total = _aligned_sum(step.rule, a, b)
    codes = clipped(total + output.zero_point, step.low, step.high, output.dtype)
    return codes.reshape(output.shape)  # one scale makes an axis of a scalar


def mul(step: Mul, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of the product."""
    acc = _centred(operands[0]) * _centred(operands[1])
    return rescale(acc, step.rescale, output.zero_point, step.low, step.high, output.dtype)


def maximum(_step: Maximum, operands: Sequence[Operand], _output: Slot) -> npt.NDArray[Any]:
    """The larger code."""
    larger: npt.NDArray[Any] = np.maximum(operands[0].data, operands[1].data)
    return larger


def minimum(_step: Minimum, operands: Sequence[Operand], _output: Slot) -> npt.NDArray[Any]:
    """The smaller code."""
    smaller: npt.NDArray[Any] = np.minimum(operands[0].data, operands[1].data)
    return smaller


def lookup(step: Lookup, operands: Sequence[Operand], _output: Slot) -> npt.NDArray[Any]:
    """``table[code − lowest code]``, or ``table[channel, code − lowest code]`` along the last axis."""
    codes = operands[0].data
    index = codes.astype(np.intp) - np.iinfo(codes.dtype).min
    if step.table.ndim == 1:
        return step.table[index]
    return step.table[np.arange(codes.shape[-1]), index]


def _centred(operand: Operand) -> Ints:
    """``code − zero_point``; sums as they are."""
    return operand.data.astype(np.int64) - operand.slot.zero_point


def _real(steps: Ints, scales: F32 | float) -> F32:
    """``fl(scale · float32(steps))``."""
    with np.errstate(over="ignore"):
        real: F32 = steps.astype(np.float32) * np.asarray(scales, np.float32)
    return real


def _dequantized_sum(a: F32, b: F32, output_scale: float) -> npt.NDArray[np.float64]:
    """``rint(fl(a + b) / s_y)`` in float32; widened, so that a zero point can be added exactly."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.rint((a + b) / np.float32(output_scale))
    return np.where(np.isnan(steps), -np.inf, steps).astype(np.float64)


def _aligned_sum(rule: AlignedSum | AlignedSums, a: Ints, b: Ints) -> Ints:
    lhs, rhs, shift = (np.asarray(part, np.int64) for part in (rule.lhs, rule.rhs, rule.shift))
    total: Ints = (a * lhs + b * rhs + (np.int64(1) << (shift - 1))) >> shift
    return total


def elementwise_shape(step: Step, instruction: Instruction) -> tuple[Shape, ...]:
    """That of all inputs together."""
    return (broadcast_shape(step, *(slot.shape for slot in step.inputs)),)


def _lookup_shape(step: Step, instruction: Lookup) -> tuple[Shape, ...]:
    shape = step.inputs[0].shape
    allowed: tuple[Shape, ...] = ((256,), (shape[-1], 256)) if shape else ((256,),)
    if step.inputs[0].is_wide:
        allowed = ((1 << 16,),)
    if instruction.table.shape not in allowed:
        raise step.error(
            f"has a table of shape {list(instruction.table.shape)}",
            f"Give {' or '.join(str(list(table)) for table in allowed)}",
        )
    return (shape,)


def _as_read(step: Step, instruction: Requantize, inputs: Sequence[Interval]) -> Interval:
    return inputs[0]


def _products(step: Step, instruction: Mul, inputs: Sequence[Interval]) -> Interval:
    return product(*(code_steps(slot) for slot in step.inputs))


def _check_table(step: Step, instruction: Lookup) -> None:
    if instruction.table.dtype != np.dtype(step.output.dtype):
        raise step.error(
            f'has a table of {instruction.table.dtype} for "{step.output.name}" of {step.output.dtype}',
            "Both must have the same type",
        )


WIDE_PAIR: Final = Takes((ANY_CODES, ANY_CODES), ANY_CODES)
CHOICE: Final = Takes((CODES, CODES), CODES, shared=True)

TRAITS: Final[dict[type[Instruction], Traits]] = {
    Requantize: Traits(Takes((SUMS,), CODES), same_shape, requantize, _as_read),
    Add: Traits(WIDE_PAIR, elementwise_shape, add),
    Sub: Traits(WIDE_PAIR, elementwise_shape, sub),
    AddSums: Traits(Takes((EITHER, EITHER), CODES), elementwise_shape, add_sums),
    Mul: Traits(WIDE_PAIR, elementwise_shape, mul, _products),
    Maximum: Traits(CHOICE, elementwise_shape, maximum),
    Minimum: Traits(CHOICE, elementwise_shape, minimum),
    Lookup: Traits(Takes((ANY_CODES,), ANY_CODES), _lookup_shape, lookup, check=_check_table),
}
