"""No accumulator leaves its type, nor what rounding makes of it on the way.

What sums may be is proven by the families in ``ops``, for layers in ``weighted``. Required of it:

    (Σ + bias) << shift                 in int32,       where ``double`` rounding shifts left first
    |Σ + bias|·factor                   below 2^30,     where a curve follows
    |Σ + bias|·multiplier               below 2^62,     for fixed-point multipliers of wide sums
    |Σ + bias|                          in int32,       where wide sums are rounded otherwise than ``single``
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import INT32_MAX, multiply_double_rounding
from calib8.program.instructions import TRAITS
from calib8.program.ops.reach import ANY_SUM, RECALIBRATE, Interval, code_steps
from calib8.program.ops.step import Step
from calib8.program.program import Program
from calib8.program.rules import CURVE_SUMS_MAX, CurveRescale, FixedRescale, ScaledSum, TwoSidedRescale
from calib8.program.verify.step import steps

PRODUCT_LIMIT: Final = 1 << 62


def check_bounds(program: Program) -> None:
    """Refuses a program in which an accumulator could overflow.

    Raises:
        ModelError: names the instruction, the channel and the largest sum.
    """
    sums: dict[int, Interval] = {}
    for step in steps(program):
        known = [sums.get(slot, ANY_SUM) for slot in step.instruction.inputs]
        traits = TRAITS.get(type(step.instruction))
        reached = traits.reach(step, step.instruction, known) if traits else None
        if reached is not None:
            _check_left_shift(step, reached)
            _check_room(step, reached)
            _check_curve_reach(step, reached)
            sums.update(dict.fromkeys(step.instruction.outputs, reached))
        if isinstance(getattr(step.instruction, "rule", None), ScaledSum):
            _check_scaled_sum(step)


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
    largest = int(reached.largest.max())
    for rescale in (rule.steps,) if isinstance(rule, CurveRescale) else sides:
        if isinstance(rescale, FixedRescale):
            if rescale.rounding != "single" and largest > INT32_MAX:
                raise step.error(f"rounds sums up to {largest} {rescale.rounding}, beyond int32", RECALIBRATE)
            multiplier = int(np.abs(rescale.multiplier.astype(np.int64)).max())
            if largest * multiplier >= PRODUCT_LIMIT:
                problem = f"multiplies sums up to {largest} by {multiplier}, beyond 2^62"
                raise step.error(problem, "Give it a multiplier of fewer bits")


def _check_curve_reach(step: Step, reached: Interval) -> None:
    """Kernels compute the steps of a curve, before they saturate, as int32 without a clamp."""
    rule = getattr(step.instruction, "rescale", None)
    if not isinstance(rule, CurveRescale):
        return
    largest = reached.largest
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
        far = np.abs(np.array(code_steps(slot), np.int64)).max() << rule.left_shift
        ends.append(int(multiply_double_rounding(far, multiplier, shift)))
    _check_shifted(step, np.array([sum(ends)]), np.maximum(np.array([rule.output[1]]), 0))
