"""Rounding rules as fields of steps: arrays for every channel, zero points of stored codes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.engine.emit.float_sums import float_form
from calib8.engine.emitter import Emitter
from calib8.engine.fields import NONE, Activation, Rescale, SumRule
from calib8.program import rules
from calib8.program.instructions import Add, Sub

NO_ACTIVATION: Final = replace(Activation.zeros(), negative=NONE, negative_shift=NONE, segments=NONE)
NO_RESCALE: Final = replace(Rescale.zeros(), factor=NONE, shift=NONE)
NO_SUM: Final = SumRule.zeros()


def rescale_fields(
    out: Emitter,
    rule: rules.Rescale | None,
    low: int,
    high: int,
    output: int,
    channels: int,
    layout: npt.NDArray[np.int64] | None = None,
) -> Rescale:
    """The rescale of a step.

    Args:
        out: the plan.
        rule: of the instruction; None stores sums.
        low, high: raw codes.
        output: slot that is written.
        channels: output channels.
        layout: channel of every place of the padded arrays; 0 … channels − 1 by default.
    """
    if rule is None:
        return NO_RESCALE
    places = np.arange(channels) if layout is None else layout
    shift = out.shift(output)
    codes = (out.stored_zero_point(output), low + shift, high + shift)
    if isinstance(rule, rules.FloatRescale):
        factor = np.broadcast_to(rule.factor, (channels,))[places].astype(np.float32)
        return Rescale(Rescale.kinds["float"], out.constant(factor), NONE, *codes)
    multiplier = np.broadcast_to(rule.multiplier, (channels,))[places].astype(np.int32)
    shifts = np.broadcast_to(rule.shift, (channels,))[places].astype(np.int32)
    kind = Rescale.kinds[rule.rounding]
    return Rescale(kind, out.constant(multiplier), out.constant(shifts), *codes)


def layer_fields(
    out: Emitter,
    rule: rules.LayerRescale | None,
    low: int,
    high: int,
    output: int,
    channels: int,
    layout: npt.NDArray[np.int64],
) -> tuple[Rescale, Activation]:
    """The rescale of a layer and the function behind it; arguments as those of ``rescale_fields``."""
    if isinstance(rule, rules.TwoSidedRescale):
        rescale = rescale_fields(out, rule.positive, low, high, output, channels, layout)
        below = rescale_fields(out, rule.negative, low, high, output, channels, layout)
        return rescale, replace(
            NO_ACTIVATION,
            kind=Activation.kinds["two_sided"],
            negative=below.factor,
            negative_shift=below.shift,
        )
    if isinstance(rule, rules.CurveRescale):
        rescale = rescale_fields(out, rule.steps, low, high, output, channels, layout)
        rows = [np.roll(row, rule.first) for row in (rule.value, rule.slope, rule.bend)]
        segments = out.constant(np.stack(rows).astype(np.int16))
        return replace(rescale, zero_point=0), replace(
            NO_ACTIVATION,
            kind=Activation.kinds["curve"],
            segments=segments,
            shift=rule.shift,
            first=rule.first,
            below=rule.below,
            above=rule.above,
        )
    return rescale_fields(out, rule, low, high, output, channels, layout), NO_ACTIVATION


def sum_fields(out: Emitter, step: Add | Sub) -> SumRule:
    """The sum of an Add or Sub over the slots that it names."""
    lhs, rhs = step.inputs
    output, rule = step.outputs[0], step.rule
    shifts = {"lhs_shift": out.shift(lhs), "rhs_shift": out.shift(rhs), "output_shift": out.shift(output)}
    zeros = {
        "lhs_zero": out.slot(lhs).zero_point,
        "rhs_zero": out.slot(rhs).zero_point,
        "output_zero": out.slot(output).zero_point,
    }
    common: dict[str, int] = {
        "negative": int(isinstance(step, Sub)),
        "low": step.low + out.shift(output),
        "high": step.high + out.shift(output),
        **shifts,
        **zeros,
    }
    wide = any(out.slot(slot).is_wide for slot in (lhs, rhs, output))
    form = None
    if isinstance(rule, (rules.ScaledSum, rules.AlignedSum)) and not wide:
        form = _float_form(out, step, rule)
    return replace(NO_SUM, **_numbers(rule), **common) if form is None else form


def _numbers(rule: rules.SumRule) -> dict[str, Any]:
    """Fields of a rule that do not depend on the slots."""
    if isinstance(rule, rules.FloatSum):
        return {"kind": SumRule.kinds["float"], "lhs": rule.lhs, "rhs": rule.rhs, "fixed": rule.fixed}
    if isinstance(rule, rules.DequantizedSum):
        return {"kind": SumRule.kinds["dequantized"], "lhs": rule.lhs, "rhs": rule.rhs, "output": rule.output}
    if isinstance(rule, rules.AlignedSum):
        factors = {"lhs_multiplier": rule.lhs, "rhs_multiplier": rule.rhs}
        return {"kind": SumRule.kinds["aligned"], **factors, "right_shift": rule.shift}
    return {
        "kind": SumRule.kinds["scaled"],
        "lhs_multiplier": rule.lhs[0],
        "lhs_exponent": rule.lhs[1],
        "rhs_multiplier": rule.rhs[0],
        "rhs_exponent": rule.rhs[1],
        "output_multiplier": rule.output[0],
        "output_exponent": rule.output[1],
        "left_shift": rule.left_shift,
    }


def _float_form(out: Emitter, step: Add | Sub, rule: rules.ScaledSum | rules.AlignedSum) -> SumRule | None:
    """The sum in float32 over codes minus their zero points, if that gives the codes of the rule."""
    lhs, rhs = (out.stored_zero_point(slot) for slot in step.inputs)
    output, shift = out.stored_zero_point(step.outputs[0]), out.shift(step.outputs[0])
    low, high = step.low + shift, step.high + shift
    sign = -1 if isinstance(step, Sub) else 1
    form = float_form(rule, (lhs, rhs), sign, low - output, high - output)
    if form is None:
        return None
    return replace(
        NO_SUM,
        kind=SumRule.kinds["float"],
        lhs=form[0],
        rhs=form[1],
        fixed=form[2],
        lhs_shift=lhs,
        rhs_shift=rhs,
        output_shift=output,
        low=low,
        high=high,
    )
