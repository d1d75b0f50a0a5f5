"""Pools, reductions, Softmax."""

from __future__ import annotations

import math

from calib8.errors import NoFormError
from calib8.exporting.c.layers import scaling
from calib8.exporting.c.scratch import average_scratch
from calib8.exporting.c.shapes import around, product
from calib8.exporting.c.text import Value
from calib8.exporting.c.unit import Unit, whole
from calib8.program.instructions import (
    ArgMax,
    ArgMin,
    AveragePool,
    Instruction,
    MaxPool,
    Mean,
    ReduceMax,
    ReduceMin,
    Softmax,
)
from calib8.program.rules import CodeAverage, FixedSoftmax, TableSoftmax

MOST_SHARES = 4095
"""Codes of a row of which CMSIS-NN can add the exponentials, where all are equal."""

UINT8_OFFSET = 128


def _windows(
    unit: Unit, step: MaxPool | AveragePool, dilations: tuple[int, int], limits: tuple[int, int]
) -> dict[str, Value]:
    source, result = unit.source(step), unit.result(step)
    return {
        "images": source.shape[0],
        "in_rows": source.shape[1],
        "in_columns": source.shape[2],
        "channels": source.shape[3],
        "out_rows": result.shape[1],
        "out_columns": result.shape[2],
        "rows": step.kernel[0],
        "columns": step.kernel[1],
        "stride_rows": step.strides[0],
        "stride_columns": step.strides[1],
        "dilation_rows": dilations[0],
        "dilation_columns": dilations[1],
        "top": step.pads[0],
        "left": step.pads[1],
        "bottom": step.pads[2],
        "right": step.pads[3],
        "low": limits[0],
        "high": limits[1],
    }


def max_pool(unit: Unit, step: MaxPool) -> None:
    """The largest code of each window."""
    layer = unit.describe("pool", _windows(unit, step, step.dilations, (-128, 127)), step.name)
    arguments = (layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))
    if step.dilations == (1, 1):
        unit.call_cmsis_nn("max_pool", *arguments)
    else:
        unit.call("max_pool", *arguments)


def average_pool(unit: Unit, step: AveragePool) -> None:
    """The mean of each window."""
    source, limits = unit.source(step), (step.low, step.high)
    offset = UINT8_OFFSET if unit.types[step.inputs[0]] == "uint8" else 0
    fields: dict[str, Value] = {
        "pool": _windows(unit, step, (1, 1), limits),
        "pads_count": int(step.count_pads),
        "in_zero": source.zero_point,
        "code_zero": offset,
    }
    of_codes = isinstance(step.rule, CodeAverage)
    if not of_codes:
        fields["scaling"] = scaling(unit, step.rule, unit.result(step), limits, step.name)
    layer = unit.describe("average_pool", fields, step.name)
    arguments = (layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))
    if of_codes and not offset and not (step.count_pads and any(step.pads)):
        unit.call_cmsis_nn("average_pool", *arguments, scratch=average_scratch(source.shape[3]))
    else:
        unit.call("average_pool", *arguments)


def _reduced(unit: Unit, step: Instruction, axes: tuple[int, ...], within: str) -> dict[str, Value]:
    before, between, behind = around(unit.source(step).shape, axes)
    return {"outer": before, within: between, "inner": behind}


def mean(unit: Unit, step: Mean) -> None:
    """Mean or sum over axes."""
    limits = (step.low, step.high)
    fields = _reduced(unit, step, step.axes, "reduced")
    fields["in_zero"] = unit.source(step).zero_point
    fields["scaling"] = scaling(unit, step.rescale, unit.result(step), limits, step.name)
    layer = unit.describe("mean", fields, step.name)
    unit.call("mean", layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))


def extreme(unit: Unit, step: ReduceMax | ReduceMin) -> None:
    """Largest or smallest code over axes."""
    fields = _reduced(unit, step, step.axes, "reduced")
    fields["sign"] = 1 if isinstance(step, ReduceMax) else -1
    layer = unit.describe("extreme", fields, step.name)
    unit.call("extreme", layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))


def arg_extreme(unit: Unit, step: ArgMax | ArgMin) -> None:
    """Where it is."""
    fields = _reduced(unit, step, (step.axis,), "axis")
    fields["sign"] = 1 if isinstance(step, ArgMax) else -1
    fields["last"] = int(step.last)
    layer = unit.describe("arg", fields, step.name)
    kernel = "arg_64" if unit.result(step).dtype == "int64" else "arg_32"
    unit.call(kernel, layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))


def softmax(unit: Unit, step: Softmax) -> None:
    """Shares of one, row by row."""
    source, rule = unit.source(step), step.rule
    size = source.shape[-1]
    fields: dict[str, Value] = {"rows": product(source.shape[:-1]), "size": size}
    if isinstance(rule, FixedSoftmax):
        fields.update(multiplier=rule.multiplier, shift=rule.shift, diff_min=rule.diff_min)
        layer = unit.describe("softmax_fixed", fields, step.name)
        arguments = (layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))
        if rule.shift < 31 and size <= MOST_SHARES:
            unit.call_cmsis_nn("softmax_fixed", *arguments)
        else:
            unit.call("softmax_fixed", *arguments)
        return
    if not isinstance(rule, TableSoftmax) or not rule.fraction_bits:
        raise NoFormError("it rounds in float32, and C code has whole numbers only")
    fields.update(
        table=unit.keep("table", whole(rule.table), step.name), factor=math.floor(rule.factor),
        fraction_bits=rule.fraction_bits, zero=unit.result(step).zero_point,
    )  # fmt: skip
    layer = unit.describe("softmax_table", fields, step.name)
    unit.call("softmax_table", layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))
