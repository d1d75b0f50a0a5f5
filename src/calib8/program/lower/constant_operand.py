"""Add, Sub and Mul with a constant in codes: the table holds what the instruction would give code by code.

    DQ(x) + DQ(constant) → Q        Lookup, table[code] = Add(code, constant)

A runtime that fuses these nodes computes with the constant's codes; so does the table. Where it does not, the
table of the real function is as good and closer to the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.coded_array import CodedArray
from calib8.ops.groups import BINARY_OPS
from calib8.program.instructions import Add, Instruction, Mul, Sub
from calib8.program.lower.builder import Builder, shape_of
from calib8.program.lower.constants import coded_constant
from calib8.program.lower.forms import Coded, CodeType
from calib8.program.lower.readers import tail_of
from calib8.program.lower.results import Target, deliver
from calib8.program.lower.rows import MAX_TABLES, Rows, in_rows, lookup, vector, wide_constant
from calib8.program.ops.elementwise import add, mul, sub
from calib8.program.ops.operand import Operand
from calib8.program.program import Slot
from calib8.program.rounding.linear import product_rule, sum_rule
from calib8.program.rules import Profile

FUSED: Final[Mapping[Profile, frozenset[str]]] = {
    "onnx": BINARY_OPS - {"Sub"},
    "tflite": BINARY_OPS,
    "single": frozenset(),
}
"""Profile → operators whose fused kernels it reproduces."""


def against_constant(builder: Builder, node: ir.Node) -> bool:
    """Whether the node was emitted as tables of its sum, difference or product with constant codes."""
    found = _operands(builder, node)
    if found is None:
        return False
    form, constant, codes, place = found
    rows = in_rows(builder, form, frozenset(_varying(codes)))
    if rows.tables > MAX_TABLES:
        return False
    kind = CodeType(codes.dtype.name, float(constant.scale), int(constant.zero_point))
    codes = vector(rows, codes)
    _tables(builder, node, rows, Operand(_slot(kind, codes), codes), place)
    return True


def varies_along_axes(builder: Builder, node: ir.Node) -> bool:
    """Whether a kernel computes with constant codes that vary along several axes: a table for each place.

    The instruction with the constant as a tensor gives the same codes and needs one for each place.
    """
    found = _operands(builder, node)
    return found is not None and len(_varying(found[2])) > 1


def _varying(codes: npt.NDArray[Any]) -> list[int]:
    return [axis for axis, size in enumerate(codes.shape) if size > 1]


def _operands(builder: Builder, node: ir.Node) -> tuple[Coded, CodedArray, npt.NDArray[Any], int] | None:
    """A tensor of codes, the constant, its codes with all axes of the tensor, and which input it is.

    None where no fused kernel computes the node from a tensor's codes and a constant's.
    """
    constants = [coded_constant(value) for value in node.inputs]
    if len(constants) != 2 or not any(constants) or node.op_type not in FUSED[builder.profile]:
        return None
    place = 0 if constants[0] is not None else 1
    constant, other = constants[place], node.inputs[1 - place]
    form = builder.forms.get(other) if other is not None else None
    if constant is None or not isinstance(form, Coded) or not _has_kernel(builder, node, form, constant):
        return None
    codes = wide_constant(constant.values, builder.shape(form))
    if codes is None or builder.shape(form) != shape_of(node.outputs[0]):
        return None
    return form, constant, codes, place


def _has_kernel(builder: Builder, node: ir.Node, form: Coded, constant: CodedArray) -> bool:
    """Kernels take operands and result of one type; ONNX Runtime fuses uint8 only."""
    kinds = (builder.kind(form), *tail_of(node.outputs[0]).kinds)
    types = {constant.values.dtype.name, *(kind.dtype for kind in kinds)}
    fused = types == {"uint8"} or (types == {"int8"} and builder.profile == "tflite")
    return fused and len(kinds) > 1 and constant.axis is None


def _slot(kind: CodeType, codes: npt.NDArray[Any]) -> Slot:
    return Slot("constant", codes.shape, kind.dtype, kind.scales, kind.zero_point)


def _tables(builder: Builder, node: ir.Node, rows: Rows, constant: Operand, place: int) -> None:
    kind = builder.kind(rows.source)
    every = np.arange(kind.spec.qmin, kind.spec.qmax + 1).astype(kind.dtype)
    data = every if constant.data.ndim == 0 else np.repeat(every[:, None], constant.data.size, axis=1)
    operand = Operand(_slot(kind, data), data)
    pair = (constant, operand) if place == 0 else (operand, constant)

    def make(to: Target) -> Instruction:
        slot = Slot(to.name, data.shape, to.kind.dtype, to.kind.scales, to.kind.zero_point)
        table = np.ascontiguousarray(_computed(builder, node.op_type, pair, slot, to).T)
        return lookup(builder, rows, to.name, to.outputs, table, node.op_type)

    deliver(builder, node, rows.source.order, make)


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
