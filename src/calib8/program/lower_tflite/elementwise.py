"""Sums, differences and products of two tensors of codes: ADD."""

from __future__ import annotations

from calib8.program.instructions import Add
from calib8.program.lower_tflite.builder import Builder
from calib8.program.lower_tflite.windows import activation_clamp
from calib8.program.rounding.linear import sum_rule
from calib8.tflite.graph import Operator


def add(builder: Builder, operator: Operator) -> None:
    """Elementwise sum, broadcast."""
    a, b, y = (builder.qparams(place) for place in (*operator.inputs, *operator.outputs))
    low, high = activation_clamp(operator, builder.codes(operator.outputs[0]))
    inputs = tuple(builder.number(place) for place in operator.inputs)
    output = (builder.number(operator.outputs[0]),)
    builder.steps.append(
        Add(builder.name(operator), inputs, output, sum_rule("tflite", "add", a, b, y), low, high)
    )
