"""Sums, products, pools, functions and Concat on codes of one type: ONNX Runtime's own operators.

QuantizeLinear(Add(DequantizeLinear(a), DequantizeLinear(b)))  →  com.microsoft.QLinearAdd(a, b)
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from calib8.exporting.qoperator import moves
from calib8.exporting.qoperator.coded import MIXED_TYPES, NOT_CODED, Fused, Operand, emit, operand, result_of
from calib8.model.graph import Names, float_attribute, int_attribute, ints_attribute
from calib8.ops.questions import quantizes
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


def fuse_unary(names: Names, node: ir.Node) -> Fused:
    """``Q(f(DQ(x)))`` → ``QLinearF(x)``."""
    if any(rate != 1 for rate in ints_attribute(node, "dilations", ())):
        return "a pool on codes has no dilations"
    source, result = operand(node.inputs[0]), result_of(node.outputs[0])
    if source is None or isinstance(result, str):
        return NOT_CODED if source is None else str(result)
    if source.coding.dtype != result.coding.dtype:
        return MIXED_TYPES
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
    if node.op_type == "Softmax":
        version = names.graph.opset_imports.get("", 0)
        return {"axis": int_attribute(node, "axis", -1), "opset": version}
    return {}


def fuse_binary(names: Names, node: ir.Node) -> Fused:
    """``Q(DQ(a) + DQ(b))`` → ``QLinearAdd(a, b)``, products alike."""
    first, second = (operand(value) for value in node.inputs)
    result = result_of(node.outputs[0])
    if first is None or second is None:
        return NOT_CODED
    if isinstance(result, str):
        return result
    if not first.coding.dtype == second.coding.dtype == result.coding.dtype:
        return MIXED_TYPES
    inputs = [*first.triple, *second.triple, *result.coding.parameters]
    return emit(names, node, f"QLinear{node.op_type}", inputs, result)


def fuse_concat(names: Names, node: ir.Node) -> Fused:
    """``Q(Concat(DQ(a), DQ(b)))`` → ``Concat(a, b)`` where all codes are alike, else ``QLinearConcat``."""
    operands = [_before_rescaling(operand(value)) for value in node.inputs]
    found = [source for source in operands if source is not None]
    result = result_of(node.outputs[0])
    if len(found) < len(operands) or isinstance(result, str):
        return NOT_CODED if len(found) < len(operands) else str(result)
    if all(source.coding == result.coding for source in found):
        return moves.fuse(names, node)
    if any(source.coding.dtype != result.coding.dtype for source in found):
        return MIXED_TYPES
    inputs = [*result.coding.parameters, *(value for source in found for value in source.triple)]
    return emit(names, node, "QLinearConcat", inputs, result, {"axis": int_attribute(node, "axis", 0)})


def _before_rescaling(source: Operand | None) -> Operand | None:
    """The codes before ``Q(DQ(x))``, since a QLinearConcat changes the scale itself."""
    coder = None if source is None else source.codes.producer()
    is_coder = coder is not None and quantizes(coder)
    before = operand(coder.inputs[0]) if coder is not None and is_coder else None
    return (
        source if before is None or source is None or before.coding.dtype != source.coding.dtype else before
    )
