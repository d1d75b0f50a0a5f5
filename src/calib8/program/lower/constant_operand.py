"""Add, Sub and Mul with a constant in codes: the table holds what the instruction would give code by code.

    DQ(x) + DQ(constant) → Q        Lookup, table[code] = Add(code, constant)

A runtime that fuses these nodes computes with the constant's codes; so does the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.program.instructions import Add, Lookup, Mul, Sub
from calib8.program.lower.builder import Builder, shape_of
from calib8.program.lower.constants import CodedConstant, coded_constant
from calib8.program.lower.curves import channel_constant
from calib8.program.lower.forms import Coded, CodeType
from calib8.program.lower.layout import axis_last
from calib8.program.lower.readers import tail_of
from calib8.program.lower.results import Target, deliver
from calib8.program.program import Slot
from calib8.program.reference.elementwise import add, mul, sub
from calib8.program.reference.operand import Operand
from calib8.program.rounding.linear import product_rule, sum_rule


def against_constant(builder: Builder, node: ir.Node) -> bool:
    """Whether the node was emitted as tables of its sum, difference or product with constant codes."""
    if node.op_type not in ("Add", "Sub", "Mul"):
        return False
    constants = [coded_constant(value) for value in node.inputs]
    place = 0 if constants[0] is not None else 1
    constant, other = constants[place], node.inputs[1 - place]
    form = builder.forms.get(other) if other is not None else None
    if constant is None or not isinstance(form, Coded) or builder.shape(form) != shape_of(node.outputs[0]):
        return False
    if not tail_of(node.outputs[0]).kinds or not _eight_bit(constant):
        return False
    steps = (constant.codes.astype(np.float32), builder.shape(form))
    found = channel_constant(*steps)
    if found is None:
        return False
    codes, axis = found[0].array.astype(constant.codes.dtype), found[1]
    source = form
    if axis is not None and form.order[-1] != axis:
        source = builder.in_order(form, axis_last(len(form.order), axis, form.order))
    kind = CodeType(codes.dtype.name, float(constant.scales[0]), int(constant.zero_points[0]))
    return _tables(builder, node, source, Operand(_slot(kind, codes), codes), place)


def _eight_bit(constant: CodedConstant) -> bool:
    return constant.axis is None and constant.codes.dtype in (np.uint8, np.int8)


def _slot(kind: CodeType, codes: npt.NDArray[Any]) -> Slot:
    return Slot("constant", codes.shape, kind.dtype, kind.scales, kind.zero_point)


def _tables(builder: Builder, node: ir.Node, source: Coded, constant: Operand, place: int) -> bool:
    kind = builder.kind(source)
    every = np.arange(kind.spec.qmin, kind.spec.qmax + 1).astype(kind.dtype)
    data = every if constant.data.ndim == 0 else np.repeat(every[:, None], constant.data.size, axis=1)
    operand = Operand(_slot(kind, data), data)
    pair = (constant, operand) if place == 0 else (operand, constant)

    def make(to: Target) -> Lookup:
        slot = Slot(to.name, data.shape, to.kind.dtype, to.kind.scales, to.kind.zero_point)
        table = np.ascontiguousarray(_computed(builder, node.op_type, pair, slot, to).T)
        return Lookup(to.name, (source.slot,), to.outputs, table, node.op_type)

    return not deliver(builder, node, source.order, make)


def _computed(
    builder: Builder, op: str, pair: tuple[Operand, Operand], slot: Slot, to: Target
) -> npt.NDArray[Any]:
    """What the instruction would give: [codes] or [codes, channels]."""
    a, b = (CodeType(x.slot.dtype, x.slot.scale, x.slot.zero_point).qparams for x in pair)
    if op == "Mul":
        factor = product_rule(builder.profile, a.scale, b.scale, to.kind.scale)
        return mul(Mul(to.name, (), (), factor, to.low, to.high), pair, slot)
    rule = sum_rule(builder.profile, "add" if op == "Add" else "sub", a, b, to.kind.qparams)
    if op == "Add":
        return add(Add(to.name, (), (), rule, to.low, to.high), pair, slot)
    return sub(Sub(to.name, (), (), rule, to.low, to.high), pair, slot)
