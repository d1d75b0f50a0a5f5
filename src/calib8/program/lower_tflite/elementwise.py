"""Sums, differences and products of two tensors of codes, the larger and the smaller: broadcast as in NumPy.

ADD, SUB, MUL, MAXIMUM, MINIMUM, SQUARED_DIFFERENCE. One of the operands may be constant. Beside them ABS, a
table. Codes of ADD, SUB and MUL may have 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from calib8.errors import NoFormError
from calib8.program.instructions import Add, Instruction, Lookup, Maximum, Minimum, Mul, Sub
from calib8.program.lower_tflite.builder import Builder, slot_of
from calib8.program.lower_tflite.constants import against_constant, coded_constant, written
from calib8.program.lower_tflite.windows import activation_clamp
from calib8.program.ops.rescale import rescale
from calib8.program.program import Slot
from calib8.program.rounding.linear import clamp, product_rule, sum_rule, sums_rescale
from calib8.program.rounding.sixteen_by_eight import wide_sum_rule
from calib8.program.rounding.squares import LEFT_SHIFT, difference_rule, square_table
from calib8.program.rules import SumRule
from calib8.qparams import QParams
from calib8.tflite.graph import Operator

Ports: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...]]
"""Name, inputs and outputs of an instruction."""


def add(builder: Builder, operator: Operator) -> None:
    """Elementwise sum."""
    a, b, y = _slots(builder, operator)
    rule = _sum_rule("add", a, b, y)
    low, high = activation_clamp(operator, y)
    _binary(builder, operator, lambda ports: Add(*ports, rule, low, high))


def sub(builder: Builder, operator: Operator) -> None:
    """Elementwise difference."""
    a, b, y = _slots(builder, operator)
    rule = _sum_rule("sub", a, b, y)
    low, high = activation_clamp(operator, y)
    _binary(builder, operator, lambda ports: Sub(*ports, rule, low, high))


def mul(builder: Builder, operator: Operator) -> None:
    """Elementwise product."""
    a, b, y = _slots(builder, operator)
    rule = product_rule("tflite", a.scale, b.scale, y.scale)
    low, high = activation_clamp(operator, y)
    _binary(builder, operator, lambda ports: Mul(*ports, rule, low, high))


def maximum(builder: Builder, operator: Operator) -> None:
    """The larger code."""
    _require_same_codes(builder, operator)
    _binary(builder, operator, lambda ports: Maximum(*ports))


def minimum(builder: Builder, operator: Operator) -> None:
    """The smaller code."""
    _require_same_codes(builder, operator)
    _binary(builder, operator, lambda ports: Minimum(*ports))


def squared_difference(builder: Builder, operator: Operator) -> None:
    """The difference as a 16-bit number, then a table of squares; TFLite has it for int8."""
    a, b, y = _slots(builder, operator)
    if y.dtype != "int8":
        raise NoFormError(f"it reads and writes {y.dtype}")
    rule, table = difference_rule(a, b), square_table(a, b, y)
    limits, scale = np.iinfo(np.int16), 2.0 * max(a.scale, b.scale) / (1 << LEFT_SHIFT)
    wide = Slot(f"{y.name}/difference", y.shape, "int16", np.array([scale], np.float32), 0)
    number = builder.add(wide)
    target = builder.number(operator.outputs[0])
    _binary(builder, operator, lambda ports: Sub(*ports, rule, limits.min, limits.max), number)
    builder.steps.append(Lookup(builder.name(operator), (number,), (target,), table, "Square"))


def absolute(builder: Builder, operator: Operator) -> None:
    """``clip(double(|q − z_x| · s_x/s_y) + z_y)``; TFLite has it for int8."""
    x, y = builder.codes(operator.inputs[0]), builder.codes(operator.outputs[0])
    if not x.dtype == y.dtype == "int8":
        raise NoFormError(f"it reads {x.dtype} and writes {y.dtype}")
    steps = np.abs(np.arange(-128, 128) - x.zero_point)
    rule = sums_rescale("tflite", np.array([x.scale], np.float32), y.scale)
    table = rescale(steps, rule, y.zero_point, *clamp("tflite", y, None, None), y.dtype)
    ports = ((builder.number(operator.inputs[0]),), (builder.number(operator.outputs[0]),))
    builder.steps.append(Lookup(builder.name(operator), *ports, table, "Abs"))


def _slots(builder: Builder, operator: Operator) -> tuple[Slot, Slot, Slot]:
    """Both operands, constant or not, and the result.

    Raises:
        NoFormError: they are no codes of one type.
    """
    left, right = (slot_of(builder.tensor(place)) for place in operator.inputs[:2])
    result = builder.codes(operator.outputs[0])
    for slot in (left, right):
        if slot.dtype != result.dtype:
            raise NoFormError(f"it reads {slot.dtype} and writes {result.dtype}")
    return left, right, result


def _sum_rule(op: Literal["add", "sub"], a: Slot, b: Slot, y: Slot) -> SumRule:
    meanings = _qparams(a), _qparams(b), _qparams(y)
    return wide_sum_rule(*meanings) if y.is_wide else sum_rule("tflite", op, *meanings)


def _qparams(slot: Slot) -> QParams:
    return QParams(slot.scale, slot.zero_point)


def _require_same_codes(builder: Builder, operator: Operator) -> None:
    """Raises NoFormError where scales or zero points differ: TFLite compares the codes as they are."""
    left, right, result = map(_qparams, _slots(builder, operator))
    if not left == right == result:
        raise NoFormError("its operands and result differ in scale or zero point")


def _binary(
    builder: Builder, operator: Operator, make: Callable[[Ports], Instruction], target: int | None = None
) -> None:
    """The instruction or table of two operands; ``target``: a slot in place of the operator's output."""
    left, right = operator.inputs[:2]
    constant = [builder.is_constant(place) for place in (left, right)]
    if all(constant):
        raise NoFormError("both of its inputs are constant")
    name = builder.name(operator)
    output = (builder.number(operator.outputs[0]) if target is None else target,)
    if any(constant):
        place = constant.index(True)
        x = builder.number((right, left)[place])
        fixed = coded_constant(builder, (left, right)[place])
        if against_constant(builder, make((name, (), output)), x, fixed, place):
            return
        written(builder, (left, right)[place])
    builder.steps.append(make((name, (builder.number(left), builder.number(right)), output)))
