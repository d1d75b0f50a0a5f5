"""Folds what scales and shifts channels into the layer before it.

    y = k_c · (W_c ∗ x + b_c) + d_c   →   W'_c = k_c · W_c,   b'_c = k_c · b_c + d_c

BatchNormalization: k = γ / √(σ² + ε), d = β − μ·k. Mul, Div, Add and Sub with a constant per channel
are the same with k or d alone. Computed in float64, stored in float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import (
    add_constant,
    constant,
    float_attribute,
    input_at,
    int_attribute,
    rank,
    sole_consumer,
)
from calib8.model.layer import Layer, layer_of
from calib8.ops.groups import NEUTRAL
from calib8.ops.questions import normalizes

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Affine:
    """``y = k · x + d`` per channel; ``k`` and ``d`` have C elements or one."""

    k: Vector
    d: Vector


def fold_affine(model: ir.Model) -> int:
    """Conv, ConvTranspose, Gemm, MatMul followed by BatchNormalization or per-channel arithmetic → one node.

    ``Conv(x, W, b) → BatchNormalization → y``   becomes   ``Conv(x, k·W, k·b + d) → y``

    The value keeps the name of the folded node's output. Left alone: a layer read by several nodes,
    weights that are not constant, constants that vary along other axes than the channels, a shift
    behind a MatMul whose input has not two axes (there is no bias to put it into).

    Returns:
        Number of nodes folded.
    """
    folded = 0
    for node in list(model.graph):
        layer = _layer_before(node)
        if layer is None:
            continue
        affine = node_affine(node, layer.node.outputs[0])
        if affine is not None and fold_into(model.graph, layer, affine):
            take_over(model.graph, layer.node, node)
            folded += 1
    return folded


def fold_gemm_factors(model: ir.Model) -> int:
    """``Gemm(x, W, C, alpha, beta) → Gemm(x, alpha·W, beta·C)``; a C that is one number becomes a vector.

    Returns:
        Number of nodes rewritten; one with computed weights or a matrix C stays.
    """
    rewritten = 0
    for node in model.graph:
        layer = layer_of(node)
        if layer is None or layer.windows:
            continue
        bias = constant(layer.bias)
        if layer.factors == (1.0, 1.0) and (bias is None or bias.ndim > 0):
            continue
        rewritten += fold_into(model.graph, layer, Affine(np.ones(1), np.zeros(1)))
    return rewritten


def batch_norm_affine(node: ir.Node) -> Affine | None:
    """k and d of a BatchNormalization with constant parameters in inference mode."""
    parameters = [constant(value) for value in node.inputs[1:5]]
    if any(array is None for array in parameters) or int_attribute(node, "training_mode", 0):
        return None
    gamma, beta, mean, variance = (np.asarray(array, np.float64) for array in parameters)
    k = gamma / np.sqrt(variance + float_attribute(node, "epsilon", 1e-5))
    return Affine(k, beta - mean * k)


def node_affine(node: ir.Node, data: ir.Value) -> Affine | None:
    """What ``node`` does to the channels of its input ``data``, None if it is no such node."""
    if normalizes(node):
        along_channels = node.inputs[0] is data and _normalizes_channels(data)
        return batch_norm_affine(node) if along_channels else None
    if node.op_type not in NEUTRAL or len(node.inputs) != 2:
        return None
    data_is_left = node.inputs[0] is data
    array = constant(node.inputs[1] if data_is_left else node.inputs[0])
    producer = data.producer()
    if array is None or producer is None:
        return None
    vector = per_channel(np.asarray(array, np.float64), layer_of(producer), rank(data))
    return None if vector is None else _arithmetic(node.op_type, vector, data_is_left)


def _normalizes_channels(data: ir.Value) -> bool:
    """Whether axis 1, for which a BatchNormalization has parameters, holds the channels of a layer."""
    layer, axes = layer_of(data.producer()), rank(data)
    return axes is None or (axes - 1 if layer is None else layer.channel_axis(axes)) == 1


def _arithmetic(op_type: str, vector: Vector, data_is_left: bool) -> Affine | None:
    one, zero = np.ones(1), np.zeros(1)
    if op_type == "Add":
        return Affine(one, vector)
    if op_type == "Mul":
        return Affine(vector, zero)
    if op_type == "Sub":
        return Affine(one, -vector) if data_is_left else Affine(-one, vector)
    if data_is_left and np.all(vector != 0):
        return Affine(1.0 / vector, zero)
    return None


def per_channel(array: Vector, layer: Layer | None, axes: int | None) -> Vector | None:
    """The constant as a vector over output channels, None if it varies along another axis or adds one."""
    if array.size == 1 and (axes is None or array.ndim <= axes):
        return array.reshape(-1)
    if axes is None or array.ndim > axes:
        return None
    shape = (1,) * (axes - array.ndim) + array.shape
    channels = axes - 1 if layer is None else layer.channel_axis(axes)
    others = [size for axis, size in enumerate(shape) if axis != channels]
    return array.reshape(-1) if all(size == 1 for size in others) else None


def _layer_before(node: ir.Node) -> Layer | None:
    """The layer whose only reader is ``node``."""
    for value in node.inputs:
        layer = None if value is None else layer_of(value.producer())
        if layer is not None and value is not None:
            return layer if sole_consumer(value) is node else None
    return None


def fold_into(graph: ir.Graph, layer: Layer, affine: Affine) -> bool:
    """Rewrites the constants of ``layer``; False (and nothing changed) where that is impossible."""
    node, weight, bias = layer.node, constant(layer.weight), bias_vector(layer)
    if weight is None or bias is None or weight.dtype != np.float32 or weight.ndim < 2:
        return False
    channels = layer.channels(weight.shape)
    if affine.k.size not in (1, channels) or affine.d.size not in (1, channels):
        return False
    becomes_gemm = not layer.takes_bias and bool(np.any(affine.d != 0))
    if becomes_gemm and not _can_take_bias(layer, weight):
        return False
    k, d = np.broadcast_to(affine.k, channels), np.broadcast_to(affine.d, channels)
    new_bias = k * np.broadcast_to(bias, channels) + d
    exact = weight.astype(np.float64) * layer.factors[0]
    set_constant(graph, node, 1, _scale_channels(layer, exact, k), "weight")
    if becomes_gemm:
        node.op_type = "Gemm"
    if layer.takes_bias and (len(node.inputs) > 2 or np.any(new_bias != 0)):
        set_constant(graph, node, 2, new_bias, "bias")
    if not layer.windows:
        for name in ("alpha", "beta"):
            node.attributes.pop(name, None)
    return True


def output_channels(layer: ir.Node, weight: npt.NDArray[np.generic]) -> int:
    """Number of output channels of a layer with this weight."""
    return Layer(layer).channels(weight.shape)


def _scale_channels(layer: Layer, weight: Vector, k: Vector) -> Vector:
    channels = layer.by_channel(weight)
    return layer.in_layout(channels * k.reshape(*channels.shape[:2], 1, 1), weight.shape)


def bias_vector(layer: Layer) -> Vector | None:
    """Bias · ``beta`` as a vector (one zero where there is none), None where it is computed or a matrix."""
    if layer.bias is None:
        return np.zeros(1)
    array = constant(layer.bias)
    if array is None or array.ndim > 2 or (array.ndim == 2 and array.shape[0] != 1):
        return None
    return np.asarray(array, np.float64).reshape(-1) * layer.factors[1]


def _can_take_bias(layer: Layer, weight: npt.NDArray[np.generic]) -> bool:
    """A MatMul of two matrices can become a Gemm."""
    return weight.ndim == 2 and rank(layer.input) == 2


def set_constant(graph: ir.Graph, node: ir.Node, index: int, array: Vector, suffix: str) -> None:
    """Puts an array, stored as float32, in the place of input ``index`` of ``node``.

    A constant that only this node reads keeps its name, a shared one stays for its other readers.
    """
    old, base = input_at(node, index), f"{node.name}.{suffix}"
    if old is not None and len(list(old.uses())) == 1 and not old.is_graph_output():
        base = old.name or base
        graph.initializers.pop(base, None)
    value = add_constant(graph, base, array.astype(np.float32))
    if index >= len(node.inputs):
        node.resize_inputs(index + 1)
    node.replace_input_with(index, value)


def take_over(graph: ir.Graph, layer: ir.Node, node: ir.Node) -> None:
    """``layer`` yields the value that ``node`` yielded, under its name."""
    kept, gone = layer.outputs[0], node.outputs[0]
    name, shape = gone.name, gone.shape
    gone.replace_all_uses_with(kept, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    kept.name = name
    kept.shape = shape if shape is not None else kept.shape
