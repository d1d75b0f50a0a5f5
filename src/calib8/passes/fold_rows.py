"""Folds what scales and shifts channels behind a MatMul that has its bias, or none, behind it.

    k · (x·W + b) + d   →  x·(k·W) + (k·b + d)     MatMul ─► Add ─► Mul: LayerScale
    BN(reshaped(x·W))   →  reshaped(x·(k·W) + d)   MatMul ─► Reshape ─► BatchNormalization: LeViT

k and d as in ``passes/fold_affine``, which has the layers that hold their own bias. Without this a factor per
channel stands between the sums of a layer and their codes.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from calib8.model.graph import (
    add_constant,
    constant,
    rank,
    sole_consumer,
    unique_name,
    unique_node_name,
)
from calib8.model.layer import Layer, layer_of
from calib8.ops.questions import adds, is_standard, normalizes
from calib8.passes.fold_affine import (
    Affine,
    Vector,
    batch_norm_affine,
    fold_into,
    node_affine,
    per_channel,
    set_constant,
    take_over,
)


def fold_behind_bias(model: ir.Model) -> int:
    """``Add(MatMul(x, W), b) → Mul k → y``   becomes   ``Add(MatMul(x, k·W), k·b) → y``

    So do Div, Add and Sub with a constant per channel. Left alone: results on the way that others read,
    weights and biases that are computed, constants that vary along other axes than the last one.

    Returns:
        Number of nodes folded.
    """
    folded = 0
    for node in list(model.graph):
        addition = next((one for one in map(_only_addition, node.inputs) if one is not None), None)
        if addition is None or sole_consumer(addition.outputs[0]) is not node:
            continue
        affine = node_affine(node, addition.outputs[0])
        if affine is not None and _fold_behind(model.graph, addition, affine):
            take_over(model.graph, addition, node)
            folded += 1
    return folded


def fold_behind_reshape(model: ir.Model) -> int:
    """``Reshape(MatMul(x, W)) → BatchNormalization``   becomes   ``Reshape(Add(MatMul(x, k·W), d))``

    The Reshape, or a Flatten, makes rows of channels of all places; results on the way have no other reader.

    Returns:
        BatchNormalizations folded.
    """
    folded = 0
    for node in list(model.graph):
        rows = _rows_before(node)
        affine = None if rows is None else batch_norm_affine(node)
        if rows is None or affine is None:
            continue
        layer, reshape = rows
        if not fold_into(model.graph, layer, Affine(affine.k, np.zeros(1))):
            continue
        _insert_shift(model.graph, layer.node.outputs[0], reshape, affine.d, node.name or "shift")
        take_over(model.graph, reshape, node)
        folded += 1
    return folded


def _only_addition(value: ir.Value | None) -> ir.Node | None:
    """The Add of a constant that yields a value and alone reads a MatMul's result; else None."""
    node = None if value is None else value.producer()
    if node is None or not adds(node) or not is_standard(node):
        return None
    summed = _summed(node)
    return node if summed is not None and sole_consumer(summed) is node else None


def _summed(addition: ir.Node) -> ir.Value | None:
    """The MatMul's result among what an Add reads; None where there is none, or it grows there."""
    for value in addition.inputs:
        layer = None if value is None else layer_of(value.producer())
        if value is not None and layer is not None and layer.stacks:
            return value if rank(value) is not None and rank(value) == rank(addition.outputs[0]) else None
    return None


def _fold_behind(graph: ir.Graph, addition: ir.Node, affine: Affine) -> bool:
    """Scales the layer before an Add and its constant; False (and nothing changed) where that cannot be."""
    data = _summed(addition)
    layer = None if data is None else layer_of(data.producer())
    if data is None or layer is None:
        return False
    place = 1 if addition.inputs[0] is data else 0
    weight, bias = constant(layer.weight), constant(addition.inputs[place])
    if weight is None or bias is None or bias.dtype != np.float32:
        return False
    vector = per_channel(np.asarray(bias, np.float64), layer, rank(data))
    channels = layer.channels(weight.shape)
    if vector is None or {vector.size, affine.d.size} - {1, channels}:
        return False
    if not fold_into(graph, layer, Affine(affine.k, np.zeros(1))):
        return False
    set_constant(graph, addition, place, np.broadcast_to(affine.k * vector + affine.d, channels), "bias")
    return True


def _rows_before(norm: ir.Node) -> tuple[Layer, ir.Node] | None:
    """The MatMul and the Reshape before a BatchNormalization of rows, where nothing else reads them."""
    if not normalizes(norm) or rank(norm.inputs[0]) != 2 or norm.inputs[0] is None:
        return None
    reshape = norm.inputs[0].producer()
    if reshape is None or reshape.op_type not in ("Flatten", "Reshape") or not is_standard(reshape):
        return None
    data = reshape.inputs[0]
    layer = None if data is None else layer_of(data.producer())
    if data is None or layer is None or not layer.stacks or data.shape is None:
        return None
    alone = sole_consumer(data) is reshape and sole_consumer(reshape.outputs[0]) is norm
    rows = norm.inputs[0].shape
    return (layer, reshape) if alone and rows is not None and data.shape[-1] == rows[-1] else None


def _insert_shift(graph: ir.Graph, data: ir.Value, reader: ir.Node, shift: Vector, name: str) -> None:
    """``Add(data, shift)`` between a value and the node that alone reads it."""
    addend = add_constant(graph, f"{name}.bias", shift.astype(np.float32))
    add = ir.node("Add", [data, addend], name=unique_node_name(graph, f"{name}_shift"))
    add.outputs[0].name = unique_name(graph, f"{data.name}_shifted")
    add.outputs[0].type, add.outputs[0].shape = data.type, data.shape
    graph.insert_before(reader, add)
    reader.replace_input_with(0, add.outputs[0])
