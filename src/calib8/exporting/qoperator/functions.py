"""Sums, products, pools, functions and Concat on codes of one type: ONNX Runtime's own operators.

QuantizeLinear(Add(DequantizeLinear(a), DequantizeLinear(b)))  →  com.microsoft.QLinearAdd(a, b)
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.exporting.qoperator import moves
from calib8.exporting.qoperator.coded import MIXED_TYPES, Operand, emit, operand, result_of
from calib8.model.graph import Names, float_attribute, int_attribute, ints_attribute
from calib8.ops.questions import is_softmax, quantizes
from calib8.program.lower.canonical.edits import Attributes

UNARY: Final[dict[str, tuple[str, ...]]] = {
    "AveragePool": ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"),
    "GlobalAveragePool": (),
    "LeakyRelu": (),
    "Sigmoid": (),
    "Softmax": (),
}
"""Op with one input → the attributes that its operator on codes has under the same name."""

BINARY: Final = ("Add", "Mul")
LEAKY_SLOPE: Final = 0.01


def fuse_unary(names: Names, node: ir.Node) -> ir.Node:
    """``Q(f(DQ(x)))`` → ``QLinearF(x)``."""
    if any(rate != 1 for rate in ints_attribute(node, "dilations", ())):
        raise NoFormError("a pool on codes has no dilations")
    source, result = operand(node.inputs[0]), result_of(node.outputs[0])
    if source.coding.dtype != result.coding.dtype:
        raise NoFormError(MIXED_TYPES)
    op_type, inputs = f"QLinear{node.op_type}", [*source.triple, *result.coding.parameters]
    operator = emit(names, node, op_type, inputs, result, _stated(names, node))
    for name in UNARY[operator.op_type.removeprefix("QLinear")]:
        if name in node.attributes:
            operator.attributes[name] = node.attributes[name]
    return operator


def _stated(names: Names, node: ir.Node) -> Attributes:
    """Attributes that an operator on codes names or defaults otherwise."""
    if node.op_type == "LeakyRelu":
        return {"alpha": float_attribute(node, "alpha", LEAKY_SLOPE)}
    if is_softmax(node):
        version = names.graph.opset_imports.get("", 0)
        return {"axis": int_attribute(node, "axis", -1), "opset": version}
    return {}


def fuse_binary(names: Names, node: ir.Node) -> ir.Node:
    """``Q(DQ(a) + DQ(b))`` → ``QLinearAdd(a, b)``, products alike."""
    first, second = (operand(value) for value in node.inputs)
    result = result_of(node.outputs[0])
    if not first.coding.dtype == second.coding.dtype == result.coding.dtype:
        raise NoFormError(MIXED_TYPES)
    inputs = [*first.triple, *second.triple, *result.coding.parameters]
    return emit(names, node, f"QLinear{node.op_type}", inputs, result)


def fuse_concat(names: Names, node: ir.Node) -> ir.Node:
    """``Q(Concat(DQ(a), DQ(b)))`` → ``Concat(a, b)`` where all codes are alike, else ``QLinearConcat``."""
    operands = [_before_rescaling(operand(value)) for value in node.inputs]
    result = result_of(node.outputs[0])
    if all(source.coding == result.coding for source in operands):
        return moves.fuse(names, node)
    if any(source.coding.dtype != result.coding.dtype for source in operands):
        raise NoFormError(MIXED_TYPES)
    inputs = [*result.coding.parameters, *(value for source in operands for value in source.triple)]
    return emit(names, node, "QLinearConcat", inputs, result, {"axis": int_attribute(node, "axis", 0)})


def _before_rescaling(source: Operand) -> Operand:
    """The codes before ``Q(DQ(x))``, since a QLinearConcat changes the scale itself."""
    coder = source.codes.producer()
    if coder is None or not quantizes(coder):
        return source
    try:
        before = operand(coder.inputs[0])
    except NoFormError:
        return source
    return before if before.coding.dtype == source.coding.dtype else source
