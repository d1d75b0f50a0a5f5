"""Quantized constants are stored as codes right in front of the DequantizeLinear that their reader reads.

W float → QuantizeLinear(s) → DequantizeLinear(s) → Conv    →   W int8 → DequantizeLinear(s) → Conv
W int8 → DequantizeLinear(axis 0) → Transpose → MatMul      →   Wᵀ int8 → DequantizeLinear(axis 1) → MatMul
"""

from __future__ import annotations

import math
from dataclasses import replace as changed
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.coded_array import CodedArray
from calib8.model.graph import Names, ints_attribute
from calib8.ops.groups import BINARY_OPS, JOINING, OPERAND_OPS, RESHAPING, WEIGHTED_OPS
from calib8.ops.questions import dequantizes, joins, quantizes, transposes
from calib8.passes.recurrent_nodes import WEIGHTS as RECURRENT_WEIGHTS
from calib8.passes.recurrent_nodes import is_recurrent
from calib8.program.lower.canonical.codings import CODE_TYPES, constant_codes, real_constant
from calib8.program.lower.canonical.edits import dequantized_constant, redirect, replace, static_shape
from calib8.qparams import QuantSpec, quantize
from calib8.quantization.qdq import codes_of

COMPUTING: Final = BINARY_OPS | OPERAND_OPS | JOINING | {"Where", "Gather"}
"""Ops that compute with a constant's values, beside those that have weights: codes may stand there."""


def rewrite(model: ir.Model) -> int:
    """Codes every quantized constant, takes moves of dequantized constants into them, keeps no other codes.

    Rounding is that of ONNX (ties to even). A Transpose, Reshape, Squeeze, Unsqueeze or Flatten behind a
    DequantizeLinear of constants moves the codes instead, and the axis of their scales with them. Constants
    that stand for parameters (of a BatchNormalization, a Clip …), int32 codes that are no bias, and codes
    with one scale per channel that are no weight become float.

    Returns:
        Nodes that became constants.
    """
    names = Names(model.graph)
    rewritten = 0
    for node in list(model.graph):
        if quantizes(node):
            rewritten += _fold_quantize(names, node)
        elif transposes(node) or node.op_type in RESHAPING:
            rewritten += _fold_move(names, node)
    for node in list(model.graph):
        if dequantizes(node):
            rewritten += _fold_dequantize(names, node)
    return rewritten


def _fold_quantize(names: Names, node: ir.Node) -> bool:
    """``QuantizeLinear(constant) → codes``, also where the constant is dequantized codes."""
    values, found, output = real_constant(node.inputs[0]), codes_of(node), node.outputs[0]
    if values is None or found.dtype not in CODE_TYPES or output.is_graph_output():
        return False
    if found.scale is None or found.zero_point is None or found.scale.ndim > 1:
        return False
    shape = [1] * values.ndim
    if found.scale.ndim:
        shape[found.axis] = -1
    scale, point = found.scale.astype(np.float32).reshape(shape), found.zero_point.reshape(shape)
    spec = QuantSpec(bits=found.dtype.bitwidth, signed=found.dtype != ir.DataType.UINT8)
    codes = quantize(values, scale, point, spec).reshape(values.shape)
    return redirect(output, names.constant(f"{output.name}/codes", codes))


def _fold_move(names: Names, node: ir.Node) -> bool:
    """``move(DQ(codes)) → DQ(moved codes)`` where the axis of the scales survives."""
    source = constant_codes(node.inputs[0])
    if source is None or node.outputs[0].is_graph_output():
        return False
    moved = _transposed(node, source) if transposes(node) else _reshaped(node, source)
    if moved is None:
        return False
    new = dequantized_constant(names, moved, f"{node.outputs[0].name}/codes")
    names.graph.insert_before(node, new)
    replace(names.graph, node.outputs[0], new.outputs[0])
    return True


def _transposed(node: ir.Node, source: CodedArray) -> CodedArray:
    axes = ints_attribute(node, "perm", tuple(reversed(range(source.values.ndim))))
    codes = np.ascontiguousarray(source.values.transpose(axes))
    return changed(source, values=codes, axis=None if source.axis is None else axes.index(source.axis))


def _reshaped(node: ir.Node, source: CodedArray) -> CodedArray | None:
    """None where the result's shape is unknown or the channels are split or merged with another axis."""
    shape = static_shape(node.outputs[0])
    if shape is None:
        return None
    codes = source.values.reshape(shape)
    if source.axis is None:
        return changed(source, values=codes)
    size, before = source.values.shape[source.axis], math.prod(source.values.shape[: source.axis])
    for axis, length in enumerate(shape):
        if length == size and math.prod(shape[:axis]) == before:
            return changed(source, values=codes, axis=axis)
    return None


def _fold_dequantize(names: Names, node: ir.Node) -> bool:
    """``DequantizeLinear(codes) → float`` for the readers that have no use for codes."""
    source, value = constant_codes(node.outputs[0]), node.outputs[0]
    if source is None:
        return False
    readers = [use for use in value.uses() if not _wants_codes(use.node, use.idx, source)]
    if not readers:
        return False
    real = names.constant(f"{value.name}/real", source.floats)
    for use in readers:
        use.node.replace_input_with(use.idx, real)
    return True


def _wants_codes(reader: ir.Node, place: int, source: CodedArray) -> bool:
    """A weight in 8 bits, a bias of any width, an operand with one scale."""
    eight_bits = source.values.dtype in (np.uint8, np.int8)
    if eight_bits and _weighs_recurrent(reader, place):
        return True
    sixteen_bits = source.values.dtype == np.int16
    if reader.op_type in WEIGHTED_OPS:
        return place == 2 or (eight_bits and (place == 1 or source.axis is None))
    return (eight_bits or sixteen_bits) and source.axis is None and reader.op_type in COMPUTING


def _weighs_recurrent(reader: ir.Node, place: int) -> bool:
    """W or R of an LSTM, GRU or RNN, or one direction of them: a Concat joins two."""
    if is_recurrent(reader):
        return place in RECURRENT_WEIGHTS
    behind = reader.outputs[0].uses() if joins(reader) else ()
    return bool(behind) and all(is_recurrent(use.node) and use.idx in RECURRENT_WEIGHTS for use in behind)
