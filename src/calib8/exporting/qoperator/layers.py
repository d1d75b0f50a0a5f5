"""Conv, Gemm and MatMul on codes: with a quantizer behind in one operator, else as sums that become float.

Q(Conv(DQ(x), DQ(w), DQ(b)))  →  QLinearConv(x, w, b)
Conv(DQ(x), DQ(w), DQ(b))     →  Mul(Cast(Add(ConvInteger(x, w), b)), s_x·s_w)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.exporting.qoperator.coded import (
    MIXED_TYPES,
    Operand,
    Result,
    copy_attributes,
    emit,
    emit_float,
    operand,
    put_before,
    result_of,
)
from calib8.model.graph import CONTRIB, Names, constant, int_attribute, rank
from calib8.model.layer import Layer
from calib8.program.lower.canonical.codings import BYTE_TYPES, constant_codes
from calib8.program.lower.canonical.edits import new_node, set_type
from calib8.quantization.qdq import Codes, codes_of, dequantizer, stored_type

MATRIX: Final = 2
"""Axes of a matrix."""

KINDS: Final = frozenset(
    {
        (ir.DataType.UINT8, ir.DataType.UINT8),
        (ir.DataType.UINT8, ir.DataType.INT8),
        (ir.DataType.INT8, ir.DataType.INT8),
    }
)
"""Types of input and weight that ONNX Runtime multiplies; the result has the type of the input."""

OTHER_BIAS: Final = "its bias is not in steps of its sums"
OTHER_WEIGHT: Final = "its weight is not in 8-bit codes along the output channels"
SEVERAL_POINTS: Final = "its weight has several zero points"


@dataclass(frozen=True)
class Operands:
    """The operands of a layer, which are codes.

    Attributes:
        source: the input.
        weight: codes, scale and zero point.
        steps: float32 ``fl(s_x·s_w)``, [] or [output channels]: what the sums count in.
        points: the zero points of the weight, as many.
        bias: int32 codes in these steps, [output channels].
    """

    source: Operand
    weight: tuple[ir.Value, ir.Value, ir.Value]
    steps: npt.NDArray[np.float32]
    points: npt.NDArray[Any]
    bias: ir.Value | None

    @property
    def operands(self) -> list[ir.Value | None]:
        """Codes, scale and zero point of input and weight."""
        return [*self.source.triple, *self.weight]


def fuse_conv(names: Names, node: ir.Node) -> ir.Node:
    """``QLinearConv``, or ``ConvInteger`` where the result is read as float."""
    layer = _layer(node)
    if np.any(layer.points != layer.points.reshape(-1)[0]):
        raise NoFormError(SEVERAL_POINTS)
    result = _result(node, layer)
    if result is None:
        sums = _conv_sums(names, node, layer)
        weight = constant(layer.weight[0])
        ones = (1,) * ((MATRIX if weight is None else weight.ndim) - MATRIX)
        return _real(names, node, layer, sums, ones)
    inputs = [*layer.operands, *result.coding.parameters, *_given(layer.bias)]
    made = emit(names, node, "QLinearConv", inputs, result, domain="")
    copy_attributes(node, made)
    return made


def fuse_gemm(names: Names, node: ir.Node) -> ir.Node:
    """``QGemm``, without an output scale where the result is read as float."""
    if Layer(node).factors != (1.0, 1.0):
        raise NoFormError("its factors are not part of its constants")
    layer = _layer(node)
    result = _result(node, layer)
    attributes = {"transB": int_attribute(node, "transB", 0)}
    if result is not None:
        inputs = [*layer.operands, layer.bias, *result.coding.parameters]
        return emit(names, node, "QGemm", inputs, result, attributes)
    inputs = [*layer.operands, *_given(layer.bias)]
    stem = f"{node.outputs[0].name}/real"
    made = put_before(names, node, "QGemm", inputs, stem, attributes, domain=CONTRIB)
    emit_float(names, node, made)
    return made


def fuse_matmul(names: Names, node: ir.Node) -> ir.Node:
    """``QLinearMatMul``, or ``MatMulInteger`` where the result is read as float; two activations as well."""
    layer = _layer(node)
    if min(rank(value) or 0 for value in node.inputs) < MATRIX:
        raise NoFormError("an operand is not a matrix")
    result = _result(node, layer)
    if result is not None:
        inputs = [*layer.operands, *result.coding.parameters]
        return emit(names, node, "QLinearMatMul", inputs, result, domain="")
    points = [layer.source.coding.parameters[1], layer.weight[2]]
    sums = _sums(names, node, "MatMulInteger", [layer.source.codes, layer.weight[0], *points])
    return _real(names, node, layer, sums, ())


def _layer(node: ir.Node) -> Operands:
    """The operands of a layer.

    Raises:
        NoFormError: they are not codes that an operator takes.
    """
    of = Layer(node)
    source, coder = operand(of.input), dequantizer(of.weight)
    found = None if coder is None else codes_of(coder)
    if coder is None or found is None or not _is_weight(of, found):
        raise NoFormError(OTHER_WEIGHT)
    if (source.coding.dtype, found.dtype) not in KINDS:
        raise NoFormError(MIXED_TYPES)
    codes, scale, point = coder.inputs[:3]
    assert codes is not None and scale is not None and point is not None
    assert found.scale is not None and found.zero_point is not None
    steps = np.asarray(np.float32(source.coding.scale) * found.scale.astype(np.float32), np.float32)
    return Operands(source, (codes, scale, point), steps, found.zero_point, _bias(of.bias, steps))


def _is_weight(layer: Layer, found: Codes) -> bool:
    """8-bit codes of one scale, or constant ones with a scale per output channel."""
    if found.scale is None or found.zero_point is None or found.dtype not in BYTE_TYPES:
        return False
    stored = constant(found.node.inputs[0])
    if found.scale.ndim == 0:
        return stored is not None or layer.stacks
    if stored is None or found.scale.ndim > 1 or not layer.fits(stored.ndim):
        return False
    return found.axis == layer.output_axis(stored.ndim)


def _bias(value: ir.Value | None, steps: npt.NDArray[np.float32]) -> ir.Value | None:
    """int32 codes in steps of the sums, None where there is no bias.

    Raises:
        NoFormError: the bias is something else.
    """
    if value is None:
        return None
    coder, found = dequantizer(value), constant_codes(value)
    if coder is None or found is None or found.values.dtype != np.int32 or found.values.ndim != 1:
        raise NoFormError(OTHER_BIAS)
    if np.any(found.zero_point) or not np.array_equal(found.scale, steps):
        raise NoFormError(OTHER_BIAS)
    return coder.inputs[0]


def _result(node: ir.Node, layer: Operands) -> Result | None:
    """Where the codes go; None where the result is read as float too, or in another type of codes."""
    try:
        result = result_of(node.outputs[0])
    except NoFormError:
        return None
    return result if result.coding.dtype == layer.source.coding.dtype else None


def _given(value: ir.Value | None) -> list[ir.Value | None]:
    return [] if value is None else [value]


def _conv_sums(names: Names, node: ir.Node, layer: Operands) -> ir.Node:
    """int32 sums without the bias; ONNX Runtime takes one zero point for the whole weight."""
    codes, _, point = layer.weight
    if layer.points.ndim:
        kind = stored_type(codes) or ir.DataType.INT8
        point = names.constant(f"{node.name}/weight/zero_point", np.array(layer.points[0], kind.numpy()))
    inputs: list[ir.Value | None] = [layer.source.codes, codes, layer.source.coding.parameters[1], point]
    sums = _sums(names, node, "ConvInteger", inputs)
    copy_attributes(node, sums)
    return sums


def _sums(names: Names, node: ir.Node, op_type: str, inputs: list[ir.Value | None]) -> ir.Node:
    sums = put_before(names, node, op_type, inputs, f"{node.outputs[0].name}/sums")
    set_type(sums.outputs[0], ir.DataType.INT32)
    sums.outputs[0].shape = node.outputs[0].shape
    return sums


def _real(names: Names, node: ir.Node, layer: Operands, sums: ir.Node, ones: tuple[int, ...]) -> ir.Node:
    """``(sums + bias) · steps`` in float, in place of what ``node`` yields; channels come before ``ones``."""
    stem, last = node.outputs[0].name or "", sums
    if layer.bias is not None:
        bias = constant(layer.bias)
        assert bias is not None
        shaped = names.constant(f"{stem}/bias", bias.reshape(-1, *ones))
        last = _next(names, node, "Add", [last.outputs[0], shaped], ir.DataType.INT32)
    last = _next(names, node, "Cast", [last.outputs[0]], ir.DataType.FLOAT)
    last.attributes["to"] = ir.AttrInt64("to", int(ir.DataType.FLOAT))
    steps = layer.steps.reshape(-1, *ones) if layer.steps.ndim else layer.steps
    factor = names.constant(f"{stem}/steps", steps)
    last = _next(names, node, "Mul", [last.outputs[0], factor], ir.DataType.FLOAT)
    emit_float(names, node, last)
    return sums


def _next(
    names: Names, node: ir.Node, op_type: str, inputs: list[ir.Value | None], kind: ir.DataType
) -> ir.Node:
    stem = node.outputs[0].name or ""
    made = new_node(names, op_type, inputs, name=f"{stem}/{op_type}", result=f"{stem}/{op_type}")
    set_type(made.outputs[0], kind)
    made.outputs[0].shape = node.outputs[0].shape
    names.graph.insert_before(node, made)
    return made
