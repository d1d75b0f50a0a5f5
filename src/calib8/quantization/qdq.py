"""Questions asked of a quantized ONNX graph: which codes stand behind a value, and where results go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes
from onnx_ir.traversal import RecursiveGraphIterator

from calib8.coded_array import CodedArray
from calib8.model.graph import CONTRIB, constant, input_at, int_attribute
from calib8.model.graph import label as label
from calib8.model.infer_shapes import infer_shapes
from calib8.model.layer import Layer, layer_of
from calib8.ops.groups import CLAMPS, CODED_CELLS, INTEGER_OPS
from calib8.ops.groups import QUANTIZERS as QUANTIZERS
from calib8.ops.questions import dequantizes, joins, quantizes
from calib8.passes.recurrent_nodes import WEIGHTS, is_recurrent
from calib8.scheme import CODE_PRESERVING_OPS

ACTIVATIONS: Final = CLAMPS

NIBBLES: Final = {ir.DataType.INT4: np.int8, ir.DataType.UINT4: np.uint8}
"""Codes of 4 bits → bytes that hold them."""


@dataclass(frozen=True)
class Codes:
    """What one QuantizeLinear or DequantizeLinear says of its codes.

    Attributes:
        node: the node.
        scale: float64, empty shape per-tensor, [C] per-channel; None where it is computed.
        zero_point: int64, zeros of the scale's shape where omitted; None where it is computed.
        dtype: type of the codes, None where nothing tells it.
        axis: channel axis as stated (1 if nothing is stated), may be negative.
    """

    node: ir.Node
    scale: npt.NDArray[np.float64] | None
    zero_point: npt.NDArray[np.int64] | None
    dtype: ir.DataType | None
    axis: int

    @property
    def per_tensor(self) -> bool:
        """One scale for the whole tensor."""
        return self.scale is None or self.scale.size == 1

    def same_parameters(self, other: Codes) -> bool:
        """Equal scales and zero points (and axis, per-channel); computed ones count as equal."""
        if self.scale is None or other.scale is None or self.zero_point is None or other.zero_point is None:
            return True
        scales, points = self.scale.reshape(-1), self.zero_point.reshape(-1)
        equal = np.array_equal(scales, other.scale.reshape(-1), equal_nan=True)
        equal = equal and np.array_equal(points, other.zero_point.reshape(-1))
        return equal and (self.per_tensor or self.axis == other.axis)

    def __str__(self) -> str:
        """For messages: scale and zero point, or how many of them."""
        if self.scale is None or self.zero_point is None:
            return "computed scale"
        if self.scale.size != 1:
            return f"{self.scale.size} scales"
        return f"scale {self.scale.item():.6g}, zero point {self.zero_point.reshape(-1)[0]}"


def readable_copy(model: ir.Model) -> ir.Model:
    """A copy with constants as initializers that nothing else feeds, without dead nodes, shapes inferred."""
    copy = model.clone()
    ir_passes.RemoveInitializersFromInputsPass()(copy)
    ir_passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(copy)
    ir_passes.RemoveUnusedNodesPass()(copy)
    infer_shapes(copy)
    return copy


def nodes(model: ir.Model) -> Iterator[ir.Node]:
    """All nodes, those in branches and loop bodies included."""
    yield from RecursiveGraphIterator(model.graph)


def is_integer_op(node: ir.Node) -> bool:
    """An op that computes with codes itself (QOperator form, dynamic quantization)."""
    return node.op_type.startswith("QLinear") or node.op_type in INTEGER_OPS


def is_coded_cell(node: ir.Node) -> bool:
    """A recurrent layer of ONNX Runtime with codes of its weights, between float tensors."""
    return node.domain == CONTRIB and node.op_type in CODED_CELLS


def hides_floats(node: ir.Node) -> bool:
    """An op between codes, of which the graph names no float tensors."""
    return is_integer_op(node) and not is_coded_cell(node)


def holds_codes(model: ir.Model) -> bool:
    """Some node makes codes of activations, or computes from codes: the model is quantized.

    A recurrent layer whose weights are stored codes makes codes of what it multiplies them with.
    """
    return any(_works_on_codes(node) or has_coded_weights(node) for node in nodes(model))


def has_coded_weights(node: ir.Node) -> bool:
    """A recurrent layer whose weights are stored codes, those of two directions perhaps joined."""
    if not is_recurrent(node):
        return False
    return all(_is_stored_in_codes(part) for place in WEIGHTS for part in joined(input_at(node, place)))


def joined(value: ir.Value | None) -> tuple[ir.Value | None, ...]:
    """What a Concat joins to a value; any other value itself."""
    producer = None if value is None else value.producer()
    return (value,) if producer is None or not joins(producer) else tuple(producer.inputs)


def _works_on_codes(node: ir.Node) -> bool:
    """Dequantizing what is stored is no such work: float models may keep weights in less space."""
    if not dequantizes(node):
        return quantizes(node) or is_integer_op(node)
    source = node.inputs[0]
    producer = None if source is None else source.producer()
    is_stored = source is None or source.const_value is not None
    return not is_stored and (producer is None or producer.op_type != "Constant")


def codes_of(node: ir.Node) -> Codes:
    """Scale, zero point and type of a QuantizeLinear or DequantizeLinear."""
    scale, point = constant(node.inputs[1]), input_at(node, 2)
    zero_point = constant(point)
    if point is None and scale is not None:
        zero_point = np.zeros(scale.shape, np.int64)
    return Codes(
        node,
        None if scale is None else scale.astype(np.float64),
        None if zero_point is None else zero_point.astype(np.int64),
        code_type(node.outputs[0]) if quantizes(node) else code_type(node.inputs[0]),
        int_attribute(node, "axis", 1),
    )


def constant_codes_of(node: ir.Node) -> CodedArray | None:
    """The constant that a DequantizeLinear reads, with float32 scales and int64 zero points.

    Codes of 4 bits are given as bytes. None where something of it is computed, where the codes are no
    integers, or have a scale per block; and where scales do not fit or are not above 0.
    """
    stored, found = constant(node.inputs[0]), codes_of(node)
    if stored is not None and found.dtype in NIBBLES:
        stored = stored.astype(NIBBLES[found.dtype])
    if stored is None or found.scale is None or found.zero_point is None or stored.dtype.kind not in "iu":
        return None
    scale = found.scale.astype(np.float32)
    if scale.ndim > 1 or found.zero_point.size != scale.size or not np.all(scale > 0):
        return None
    axis = found.axis % max(stored.ndim, 1) if scale.ndim else None
    if scale.shape != (() if axis is None else stored.shape[axis : axis + 1]):
        return None
    return CodedArray(stored, scale, found.zero_point.reshape(scale.shape), axis)


def code_type(value: ir.Value | None) -> ir.DataType | None:
    """Type of a tensor of codes: of the constant, of its QuantizeLinear, or as the graph states it."""
    if value is None:
        return None
    producer = value.producer()
    if producer is None or not quantizes(producer):
        return stored_type(value)
    stated = int_attribute(producer, "output_dtype", 0)
    if stated:
        return ir.DataType(stated)
    point = input_at(producer, 2)
    return ir.DataType.UINT8 if point is None else stored_type(point)


def stored_type(value: ir.Value) -> ir.DataType | None:
    """Type of a constant's data, or as the graph states it for other values."""
    return value.dtype if value.const_value is None else value.const_value.dtype


def dequantizer(value: ir.Value | None) -> ir.Node | None:
    """The DequantizeLinear that yields a value, None where another node does."""
    producer = None if value is None else value.producer()
    return producer if producer is not None and dequantizes(producer) else None


def codes_behind(value: ir.Value | None) -> Codes | None:
    """The codes a float value stands for, also through ops that only move them; None for a float value."""
    while value is not None:
        node = dequantizer(value)
        if node is not None:
            return codes_of(node)
        producer = value.producer()
        value = (
            producer.inputs[0] if producer is not None and producer.op_type in CODE_PRESERVING_OPS else None
        )
    return None


def float_origin(value: ir.Value) -> ir.Value:
    """The value before Q and DQ if there are such, else the value itself."""
    node = dequantizer(value)
    source = None if node is None or node.inputs[0] is None else node.inputs[0].producer()
    if source is None or not quantizes(source) or source.inputs[0] is None:
        return value
    return source.inputs[0]


def float_inputs(node: ir.Node) -> list[ir.Value]:
    """The float32 inputs of a node, constants included, parameters (the limits of a Clip …) not."""
    if node.op_type in ACTIVATIONS or node.op_type in CODE_PRESERVING_OPS:
        inputs = list(node.inputs[:1])
    else:
        inputs = list(node.inputs)
    return [value for value in inputs if value is not None and value.dtype in (None, ir.DataType.FLOAT)]


def result_quantizers(node: ir.Node) -> tuple[list[ir.Node], ir.Node | None]:
    """The QuantizeLinear nodes that read a node's first output, and the Relu or Clip in between, if any."""
    readers = [use.node for use in node.outputs[0].uses()]
    if len(readers) == 1 and readers[0].op_type in ACTIVATIONS and not node.outputs[0].is_graph_output():
        behind = [use.node for use in readers[0].outputs[0].uses()]
        return [reader for reader in behind if quantizes(reader)], readers[0]
    return [reader for reader in readers if quantizes(reader)], None


def weighted_layers(model: ir.Model) -> Iterator[Layer]:
    """Conv, ConvTranspose, Gemm and MatMul whose weight is a constant, float or in codes."""
    for layer in map(layer_of, nodes(model)):
        if layer is not None and (constant(layer.weight) is not None or weight_is_coded(layer.node)):
            yield layer


def weight_is_coded(layer: ir.Node) -> bool:
    """The weight comes from constant codes, or from a float constant that passes Q and DQ."""
    return _is_stored_in_codes(layer.inputs[1])


def _is_stored_in_codes(value: ir.Value | None) -> bool:
    codes = codes_behind(value)
    if codes is None:
        return False
    stored = codes.node.inputs[0]
    origin = None if stored is None else stored.producer()
    source = stored if origin is None else origin.inputs[0]
    return constant(source) is not None


def output_axis(layer: ir.Node, axes: int) -> int:
    """Output-channel axis of a layer's weight with so many axes."""
    return Layer(layer).output_axis(axes)


def activation_values(node: ir.Node) -> list[ir.Value]:
    """Inputs of a node that may be float and do not come from constants, neither float nor in codes."""
    return [value for value in node.inputs if value is not None and _changes(value)]


def _changes(value: ir.Value) -> bool:
    node = dequantizer(value)
    if node is not None:
        return constant(node.inputs[0]) is None
    return constant(value) is None and value.dtype in (None, ir.DataType.FLOAT)
