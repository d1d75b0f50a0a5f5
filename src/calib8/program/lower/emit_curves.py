"""Elementwise functions of one tensor: Relu, Clip, Sigmoid, HardSwish … become parts of a table.

A Sigmoid or Tanh of float32 at the end of a graph is a RealFunction.
"""

from __future__ import annotations

from typing import cast

import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.ops.questions import rectifies
from calib8.program.expressions import Apply
from calib8.program.instructions import RealFunction
from calib8.program.lower.builder import Builder, step_name
from calib8.program.lower.curves import applied, curve_of, number_constant
from calib8.program.lower.forms import Curve, Real, Sums
from calib8.program.lower.readers import activation_bounds, clipped, finite
from calib8.program.lower.real_functions import real_source
from calib8.program.lower.results import NOT_CODED
from calib8.program.rules import CellFunction, CellFunctionName


def unary(builder: Builder, node: ir.Node) -> None:
    """A function of its first input; further inputs (the slope of a PRelu) are constants."""
    source = real_source(builder, node)
    if source is None:
        builder.forms[node.outputs[0]] = applied(builder, node)
        return
    value = node.outputs[0]
    result = builder.plain(value)
    function = CellFunction(cast("CellFunctionName", node.op_type))
    builder.steps.append(RealFunction(step_name(node), (source,), (result,), function))
    builder.forms[value] = Real(result, own=True)


def activation(builder: Builder, node: ir.Node) -> None:
    """Relu and Clip: bounds of sums, or part of a table."""
    value, bounds = node.inputs[0], activation_bounds(node)
    if bounds is None:
        raise NoFormError("its limits are computed")
    form = builder.forms.get(value) if value is not None else None
    if isinstance(form, Sums):
        low = clipped(form.low if form.low is not None else float("-inf"), *bounds)
        high = clipped(form.high if form.high is not None else float("inf"), *bounds)
        builder.forms[node.outputs[0]] = Sums(form.slot, form.order, finite(low), finite(high))
        return
    curve = curve_of(builder, value)
    if curve is None:
        raise NoFormError(NOT_CODED)
    limits = () if rectifies(node) else tuple(map(number_constant, bounds))
    expression = Apply(node.op_type, (curve.expression, *limits))
    builder.forms[node.outputs[0]] = Curve(curve.source, expression)
