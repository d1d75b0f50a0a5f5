"""Proof, from the actual weights, that no accumulator leaves its type.

With P = Σ max(w − z_w, 0) and N = Σ min(w − z_w, 0) of an output channel, and codes x in [qmin, qmax],

    Σ (x − z_x)(w − z_w)   lies in   [a·P + b·N,  b·P + a·N],     a = qmin − z_x ≤ 0 ≤ b = qmax − z_x

and both ends are reached. Required of every channel:

    max |Σ (x − z_x)(w − z_w)| + |bias| ≤ 2^31 − 1
    max |Σ u·(w − z_w)|                 ≤ 2^31 − 1,     u = x − qmin in 0 … 255
    (Σ + bias) << shift                 in int32,       where ``double`` rounding shifts left first
    |Σ + bias|·factor                   below 2^30,     where a curve follows

The second is for engines that feed unsigned codes and fold the rest into
``bias − (z_x − qmin)·Σ(w − z_w)``; that bias is the accumulator at x = qmin, so the first covers it.
Partial sums stay inside, in any order, for 0 lies in every range. A transposed convolution is bounded as if
all taps met in one output.

Of 16-bit codes x = 256·hi + lo the second is required alone: it holds the sums of hi (−128 … 127) and of lo
(0 … 255) within int32, and with them the accumulator below 2^40. Sums that are written as such fit int32
like all others, and fixed-point multipliers leave room:

    max |Σ (x − z_x)(w − z_w) + bias| · multiplier < 2^62
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import INT32_MAX, INT32_MIN, multiply_double_rounding
from calib8.program import instructions as op
from calib8.program.program import Program, Slot
from calib8.program.rules import CURVE_SUMS_MAX, CurveRescale, FixedRescale, ScaledSum, TwoSidedRescale
from calib8.program.verify.step import Step, steps

Ints = npt.NDArray[np.int64]
LEVELS: Final = 255
"""Largest unsigned code."""

PRODUCT_LIMIT: Final = 1 << 62

RECALIBRATE: Final = "Weights, biases or scales are far out of range: quantize the model again"


@dataclass(frozen=True, eq=False)
class Interval:
    """Smallest and largest sum, int64 [1] or [channels of the last axis]."""

    low: Ints
    high: Ints

    @classmethod
    def of(cls, low: int, high: int) -> Interval:
        """The same for all channels."""
        return cls(np.array([low], np.int64), np.array([high], np.int64))


ANY_SUM: Final = Interval.of(INT32_MIN, INT32_MAX)


def check_bounds(program: Program) -> None:
    """Refuses a program in which an accumulator could overflow.

    Raises:
        ModelError: names the instruction, the channel and the largest sum.
    """
    sums: dict[int, Interval] = {}
    for step in steps(program):
        known = [sums.get(slot, ANY_SUM) for slot in step.instruction.inputs]
        reached = _reached(step, known)
        if reached is not None:
            _check_left_shift(step, reached)
            _check_room(step, reached)
            _check_curve_reach(step, reached)
            sums.update(dict.fromkeys(step.instruction.outputs, reached))
        if isinstance(getattr(step.instruction, "rule", None), ScaledSum):
            _check_scaled_sum(step)


def _reached(step: Step, inputs: list[Interval]) -> Interval | None:
    """What the accumulator of an instruction, or the sums that it moves, may hold; None without one."""
    instruction = step.instruction
    if isinstance(instruction, op.Weighted):
        return _layer(step, instruction)
    if isinstance(instruction, op.MatMul):
        return _mat_mul(step)
    if isinstance(instruction, op.Mul):
        return _product(*(_steps(slot) for slot in step.inputs))
    if isinstance(instruction, op.Mean):
        return _total(step, int(np.prod([step.inputs[0].shape[axis] for axis in instruction.axes])))
    if isinstance(instruction, op.AveragePool):
        return _total(step, instruction.kernel[0] * instruction.kernel[1])
    if isinstance(instruction, op.Requantize):
        return inputs[0]
    if not isinstance(instruction, op.Float) and step.output.dtype == "int32":
        lows, highs = zip(*((int(i.low.min()), int(i.high.max())) for i in inputs), strict=True)
        return Interval.of(min(lows), max(highs))
    return None


def _steps(slot: Slot) -> tuple[int, int]:
    """Range of ``code − zero_point``."""
    limits = np.iinfo(slot.dtype)
    return int(limits.min) - slot.zero_point, int(limits.max) - slot.zero_point


def _layer(step: Step, layer: op.Weighted) -> Interval:
    positive, negative = weight_sums(layer)
    low, high = _products(step.inputs[0], positive, negative)
    bias = layer.bias.astype(np.int64)
    if layer.rescale is None or not step.inputs[0].is_wide:
        _check(step, np.maximum(-low, high) + np.abs(bias), "sums and bias")
    _check(step, LEVELS * np.maximum(positive, -negative), "sums over unsigned codes")
    return Interval(low + bias, high + bias)


def layer_sums(layer: op.Weighted, source: Slot) -> Interval:
    """What the sums of a layer may be, per output channel."""
    low, high = _products(source, *weight_sums(layer))
    bias = layer.bias.astype(np.int64)
    return Interval(low + bias, high + bias)


def largest_wide_sum(layer: op.Weighted, source: Slot) -> int | None:
    """The largest magnitude of the sums of a layer that reads 16-bit codes; None for 8-bit ones."""
    if not source.is_wide:
        return None
    reached = layer_sums(layer, source)
    return int(np.maximum(-reached.low, reached.high).max())


def _products(source: Slot, positive: Ints, negative: Ints) -> tuple[Ints, Ints]:
    below, above = _steps(source)
    return below * positive + above * negative, above * positive + below * negative


def weight_sums(layer: op.Weighted) -> tuple[Ints, Ints]:
    """Sums of the positive and of the negative weights (minus their zero point) per output channel."""
    weight = layer.weight
    channel = weight.ndim - 1 if isinstance(layer, op.DepthwiseConv) else 0
    taps = tuple(axis for axis in range(weight.ndim) if axis != channel)
    count = weight.size // weight.shape[channel]
    points = np.broadcast_to(layer.weight_zero_point, (weight.shape[channel],))
    # Σ max(w − z, 0) = Σ max(w, z) − count·z needs no copy of the weights wider than they are.
    aligned = points.astype(weight.dtype).reshape(
        [-1 if axis == channel else 1 for axis in range(weight.ndim)]
    )
    offset = count * points.astype(np.int64)
    positive = np.maximum(weight, aligned).sum(axis=taps, dtype=np.int64) - offset
    negative = np.minimum(weight, aligned).sum(axis=taps, dtype=np.int64) - offset
    return positive, negative


def _mat_mul(step: Step) -> Interval:
    depth = step.inputs[0].shape[-1]
    left, right = (_steps(slot) for slot in step.inputs)
    one = _product(left, right)
    unsigned = depth * LEVELS * max(-right[0], right[1])  # |a − z_a| is no larger than a − qmin can be
    _check(step, np.array([unsigned]), f"sums of {depth} products")
    return Interval(depth * one.low, depth * one.high)


def _product(a: tuple[int, int], b: tuple[int, int]) -> Interval:
    ends = [x * y for x in a for y in b]
    return Interval.of(min(ends), max(ends))


def _total(step: Step, count: int) -> Interval:
    """Sums of ``count`` codes, with the zero point taken off or not: at most 255 each."""
    _check(step, np.array([LEVELS * count]), f"sums of {count} codes")
    below, above = _steps(step.inputs[0])
    return Interval.of(count * below, count * above)


def _check(step: Step, magnitudes: Ints, what: str) -> None:
    channel = int(magnitudes.argmax())
    if magnitudes[channel] > INT32_MAX:
        where = f" of output channel {channel}" if magnitudes.size > 1 else ""
        raise step.error(f"{what}{where} reach {magnitudes[channel]}, beyond int32", RECALIBRATE)


def _check_left_shift(step: Step, reached: Interval) -> None:
    rule = getattr(step.instruction, "rescale", None)
    sides = (rule.positive, rule.negative) if isinstance(rule, TwoSidedRescale) else (rule,)
    for rescale in (rule.steps,) if isinstance(rule, CurveRescale) else sides:
        if isinstance(rescale, FixedRescale) and rescale.rounding == "double":
            shift = np.maximum(rescale.shift.astype(np.int64), 0)
            _check_shifted(step, np.maximum(-(reached.low + 1), reached.high), shift)


def _check_room(step: Step, reached: Interval) -> None:
    """Products of wide sums and fixed-point multipliers, and half of what is shifted away, fit int64."""
    rule = getattr(step.instruction, "rescale", None)
    if not any(slot.is_wide for slot in step.inputs):
        return
    sides = (rule.positive, rule.negative) if isinstance(rule, TwoSidedRescale) else (rule,)
    largest = int(np.maximum(-reached.low, reached.high).max())
    for rescale in (rule.steps,) if isinstance(rule, CurveRescale) else sides:
        if isinstance(rescale, FixedRescale):
            multiplier = int(np.abs(rescale.multiplier.astype(np.int64)).max())
            if largest * multiplier >= PRODUCT_LIMIT:
                problem = f"multiplies sums up to {largest} by {multiplier}, beyond 2^62"
                raise step.error(problem, "Give it a multiplier of fewer bits")


def _check_curve_reach(step: Step, reached: Interval) -> None:
    """Kernels compute the steps of a curve, before they saturate, as int32 without a clamp."""
    rule = getattr(step.instruction, "rescale", None)
    if not isinstance(rule, CurveRescale):
        return
    largest = np.maximum(-reached.low, reached.high)
    if isinstance(rule.steps, FixedRescale):
        factor = np.ldexp(rule.steps.multiplier.astype(np.float64), rule.steps.shift - 31)
    else:
        factor = rule.steps.factor.astype(np.float64)
    far = float((largest * factor).max())
    if far > CURVE_SUMS_MAX:
        raise step.error(f"reaches step {far:.6g} of its curve, beyond 2^30", RECALIBRATE)


def _check_shifted(step: Step, magnitudes: npt.NDArray[Any], shift: npt.NDArray[Any]) -> None:
    """``magnitudes`` is max(−low − 1, high): −2^31 fits int32, 2^31 does not."""
    wide, shifts = np.broadcast_arrays(magnitudes, shift)
    lost = wide > (INT32_MAX >> shifts)
    if lost.any():
        channel = int(lost.argmax())
        raise step.error(
            f"sums up to {wide[channel]} (channel {channel}) shifted left by {shifts[channel]} leave int32",
            RECALIBRATE,
        )


def _check_scaled_sum(step: Step) -> None:
    """TFLite's Add shifts its sum left where the output's scale is very fine."""
    rule = step.instruction.rule  # type: ignore[attr-defined]  # asked by the caller
    ends = []
    for slot, (multiplier, shift) in zip(step.inputs, (rule.lhs, rule.rhs), strict=True):
        far = np.abs(np.array(_steps(slot), np.int64)).max() << rule.left_shift
        ends.append(int(multiply_double_rounding(far, multiplier, shift)))
    _check_shifted(step, np.array([sum(ends)]), np.maximum(np.array([rule.output[1]]), 0))
