"""Rounding parameters of each instruction: of the program's profile, and in the documented range.

    all       TwoSidedRescale and CurveRescale of what the profile has
    onnx      FloatRescale, FloatProduct, FloatSum, DequantizedSum, FloatQuotient, FloatAverage, TableSoftmax
              of float32, FloatNorm, FloatGroupNorm
    tflite    FixedRescale double or away, ScaledSum, AlignedSums, FixedQuotient, CodeAverage, FixedSoftmax,
              FixedNorm, FixedGroupNorm
    single    FixedRescale single, AlignedSum, AlignedSums, FixedQuotient, TableSoftmax of integers,
              FixedNorm, FixedGroupNorm
    tengine   RealRescale and RealPair, which are instructions, RealAverage, RealSoftmax

LinearAxis and Quantize belong to a profile by their type of fraction and their rounding. What reads 16-bit
codes has, in ``tflite``, all roundings of FixedRescale, and AlignedSum too: of a TFLite file those of
LiteRT's kernels, else single and AlignedSum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import MAX_SHIFT, MIN_SHIFT
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.ops.step import Step
from calib8.program.rules import Profile
from calib8.program.verify import norms, quotients, reals
from calib8.program.verify.ranges import MULTIPLIER_MAX, check_range
from calib8.type_texts import a_type

PROFILES: Final[dict[type, tuple[Profile, ...]]] = {
    rules.FloatRescale: ("onnx",),
    rules.FixedRescale: ("tflite", "single"),
    rules.TwoSidedRescale: ("onnx", "tflite", "single"),
    rules.CurveRescale: ("onnx", "tflite", "single"),
    rules.FloatProduct: ("onnx",),
    rules.FloatSum: ("onnx",),
    rules.DequantizedSum: ("onnx",),
    rules.ScaledSum: ("tflite",),
    rules.AlignedSum: ("single",),
    rules.AlignedSums: ("tflite", "single"),
    rules.FloatQuotient: ("onnx",),
    rules.FixedQuotient: ("tflite", "single"),
    rules.FloatAverage: ("onnx",),
    rules.CodeAverage: ("tflite",),
    rules.FixedSoftmax: ("tflite",),
    rules.TableSoftmax: ("onnx", "single"),
    rules.FloatNorm: ("onnx",),
    rules.FixedNorm: ("tflite", "single"),
    rules.FloatGroupNorm: ("onnx",),
    rules.FixedGroupNorm: ("tflite", "single"),
    rules.LinearAxis: ("onnx", "tflite", "single"),
    rules.RealAverage: ("tengine",),
    rules.RealSoftmax: ("tengine",),
}
"""Rule → profiles that use it."""

FIXED_ROUNDINGS: Final[dict[Profile, tuple[str, ...]]] = {
    "onnx": (),
    "tflite": ("double", "away"),
    "single": ("single",),
    "tengine": (),
}
"""Profile → roundings of its FixedRescale."""

WIDE_PROFILES: Final[dict[type, tuple[Profile, ...]]] = {
    **PROFILES,
    rules.AlignedSum: ("tflite", "single"),
}
"""Rule → profiles that use it in what reads 16-bit codes."""

WIDE_ROUNDINGS: Final[dict[Profile, tuple[str, ...]]] = {
    "onnx": (),
    "tflite": ("single", "double", "away"),
    "single": ("single",),
    "tengine": (),
}
"""Profile → roundings of FixedRescale in what reads 16-bit codes."""

BORDER_ROUNDING: Final[dict[Profile, str]] = {
    "onnx": "even",
    "tflite": "away",
    "single": "even",
    "tengine": "away",
}
"""Profile → rounding of its Quantize."""

LINEAR_ROUNDING: Final[dict[Profile, tuple[str, ...]]] = {
    "onnx": ("even",),
    "tflite": ("away", "float_up"),
    "single": ("up",),
    "tengine": (),
}
"""Profile → roundings of its ResizeLinear."""

MULTIPLIER_MIN: Final = 1 << 30
INT16_MAX: Final = (1 << 15) - 1
MEAN_MULTIPLIER_MIN: Final = 1 << 29
"""TFLite divides the multiplier of a Mean by the count and keeps what is left of its bits."""

WIDE_MULTIPLIER_MIN: Final = 1 << 21
"""Sums of 16-bit codes leave 22 bits to a multiplier at least."""

ADD_LEFT_SHIFT: Final = 20
WIDE_ADD_LEFT_SHIFT: Final = 15
DIFFERENCE_LEFT_SHIFT: Final = 7
"""Of 8-bit codes whose difference is a 16-bit number that SQUARED_DIFFERENCE squares."""
"""Of sums of 16-bit codes: less their zero point they have 17 bits."""

ALIGNED_MIN, ALIGNED_MAX = 1 << 20, 1 << 21
ALIGNED_SUMS_MIN, ALIGNED_SUMS_MAX = 1 << 29, 1 << 30
MAX_RIGHT_SHIFT: Final = 62
SOFTMAX_SHIFT_MAX: Final = 31
"""β · s_x · 2^26 is capped at 2^31 − 1, whose shift is 31."""

SOFTMAX_ONE: Final = 1 << 24
SOFTMAX_FRACTION_BITS: Final = 16
SOFTMAX_FACTOR_MAX: Final = 1 << 37
SOFTMAX_CLASSES_MAX: Final = 1 << 20
"""Sums of that many integer exponentials, times the factor, stay within int64."""

LINEAR_ONE: Final = 1 << 10
"""1 as a fraction of an integer LinearAxis."""


def check_rules(step: Step) -> None:
    """Refuses rounding parameters of another profile or out of range.

    Raises:
        ModelError: names the instruction, the parameter and its value.
    """
    instruction = step.instruction
    for field in fields(instruction):
        _check_rule(step, getattr(instruction, field.name))
    if isinstance(instruction, op.Quantize) and instruction.rounding != BORDER_ROUNDING[step.profile]:
        raise _foreign(step, f"rounding {instruction.rounding}")
    if isinstance(instruction, op.AddSums) and (instruction.rule is None) != (step.profile == "onnx"):
        raise _foreign(step, "no rule" if instruction.rule is None else "AlignedSums")
    if isinstance(instruction, reals.INSTRUCTIONS):
        if step.profile not in reals.PROFILES:
            raise _foreign(step, type(instruction).__name__)
        reals.check_instruction(step, instruction)


def _check_rule(step: Step, rule: object) -> None:
    if type(rule) not in PROFILES:
        return
    if step.profile not in (WIDE_PROFILES if _reads_wide(step) else PROFILES)[type(rule)]:
        raise _foreign(step, type(rule).__name__)
    if type(rule) in CHECKS:
        CHECKS[type(rule)](step, rule)


def _reads_wide(step: Step) -> bool:
    return any(slot.is_wide for slot in step.inputs)


def _foreign(step: Step, what: str) -> Exception:
    return step.error(f"has {what} in profile {step.profile}", f"Lower the model for {step.profile} again")


def _check_float_rescale(step: Step, rule: rules.FloatRescale, *, signed: bool = False) -> None:
    _check_length(step, rule.factor, "factors")
    bad = rule.factor[~(np.isfinite(rule.factor) & (signed | (rule.factor >= 0)))]
    if bad.size:
        raise step.error(f"has the factor {bad[0]}", "Factors are finite and not below 0")


def _check_fixed_rescale(step: Step, rule: rules.FixedRescale, *, signed: bool = False) -> None:
    wide = _reads_wide(step)
    if rule.rounding not in (WIDE_ROUNDINGS if wide else FIXED_ROUNDINGS)[step.profile]:
        raise _foreign(step, f"rounding {rule.rounding}")
    _check_length(step, rule.multiplier, "multipliers")
    if rule.shift.shape != rule.multiplier.shape:
        raise step.error(f"has {rule.shift.size} shifts", f"Give one per multiplier: {rule.multiplier.size}")
    of_mean = isinstance(step.instruction, op.Mean) and step.profile == "tflite"
    least = MEAN_MULTIPLIER_MIN if of_mean else WIDE_MULTIPLIER_MIN if wide else MULTIPLIER_MIN
    magnitude = np.abs(rule.multiplier.astype(np.int64)) if signed else rule.multiplier
    bad = rule.multiplier[(magnitude != 0) & ((magnitude < least) | (magnitude > MULTIPLIER_MAX))]
    if bad.size:
        raise step.error(
            f"has the multiplier {bad[0]}", f"Multipliers are 0 or in {least} … {MULTIPLIER_MAX}"
        )
    check_range(step, "shift", rule.shift, MIN_SHIFT, MAX_SHIFT)


def _check_two_sided(step: Step, rule: rules.TwoSidedRescale) -> None:
    """Both sides are of one kind; slopes below 0 have factors of any sign."""
    _check_rule(step, rule.positive)
    negative, name = rule.negative, type(rule.negative).__name__
    if type(negative) is not type(rule.positive) or step.profile not in PROFILES[type(negative)]:
        raise _foreign(step, f"{name} below 0")
    if isinstance(negative, rules.FixedRescale):
        _check_fixed_rescale(step, negative, signed=True)
        if negative.rounding != getattr(rule.positive, "rounding", None):
            raise _foreign(step, f"rounding {negative.rounding} below 0 only")
    else:
        _check_float_rescale(step, negative, signed=True)


def _check_curve(step: Step, rule: rules.CurveRescale) -> None:
    _check_rule(step, rule.steps)
    check_range(step, "segment shift", rule.shift, 0, rules.CURVE_SHIFT_MAX)
    last = (INT16_MAX + 1 >> rule.shift) - rules.CURVE_SEGMENTS
    check_range(step, "first segment", rule.first, -(INT16_MAX + 1 >> rule.shift), last)
    for array, what in ((rule.value, "values"), (rule.slope, "slopes"), (rule.bend, "bends")):
        if array.shape != (rules.CURVE_SEGMENTS,):
            raise step.error(f"has {what} of shape {list(array.shape)}", f"Give [{rules.CURVE_SEGMENTS}]")
    steepest = np.abs(rule.slope.astype(np.int32)) + np.abs(rule.bend.astype(np.int32))
    check_range(step, "slope and bend", steepest, 0, INT16_MAX)
    check_range(step, "slope before the first segment", rule.below, -INT16_MAX, INT16_MAX)
    check_range(step, "slope behind the last segment", rule.above, -INT16_MAX, INT16_MAX)


def _check_length(step: Step, parameters: npt.NDArray[Any], what: str) -> None:
    """[1], [output channels] for layers and Requantize, [taps] for an AveragePool."""
    instruction = step.instruction
    allowed = {1}
    if isinstance(instruction, op.Weighted | op.Requantize):
        allowed.add(step.output.shape[-1] if step.output.shape else 1)
    if isinstance(instruction, op.AveragePool):
        allowed = {instruction.kernel[0] * instruction.kernel[1]}
    if parameters.ndim != 1 or parameters.size not in allowed:
        wanted = " or ".join(f"[{size}]" for size in sorted(allowed))
        raise step.error(f"has {what} of shape {list(parameters.shape)}", f"Give {wanted}")


def _check_float32(step: Step, what: str, value: float, *, signed: bool = False) -> None:
    with np.errstate(over="ignore", under="ignore"):
        rounded = float(np.float32(value))
    if rounded != value or (value < 0 and not signed):
        sign = "" if signed else ", not below 0"
        raise step.error(f"has the {what} {value!r}", f"It must be a float32 value{sign}")


def _check_float_product(step: Step, rule: rules.FloatProduct) -> None:
    _check_float32(step, "factor", rule.factor)


def _check_float_sum(step: Step, rule: rules.FloatSum) -> None:
    if not isinstance(step.instruction, op.Add):
        raise step.error("has a FloatSum", "Only Add has one; take DequantizedSum")
    _check_float32(step, "left factor", rule.lhs)
    _check_float32(step, "right factor", rule.rhs)
    _check_float32(step, "constant", rule.fixed, signed=True)


def _check_dequantized_sum(step: Step, rule: rules.DequantizedSum) -> None:
    _check_scales(step, (rule.lhs, rule.rhs, rule.output))


def _check_float_average(step: Step, rule: rules.FloatAverage) -> None:
    _check_scales(step, (rule.input, rule.output))


def _check_scales(step: Step, scales: tuple[float, ...]) -> None:
    """The scales of a rule are those of the slots, inputs first."""
    for slot, scale in zip((*step.inputs, *step.outputs), scales, strict=True):
        if slot.scale != scale:
            raise step.error(
                f'has the scale {scale!r} for "{slot.name}", whose scale is {slot.scale!r}',
                "Give both the same",
            )


def _check_scaled_sum(step: Step, rule: rules.ScaledSum) -> None:
    left = WIDE_ADD_LEFT_SHIFT if _reads_wide(step) else ADD_LEFT_SHIFT
    squared = step.output.is_wide and not _reads_wide(step) and rule.left_shift == DIFFERENCE_LEFT_SHIFT
    if rule.left_shift != left and not squared:
        raise step.error(f"has the left shift {rule.left_shift}", f"It must be {left}")
    for what, (multiplier, shift) in (("left", rule.lhs), ("right", rule.rhs), ("output", rule.output)):
        if multiplier != 0:
            check_range(step, f"{what} multiplier", multiplier, MULTIPLIER_MIN, MULTIPLIER_MAX)
        # Inputs are scaled by at most one half, which keeps their sum in 28 bits.
        highest = MAX_SHIFT if what == "output" else 0
        check_range(step, f"{what} shift", shift, MIN_SHIFT, highest)


def _check_aligned_sum(step: Step, rule: rules.AlignedSum) -> None:
    check_range(step, "shift", rule.shift, 1, MAX_RIGHT_SHIFT)
    low, high = (ALIGNED_SUMS_MIN, ALIGNED_SUMS_MAX) if _reads_wide(step) else (ALIGNED_MIN, ALIGNED_MAX)
    least = 0 if rule.shift == MAX_RIGHT_SHIFT else low
    check_range(step, "larger multiplier", max(rule.lhs, rule.rhs), least, high)
    check_range(step, "smaller multiplier", min(rule.lhs, rule.rhs), 0, high)


def _check_aligned_sums(step: Step, rule: rules.AlignedSums) -> None:
    channels = step.output.shape[-1] if step.output.shape else 1
    for array, what in ((rule.lhs, "left"), (rule.rhs, "right"), (rule.shift, "shift")):
        if array.shape not in ((1,), (channels,)) or array.shape != rule.lhs.shape:
            raise step.error(
                f"has {what} parameters of shape {list(array.shape)}", f"Give all as [1] or [{channels}]"
            )
    check_range(step, "shift", rule.shift, 1, MAX_RIGHT_SHIFT)
    larger, smaller = np.maximum(rule.lhs, rule.rhs), np.minimum(rule.lhs, rule.rhs)
    at_limit = rule.shift == MAX_RIGHT_SHIFT
    check_range(step, "larger multiplier", larger[~at_limit], ALIGNED_SUMS_MIN, ALIGNED_SUMS_MAX)
    check_range(step, "larger multiplier", larger[at_limit], 0, ALIGNED_SUMS_MAX)
    check_range(step, "smaller multiplier", smaller, 0, ALIGNED_SUMS_MAX)


def _check_fixed_softmax(step: Step, rule: rules.FixedSoftmax) -> None:
    check_range(step, "multiplier", rule.multiplier, MULTIPLIER_MIN, MULTIPLIER_MAX)
    check_range(step, "shift", rule.shift, 0, SOFTMAX_SHIFT_MAX)
    lowest = -(MULTIPLIER_MAX >> rule.shift)  # so that (q − max) << shift fits int32
    check_range(step, "diff_min", rule.diff_min, lowest, 0)
    low = np.iinfo(step.output.dtype).min
    if step.output.scale != 1 / 256 or step.output.zero_point != low:
        raise step.error(
            f"writes scale {step.output.scale:.6g} and zero point {step.output.zero_point}",
            f"TFLite's Softmax writes 1/256 and {low}",
        )


def _check_table_softmax(step: Step, rule: rules.TableSoftmax) -> None:
    table, integers = rule.table, rule.table.dtype == np.int32
    if integers != (step.profile == "single") or integers == isinstance(rule.factor, float):
        raise _foreign(step, f"a table of {table.dtype} and {a_type(rule.factor)} factor")
    if table.shape != (256,):
        raise step.error(f"has a table of shape {list(table.shape)}", "Give [256]")
    if not (np.isfinite(table).all() and (table >= 0).all() and table[-1] > 0):
        raise step.error("has a table with negative or infinite entries or 0 at its end", "Give exponentials")
    if not integers:
        _check_float32(step, "factor", float(rule.factor))
        check_range(step, "number of fraction bits", rule.fraction_bits, 0, 0)
        return
    check_range(step, "table entry", table, 0, SOFTMAX_ONE)
    check_range(step, "factor", rule.factor, 0, SOFTMAX_FACTOR_MAX)
    check_range(step, "number of classes", step.output.shape[-1], 1, SOFTMAX_CLASSES_MAX)
    bits = SOFTMAX_FRACTION_BITS
    check_range(step, "number of fraction bits", rule.fraction_bits, bits, bits)


def _check_linear_axis(step: Step, axis: rules.LinearAxis) -> None:
    if axis.rounding not in LINEAR_ROUNDING[step.profile]:
        raise _foreign(step, f"rounding {axis.rounding}")
    is_float, of_codes = axis.fraction.dtype == np.float32, axis.rounding == "float_up"
    if is_float != (step.profile == "onnx" or of_codes):
        raise _foreign(step, f"fractions of {axis.fraction.dtype}")
    if of_codes and step.inputs[0].dtype != "uint8":
        raise step.error(f"sums {step.inputs[0].dtype} codes in float32", "TFLite does so for uint8 alone")
    least, one = (-1 if of_codes else 0), (1 if is_float else LINEAR_ONE)
    bad = axis.fraction[~((axis.fraction >= least) & (axis.fraction <= one))]
    if bad.size:
        raise step.error(f"has the fraction {bad[0]}", f"It must be in {least} … {one}")


CHECKS: Final[dict[type, Callable[[Step, Any], None]]] = {
    rules.FloatRescale: _check_float_rescale,
    rules.FixedRescale: _check_fixed_rescale,
    rules.TwoSidedRescale: _check_two_sided,
    rules.CurveRescale: _check_curve,
    rules.FloatProduct: _check_float_product,
    rules.FloatSum: _check_float_sum,
    rules.DequantizedSum: _check_dequantized_sum,
    rules.ScaledSum: _check_scaled_sum,
    rules.AlignedSum: _check_aligned_sum,
    rules.AlignedSums: _check_aligned_sums,
    rules.FloatAverage: _check_float_average,
    rules.FixedSoftmax: _check_fixed_softmax,
    rules.TableSoftmax: _check_table_softmax,
    **norms.CHECKS,
    **quotients.CHECKS,
    **reals.CHECKS,
    rules.LinearAxis: _check_linear_axis,
}
"""Rule → the check of its values; CodeAverage and RealAverage have none."""
