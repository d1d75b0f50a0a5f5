"""Div of two coded tensors; what makes the divisor of codes (b + ε) goes into the table of the instruction.

DQ a ───────────────┐
DQ b ─► Add ε ─► Div(a, ·) ─► Q          Div: a table of b's 256 codes holds b + ε
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.ops.questions import divides
from calib8.program.expressions import evaluate
from calib8.program.instructions import Div, Instruction
from calib8.program.lower.builder import Builder
from calib8.program.lower.convert import coded
from calib8.program.lower.curves import curve_of
from calib8.program.lower.emit_elementwise import aligned
from calib8.program.lower.emit_elementwise import binary as _binary
from calib8.program.lower.forms import Coded, Curve
from calib8.program.lower.results import Target, deliver
from calib8.program.lower.rows import varying_axes
from calib8.program.rounding.quotient import quotient_rule
from calib8.program.rules import F32
from calib8.qparams import dequantize


def div(builder: Builder, node: ir.Node) -> None:
    """A quotient of two tensors; with constants, or of one tensor alone, a function as others are."""
    sides = _sides(builder, node)
    if sides is None:
        _binary(builder, node)
        return
    dividend, divisor = sides
    numbers = _divisors(builder, divisor)
    scale = builder.kind(dividend).scale
    (left, right), order = aligned(builder, (dividend, divisor.source), node.outputs[0])

    def make(to: Target) -> Instruction:
        rule = quotient_rule(builder.profile, scale, numbers, to.kind.scale)
        return Div(to.name, (left.slot, right.slot), to.outputs, rule, to.low, to.high)

    deliver(builder, node, order, make)


def _sides(builder: Builder, node: ir.Node) -> tuple[Coded, Curve] | None:
    """Codes and a function of other codes; None where one of them is none, or both are of one tensor."""
    if not divides(node) or len(node.inputs) != 2:
        return None
    dividend, divisor = coded(builder, node.inputs[0]), curve_of(builder, node.inputs[1])
    if dividend is None or divisor is None or varying_axes(divisor.expression):
        return None
    own = curve_of(builder, node.inputs[0])
    of_one = own is not None and own.source == divisor.source
    return None if of_one else (dividend, divisor)


def _divisors(builder: Builder, divisor: Curve) -> F32:
    """What each code of the divisor stands for, float32 [256], as a float32 runtime computes it."""
    kind = builder.kind(divisor.source)
    if builder.slots[divisor.source.slot].is_wide:
        raise NoFormError("Div has 8-bit codes alone")
    codes = np.arange(kind.spec.qmin, kind.spec.qmax + 1)
    numbers: F32 = evaluate(divisor.expression, dequantize(codes, kind.scale, kind.zero_point))
    if np.isnan(numbers).any():
        raise NoFormError("some of its divisors are no numbers")
    return numbers.astype(np.float32)
