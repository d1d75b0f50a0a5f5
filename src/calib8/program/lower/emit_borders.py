"""The borders between float and codes: QuantizeLinear, DequantizeLinear, and what changes only the type."""

from __future__ import annotations

import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import int_attribute
from calib8.program.lower.builder import Builder
from calib8.program.lower.constants import is_fixed
from calib8.program.lower.convert import codes_at, relabelled
from calib8.program.lower.floats import is_integer, real_slot
from calib8.program.lower.forms import Coded, CodeType
from calib8.program.lower.readers import CODE_TYPES, code_kind
from calib8.quantization.qdq import codes_of


def quantize(builder: Builder, node: ir.Node) -> None:
    """The codes exist already, or a table, a rescale or a border instruction makes them."""
    kind, value = code_kind(node), node.inputs[0]
    if kind is None or value is None:
        raise NoFormError(_why_not_codes(node))
    if is_fixed(value):
        raise NoFormError("its input is constant")
    made = codes_at(builder, value, kind)
    if made is None:
        real_slot(builder, value)
        made = codes_at(builder, value, kind)
        assert made is not None  # what float nodes have computed can be quantized
    builder.forms[node.outputs[0]] = made


def dequantize(builder: Builder, node: ir.Node) -> None:
    """The float tensor is the codes themselves; constants need no instruction."""
    if is_fixed(node.outputs[0]):
        return
    kind, value = code_kind(node), node.inputs[0]
    form = None if value is None else builder.forms.get(value)
    if kind is None:
        raise NoFormError(_why_not_codes(node))
    if value is None or not isinstance(form, Coded) or not is_integer(value):
        raise NoFormError("its input is not in codes")
    builder.forms[node.outputs[0]] = relabelled(builder, node.outputs[0], form, kind)


def cast(builder: Builder, node: ir.Node) -> None:
    """8-bit integers turned into float32 are codes of scale 1."""
    value, target = node.inputs[0], ir.DataType(int_attribute(node, "to", 0))
    form = None if value is None else builder.forms.get(value)
    if value is None or value.dtype is None or not isinstance(form, Coded) or target != ir.DataType.FLOAT:
        raise NoFormError("it changes the type of values")
    if is_integer(value):
        form = relabelled(builder, node.outputs[0], form, CodeType(CODE_TYPES[value.dtype], 1.0, 0))
    builder.forms[node.outputs[0]] = form


def identity(builder: Builder, node: ir.Node) -> None:
    """The output is the input."""
    form = None if node.inputs[0] is None else builder.forms.get(node.inputs[0])
    if form is None:
        raise NoFormError("its input is not quantized")
    builder.forms[node.outputs[0]] = form


def _why_not_codes(node: ir.Node) -> str:
    codes = codes_of(node)
    if codes.scale is not None and codes.scale.size > 1:
        return "it has one scale per channel"
    if codes.scale is None or codes.zero_point is None:
        return "its scale is computed"
    return f"its codes are {'of unknown type' if codes.dtype is None else codes.dtype.name.lower()}"
