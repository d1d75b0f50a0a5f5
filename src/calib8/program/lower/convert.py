"""From one form to another: a value in wanted codes, in any codes, or as float values.

    Coded, Curve → Lookup       Sums → Requantize       Real → Quantize       codes or sums → Dequantize

Every conversion is made once and remembered.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from calib8.program.expressions import Apply, Source, evaluate
from calib8.program.instructions import Dequantize, Lookup, Quantize, Requantize, Transpose
from calib8.program.lower.builder import Builder, shape_of
from calib8.program.lower.forms import Coded, CodeType, Curve, Form, Real, Sums
from calib8.program.lower.layout import axes_between, image_order, logical_order
from calib8.program.lower.rows import in_rows, lookup, varying_axes, with_vectors
from calib8.program.program import WIDE_TYPE, Slot
from calib8.program.rounding.linear import clamp, sums_rescale
from calib8.program.rounding.tables import table
from calib8.qparams import dequantize, quantize
from calib8.quantization.qdq import label


def codes_at(builder: Builder, value: ir.Value, kind: CodeType) -> Coded | None:
    """The value as codes of a given kind, rounded once; None where only float nodes can give it.

    What a quantizer makes of a value, whatever form it has.
    """
    key = (value, kind)
    if key not in builder.ready:
        made = _converted(builder, value, builder.forms.get(value), kind)
        if made is None:
            return None
        builder.ready[key] = made
    return builder.ready[key]


def _converted(builder: Builder, value: ir.Value, form: Form | None, kind: CodeType) -> Coded | None:
    if isinstance(form, Coded):
        if builder.kind(form) == kind:
            return form
        return tabulated(builder, value, Curve(form, Source()), kind, "Requantize")
    if isinstance(form, Curve):
        wide = builder.slots[form.source.slot].is_wide
        return None if wide and varying_axes(form.expression) else tabulated(builder, value, form, kind)
    if isinstance(form, Sums):
        return _requantized(builder, value, form, kind)
    return quantized(builder, value, form, kind) if isinstance(form, Real) else None


def tabulated(builder: Builder, value: ir.Value, curve: Curve, kind: CodeType, function: str = "") -> Coded:
    """The codes of a curve: one Lookup, which the listing calls ``function`` or by the curve's operator."""
    rows = in_rows(builder, curve.source, varying_axes(curve.expression))
    result = builder.codes(value, rows.source.order, kind)
    slots = builder.slots[rows.source.slot], builder.slots[result.slot]
    entries = table(builder.profile, with_vectors(rows, curve.expression), *slots)
    producer = value.producer()
    named = label(producer) if producer is not None and not function else value.name or ""
    what = function or (curve.expression.op if isinstance(curve.expression, Apply) else "Requantize")
    builder.steps.append(lookup(builder, rows, named, (result.slot,), entries, what))
    return result


def _requantized(builder: Builder, value: ir.Value, sums: Sums, kind: CodeType) -> Coded | None:
    """Of sums that a layer has written; 16-bit codes are made of their float values."""
    if kind.dtype == WIDE_TYPE:
        if not sums.unbounded:
            return None
        return quantized(builder, value, Real(dequantized(builder, value, sums)), kind)
    result = builder.codes(value, sums.order, kind)
    slot = builder.slots[result.slot]
    rule = sums_rescale(builder.profile, builder.slots[sums.slot].scales, kind.scale)
    low, high = clamp(builder.profile, slot, sums.low, sums.high)
    builder.steps.append(Requantize(value.name or "", (sums.slot,), (result.slot,), rule, low, high))
    return result


def quantized(builder: Builder, value: ir.Value, real: Real, kind: CodeType) -> Coded:
    """Codes of float values; images are laid out as NHWC on the way."""
    order = image_order(len(shape_of(value)))
    result = builder.codes(value, order, kind)
    name = value.name or ""
    rounding: Literal["even", "away"] = "away" if builder.profile == "tflite" else "even"
    builder.steps.append(Quantize(name, (real.slot,), (result.slot,), order, rounding))
    return result


def dequantized(builder: Builder, value: ir.Value, form: Coded | Sums) -> int:
    """Slot of the float values of codes or sums, in logical order."""
    if value not in builder.reals:
        order = logical_order(len(form.order))
        number = builder.plain(value)
        axes = axes_between(form.order, order)
        builder.steps.append(Dequantize(value.name or "", (form.slot,), (number,), axes))
    return builder.reals[value]


def coded(builder: Builder, value: ir.Value | None) -> Coded | None:
    """The value as codes without any rounding, None where it has no such form.

    A curve whose values are all codes of its source again (Relu, Clip at a code) counts.
    """
    form = None if value is None else builder.forms.get(value)
    if isinstance(form, Coded):
        return form
    if value is None or not isinstance(form, Curve):
        return None
    kind = builder.kind(form.source)
    return codes_at(builder, value, kind) if _stays_in_codes(form, kind) else None


def _stays_in_codes(curve: Curve, kind: CodeType) -> bool:
    if varying_axes(curve.expression):
        return False
    codes = np.arange(kind.spec.qmin, kind.spec.qmax + 1)
    real = evaluate(curve.expression, dequantize(codes, kind.scale, kind.zero_point))
    if not np.all(np.isfinite(real)):
        return False
    back = quantize(real, kind.scale, kind.zero_point, kind.spec).astype(np.int64)
    return bool(np.array_equal(dequantize(back, kind.scale, kind.zero_point), real))


def relabelled(builder: Builder, value: ir.Value, source: Coded, kind: CodeType) -> Coded:
    """The same codes read with another scale or zero point: a Lookup that changes nothing."""
    if builder.kind(source) == kind:
        return source
    result = builder.codes(value, source.order, kind)
    entries = np.arange(kind.spec.qmin, kind.spec.qmax + 1).astype(kind.dtype)
    ports = (value.name or "", (source.slot,), (result.slot,))
    builder.steps.append(Lookup(*ports, entries, "Reinterpret"))
    return result


def sums_in_order(builder: Builder, source: Sums, order: tuple[int, ...]) -> Sums | None:
    """Sums laid out in another order; None where scales per channel would leave the last axis."""
    if source.order == order:
        return source
    old = builder.slots[source.slot]
    if old.scales.size > 1:
        return None
    axes = axes_between(source.order, order)
    shape = tuple(old.shape[axis] for axis in axes)
    number = builder.slot(Slot(f"{old.name}/moved", shape, "int32", old.scales))
    builder.steps.append(Transpose(old.name, (source.slot,), (number,), axes))
    return Sums(number, order, source.low, source.high)
