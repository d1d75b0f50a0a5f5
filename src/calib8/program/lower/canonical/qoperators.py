"""Ops that compute with codes inside become the float op between quantizers.

QLinearConv(x, s_x, z_x, w, s_w, z_w, s_y, z_y, b)
    → QuantizeLinear(Conv(DequantizeLinear(x), DequantizeLinear(w), DequantizeLinear(b, s_x·s_w)), s_y, z_y)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import Names, constant, float_attribute, input_at, int_attribute, ints_attribute, rank
from calib8.model.infer_shapes import infer_shapes
from calib8.program.lower.canonical.edits import Attributes, new_node, replace, set_attributes, set_type
from calib8.quantization.qdq import stored_type

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class QOperator:
    """Where an op on codes has its parts.

    Attributes:
        op_type: the float op.
        operands: places of (codes, scale, zero point) of every float input.
        result: places of the output's scale and zero point.
        bias: place of the int32 bias.
        plain: places of inputs that are no codes and come first (the condition of a Where).
        dropped: attributes that the float op has not.
    """

    op_type: str
    operands: tuple[Triple, ...]
    result: tuple[int, int]
    bias: int | None = None
    plain: tuple[int, ...] = ()
    dropped: tuple[str, ...] = ()


ONE: Final = ((0, 1, 2),)
TWO: Final = ((0, 1, 2), (3, 4, 5))

FORMS: Final[dict[str, QOperator]] = {
    "QLinearConv": QOperator("Conv", TWO, (6, 7), bias=8, dropped=("channels_last",)),
    "QLinearMatMul": QOperator("MatMul", TWO, (6, 7)),
    "QGemm": QOperator("Gemm", TWO, (7, 8), bias=6),
    "QLinearAdd": QOperator("Add", TWO, (6, 7)),
    "QLinearMul": QOperator("Mul", TWO, (6, 7)),
    "QLinearConcat": QOperator("Concat", (), (0, 1)),
    "QLinearAveragePool": QOperator("AveragePool", ONE, (3, 4), dropped=("channels_last",)),
    "QLinearGlobalAveragePool": QOperator("GlobalAveragePool", ONE, (3, 4), dropped=("channels_last",)),
    "QLinearReduceMean": QOperator("ReduceMean", ONE, (3, 4)),
    "QLinearSigmoid": QOperator("Sigmoid", ONE, (3, 4)),
    "QLinearLeakyRelu": QOperator("LeakyRelu", ONE, (3, 4)),
    "QLinearSoftmax": QOperator("Softmax", ONE, (3, 4), dropped=("opset",)),
    "QLinearWhere": QOperator("Where", ((1, 2, 3), (4, 5, 6)), (7, 8), plain=(0,)),
}

LAST_FLATTENING_SOFTMAX: Final = 12
"""Up to this operator set Softmax runs over all axes from ``axis`` on."""

AXES_AS_INPUT: Final = 18
"""From this operator set on ReduceMean takes its axes as an input."""


def rewrite(model: ir.Model) -> int:
    """Every op of ``FORMS`` → DequantizeLinear, float op, QuantizeLinear with the same scales.

    The value of codes keeps its name; the float value before it is called the same without ``_quantized``.
    A bias gets the scale that it has by definition, ``s_x·s_w`` (``alpha·s_x·s_w`` of a QGemm); a QGemm
    without output scale stays float behind. Ops over NHWC data get a Transpose on both sides.

    Returns:
        Nodes rewritten; one with a bias whose scales are computed stays.
    """
    names = Names(model.graph)
    rewritten = 0
    for node in list(model.graph):
        form = FORMS.get(node.op_type)
        if form is None or (form.bias is not None and _bias_scale(node, form) is None):
            continue
        if _flattens(node):
            infer_shapes(model)  # whether it flattens at all depends on the rank
        _rewrite(names, node, form)
        rewritten += 1
    return rewritten


def _rewrite(names: Names, node: ir.Node, form: QOperator) -> None:
    triples = form.operands or tuple((k, k + 1, k + 2) for k in range(2, len(node.inputs), 3))
    inputs = [input_at(node, place) for place in form.plain]
    for index, triple in enumerate(triples):
        inputs.append(_dequantized(names, node, triple, _weight_axis(node) if index == 1 else None))
    if form.bias is not None:
        bias = _dequantized_bias(names, node, form)
        inputs += [] if bias is None else [bias]
    channels_last = "channels_last" in form.dropped and int_attribute(node, "channels_last", 0)
    if channels_last:
        inputs[0] = _transposed(names, node, inputs[0], to_last=False)
    result = _float_op(names, node, form, inputs)
    if channels_last:
        result = _transposed(names, node, result, to_last=True)
    codes, scale = node.outputs[0], input_at(node, form.result[0])
    if scale is None:
        replace(names.graph, codes, result)
        return
    typed = input_at(node, triples[0][0])
    point = input_at(node, form.result[1]) or _zero_point(names, node, scale, typed)
    stem = node.name or ""
    inputs = [result, scale, point]
    coder = _before(
        names, node, "QuantizeLinear", inputs, name=f"{stem}/QuantizeLinear", result=f"{stem}/codes"
    )
    set_type(coder, point.dtype)
    coder.shape = codes.shape
    replace(names.graph, codes, coder)


def _before(
    names: Names,
    node: ir.Node,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    *,
    name: str,
    result: str,
    attributes: Attributes | None = None,
) -> ir.Value:
    """The float output of a new node before ``node``."""
    new = new_node(names, op_type, inputs, name=name, result=result, attributes=attributes)
    new.outputs[0].dtype = ir.DataType.FLOAT
    names.graph.insert_before(node, new)
    return new.outputs[0]


def _weight_axis(node: ir.Node) -> int | None:
    """Channel axis of the second operand's scales, None where they are per-tensor by definition."""
    weight = constant(input_at(node, 3))
    if node.op_type == "QLinearConv":
        return 0
    if node.op_type == "QGemm":
        return 0 if int_attribute(node, "transB", 0) else 1
    return weight.ndim - 1 if node.op_type == "QLinearMatMul" and weight is not None else None


def _dequantized(names: Names, node: ir.Node, places: Triple, axis: int | None) -> ir.Value:
    codes, scale, point = (input_at(node, place) for place in places)
    assert codes is not None and scale is not None
    result = _before(
        names,
        node,
        "DequantizeLinear",
        [codes, scale, point or _zero_point(names, node, scale, codes)],
        name=f"{node.name}/DequantizeLinear",
        result=f"{codes.name}/dequantized",
        attributes={} if axis is None or rank(scale) == 0 else {"axis": axis},
    )
    result.shape = codes.shape
    return result


def _zero_point(names: Names, node: ir.Node, scale: ir.Value, typed: ir.Value | None) -> ir.Value:
    """An omitted zero point: 0 in the type of the codes, uint8 where nothing tells it."""
    kind = None if typed is None else stored_type(typed)
    array = constant(scale)
    dtype = np.dtype((kind or ir.DataType.UINT8).numpy())
    return names.constant(f"{node.name}/zero_point", np.zeros(() if array is None else array.shape, dtype))


def _bias_scale(node: ir.Node, form: QOperator) -> npt.NDArray[np.float32] | None:
    """float32 ``alpha · s_x · s_w``, [] or [channels]; None where a scale is computed."""
    x, w = (constant(input_at(node, triple[1])) for triple in form.operands)
    if x is None or w is None or x.size != 1 or x.dtype != np.float32 or w.dtype != np.float32:
        return None
    alpha = np.float32(float_attribute(node, "alpha", 1.0) if form.op_type == "Gemm" else 1.0)
    scale = np.asarray(alpha * (np.float32(x.item()) * w.astype(np.float32)), np.float32)
    return scale.reshape(()) if scale.size == 1 else scale.reshape(-1)


def _dequantized_bias(names: Names, node: ir.Node, form: QOperator) -> ir.Value | None:
    bias, scale = input_at(node, form.bias or 0), _bias_scale(node, form)
    if bias is None or scale is None:
        return None
    points = names.constant(f"{bias.name}/zero_point", np.zeros(scale.shape, np.int32))
    result = _before(
        names,
        node,
        "DequantizeLinear",
        [bias, names.constant(f"{bias.name}/scale", scale), points],
        name=f"{node.name}/bias/DequantizeLinear",
        result=f"{bias.name}/dequantized",
        attributes={"axis": (rank(bias) or 1) - 1} if scale.ndim else {},
    )
    result.shape = bias.shape
    return result


def _float_op(names: Names, node: ir.Node, form: QOperator, inputs: list[ir.Value | None]) -> ir.Value:
    """The float op with the name of ``node`` and those of its attributes that it knows."""
    codes = node.outputs[0].name or ""
    stem = codes.removesuffix("_quantized")
    result = _before(
        names, node, form.op_type, inputs, name=codes, result=stem if stem != codes else f"{codes}/float"
    )
    float_op = result.producer()
    assert float_op is not None
    float_op.name = node.name
    for attribute in node.attributes.values():
        if attribute.name not in form.dropped:
            float_op.attributes[attribute.name] = attribute
    axes = ints_attribute(float_op, "axes", ())
    if form.op_type == "ReduceMean" and axes and names.graph.opset_imports.get("", 0) >= AXES_AS_INPUT:
        float_op.attributes.pop("axes")
        float_op.resize_inputs(2)
        float_op.replace_input_with(1, names.constant(f"{codes}/axes", np.array(axes, np.int64)))
    return _flattened(names, node, float_op) if _flattens(node) else result


def _flattens(node: ir.Node) -> bool:
    """A Softmax of old that works on a matrix."""
    return node.op_type == "QLinearSoftmax" and int_attribute(node, "opset", 13) <= LAST_FLATTENING_SOFTMAX


def _flattened(names: Names, node: ir.Node, softmax: ir.Node) -> ir.Value:
    """``Softmax(x)`` of old → ``Reshape(Softmax(Flatten(x, axis)), Shape(x))``, over the last axis."""
    source, axes = softmax.inputs[0], rank(node.inputs[0])
    axis = int_attribute(softmax, "axis", 1)
    set_attributes(softmax, {"axis": -1})
    if axes is not None and axis % axes == axes - 1:
        return softmax.outputs[0]
    stem = softmax.outputs[0].name or ""
    flat = new_node(
        names, "Flatten", [source], name=f"{stem}/Flatten", result=f"{stem}/flat", attributes={"axis": axis}
    )
    names.graph.insert_before(softmax, flat)
    softmax.replace_input_with(0, flat.outputs[0])
    sizes = _before(names, node, "Shape", [source], name=f"{stem}/Shape", result=f"{stem}/shape")
    sizes.dtype = ir.DataType.INT64
    inputs = [softmax.outputs[0], sizes]
    return _before(names, node, "Reshape", inputs, name=f"{stem}/Reshape", result=f"{stem}/unflattened")


def _transposed(names: Names, node: ir.Node, value: ir.Value | None, *, to_last: bool) -> ir.Value:
    """NHWC → NCHW or back; two axes of space, as all these ops have in ONNX Runtime."""
    assert value is not None
    permutation = (0, 2, 3, 1) if to_last else (0, 3, 1, 2)
    stem = value.name or ""
    return _before(
        names,
        node,
        "Transpose",
        [value],
        name=f"{stem}/Transpose",
        result=f"{stem}/{'NHWC' if to_last else 'NCHW'}",
        attributes={"perm": permutation},
    )
