"""Sums, products, choices and tables of codes; sums that become codes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from calib8.errors import NoFormError
from calib8.exporting.c.layers import scaling
from calib8.exporting.c.shapes import collapsed, dense_steps
from calib8.exporting.c.text import Value
from calib8.exporting.c.unit import Unit
from calib8.program.instructions import Add, Instruction, Lookup, Maximum, Minimum, Mul, Requantize, Sub
from calib8.program.rules import AlignedSum, FixedRescale, ScaledSum

AXES: Final = 4
"""Of a pair, at most, once axes that lie together are one."""


def _pair(unit: Unit, step: Instruction) -> dict[str, Value]:
    """How two tensors go through memory for one result."""
    result = unit.result(step)
    steps = [_steps(unit.slots[slot].shape, result.shape) for slot in step.inputs]
    sizes, (left, right) = collapsed(result.shape, steps)
    if len(sizes) > AXES:
        raise NoFormError(f"it repeats what it reads along more than {AXES} axes")
    missing = AXES - len(sizes)
    return {
        "size": [1] * missing + sizes, "left": [0] * missing + left, "right": [0] * missing + right,
    }  # fmt: skip


def _steps(shape: Sequence[int], result: Sequence[int]) -> list[int]:
    """Elements from one index to the next, 0 where one element serves all."""
    own = dense_steps(shape)
    steps = [0 if size == 1 else step for size, step in zip(shape, own, strict=True)]
    return [0] * (len(result) - len(shape)) + steps


def _alike(unit: Unit, step: Instruction) -> bool:
    """All have one shape, and CMSIS-NN can take them as one row."""
    shapes = {unit.slots[slot].shape for slot in (*step.inputs, *step.outputs)}
    return len(shapes) == 1


def _operands(unit: Unit, step: Instruction) -> tuple[str, str, str]:
    return unit.at(step.inputs[0]), unit.at(step.inputs[1]), unit.at(step.outputs[0])


def _zeros(unit: Unit, step: Instruction) -> dict[str, Value]:
    left, right = (unit.slots[slot].zero_point for slot in step.inputs)
    return {"left_zero": left, "right_zero": right}


def add(unit: Unit, step: Add | Sub) -> None:
    """A sum or a difference."""
    rule, sign = step.rule, -1 if isinstance(step, Sub) else 1
    ends: dict[str, Value] = {"zero": unit.result(step).zero_point, "low": step.low, "high": step.high}
    fields: dict[str, Value] = {"pair": _pair(unit, step), **_zeros(unit, step)}
    if isinstance(rule, AlignedSum):
        fields.update({"left": rule.lhs, "right": sign * rule.rhs, "shift": rule.shift, **ends})
        unit.call("add_aligned", unit.describe("add_aligned", fields, step.name), *_operands(unit, step))
        return
    if not isinstance(rule, ScaledSum):
        raise NoFormError("it rounds in float32, and C code has whole numbers only")
    shifts = (rule.lhs[1], rule.rhs[1], rule.output[1])
    fields.update(
        left_multiplier=rule.lhs[0], left_shift=shifts[0],
        right_multiplier=rule.rhs[0], right_shift=shifts[1],
        gained=rule.left_shift, sign=sign, multiplier=rule.output[0], shift=shifts[2],
    )  # fmt: skip
    layer = unit.describe("add", {**fields, **ends}, step.name)
    if sign == 1 and _alike(unit, step) and max(shifts) <= 0 and min(shifts) >= -30:
        unit.call_cmsis_nn("add", layer, *_operands(unit, step))
    else:
        unit.call("add", layer, *_operands(unit, step))


def multiply(unit: Unit, step: Mul) -> None:
    """A product."""
    rule, limits = step.rescale, (step.low, step.high)
    fields: dict[str, Value] = {"pair": _pair(unit, step), **_zeros(unit, step)}
    fields["scaling"] = scaling(unit, rule, unit.result(step), limits, step.name)
    layer = unit.describe("multiply", fields, step.name)
    twice = isinstance(rule, FixedRescale) and rule.rounding == "double" and -30 <= int(rule.shift[0]) <= 0
    if twice and _alike(unit, step):
        unit.call_cmsis_nn("multiply", layer, *_operands(unit, step))
    else:
        unit.call("multiply", layer, *_operands(unit, step))


def choice(unit: Unit, step: Maximum | Minimum) -> None:
    """The larger or the smaller code."""
    layer = unit.describe("pair", _pair(unit, step), step.name)
    unit.call("larger" if isinstance(step, Maximum) else "smaller", layer, *_operands(unit, step))


def lookup(unit: Unit, step: Lookup) -> None:
    """A table, or one per channel."""
    source = unit.source(step)
    channels = source.shape[-1] if step.table.ndim == 2 else 1
    fields: dict[str, Value] = {
        "rows": math.prod(source.shape) // channels,
        "channels": channels,
        "stride": 256 if step.table.ndim == 2 else 0,
        "table": unit.keep("table", step.table, step.name),
    }
    layer = unit.describe("lookup", fields, step.name)
    unit.call("lookup", layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))


def requantize(unit: Unit, step: Requantize) -> None:
    """Sums become codes."""
    source = unit.source(step)
    channels = source.shape[-1] if source.shape else 1
    limits = (step.low, step.high)
    fields: dict[str, Value] = {
        "rows": math.prod(source.shape) // channels,
        "channels": channels,
        "scaling": scaling(unit, step.rescale, unit.result(step), limits, step.name),
    }
    layer = unit.describe("requantize", fields, step.name)
    unit.call("requantize", layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))
