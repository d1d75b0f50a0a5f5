"""Factors per channel into functions of one tensor and out of them: the layers around take them up.

    layer W, b ─► t ─► f              layer s·W, s·b ─► s·t ─► Mul 1/s ─► f          into f
    f ─► t ─► layers W                f ─► Mul u ─► u·t ─► layers W/u                 out of f

s and u are powers of two, so both are the same function bit for bit. A target that computes a function of one
tensor as one (``QuantScheme.joins_pointwise``) has codes on s·t and u·t, and none
beside the Mul: a factor per channel that costs nothing. f may be any such function, f(s·t) = s·f(t) or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, constant, sole_consumer
from calib8.passes.fold_affine import Vector
from calib8.passes.layer_channels import LayerChannels, layer_channels
from calib8.passes.place import activation_behind, feeding_weights, is_pointwise, place
from calib8.scheme import QuantScheme


@dataclass(frozen=True)
class FunctionEntry:
    """A layer whose output one function reads.

    Attributes:
        layer: Conv or ConvTranspose.
        tensor: its output [N, C, …]; only the function reads it.
    """

    layer: LayerChannels
    tensor: ir.Value


@dataclass(frozen=True)
class FunctionExit:
    """What a function yields for convolutions alone, each with its own weights for each channel.

    Attributes:
        tensor: the output of the function, [N, C, …].
        readers: depthwise Conv, all that read it.
    """

    tensor: ir.Value
    readers: tuple[LayerChannels, ...]


def function_entries(model: ir.Model, scheme: QuantScheme, keep_float: frozenset[str]) -> list[FunctionEntry]:
    """Where factors can go in, in graph order.

    Not before what the target computes together with the layer's sums, nor where nothing but the tail of the
    graph follows, nor anywhere if the target has codes beside every op or one scale per weight.

    Args:
        model: a prepared float graph.
        scheme: the target.
        keep_float: names of nodes that stay float.
    """
    if not scheme.joins_pointwise or scheme.weight_granularity != "per-channel":
        return []
    placement, upstream = place(model, scheme, keep_float), feeding_weights(model)
    quantized = placement.quantized_nodes()
    found = []
    for node in model.graph:
        layer, function = layer_channels(node), sole_consumer(node.outputs[0])
        if layer is None or node.op_type not in ("Conv", "ConvTranspose") or function is None:
            continue
        joins = function in upstream and is_pointwise(function) and node.outputs[0].name in placement.readers
        if joins and {node.name, function.name} <= quantized:
            found.append(FunctionEntry(layer, node.outputs[0]))
    return found


def function_exits(model: ir.Model, scheme: QuantScheme, keep_float: frozenset[str]) -> list[FunctionExit]:
    """Where factors can come out, in graph order; arguments as for ``function_entries``."""
    if not scheme.joins_pointwise or scheme.weight_granularity != "per-channel":
        return []
    quantized = place(model, scheme, keep_float).quantized_nodes()
    found = []
    for node in model.graph:
        if node.name not in quantized or not is_pointwise(node) or _belongs_to_layer(node):
            continue
        readers = _depthwise_readers(node.outputs[0], quantized)
        if readers:
            found.append(FunctionExit(node.outputs[0], readers))
    return found


def _belongs_to_layer(node: ir.Node) -> bool:
    """Whether a layer, an addition or a pool computes the node together with its sums."""
    source = node.inputs[0].producer() if node.inputs[0] is not None else None
    return source is not None and activation_behind(source) is node


def _depthwise_readers(tensor: ir.Value, quantized: frozenset[str]) -> tuple[LayerChannels, ...]:
    """All readers of a tensor, none if one of them is anything but a depthwise Conv of codes."""
    if tensor.is_graph_output():
        return ()
    readers = []
    for use in tensor.uses():
        layer = layer_channels(use.node)
        if layer is None or use.idx != 0 or use.node.op_type != "Conv" or use.node.name not in quantized:
            return ()
        if not layer.depthwise:
            return ()
        readers.append(layer)
    return tuple(readers)


def scale_into(graph: ir.Graph, entry: FunctionEntry, factors: Vector) -> None:
    """``layer → t → f``   becomes   ``layer·s → t·s → Mul 1/s → f``, in place.

    The scaled tensor keeps the name of t.

    Args:
        graph: holds the layer.
        entry: of this graph.
        factors: s, powers of two, float64 [channels].
    """
    current = layer_channels(entry.layer.layer)
    assert current is not None
    current.scaled(outputs=factors).write(graph)
    _multiply(graph, entry.tensor, 1.0 / factors, "restored")


def scale_out_of(graph: ir.Graph, found: FunctionExit, factors: Vector) -> None:
    """``f → t → layers``   becomes   ``f → Mul u → t·u → layers/u``, in place.

    The scaled tensor takes over the name of t.

    Args:
        graph: holds the layers.
        found: of this graph.
        factors: u, powers of two, float64 [channels].
    """
    for reader in found.readers:
        current = layer_channels(reader.layer)
        assert current is not None
        current.scaled(inputs=1.0 / factors).write(graph)
    _multiply(graph, found.tensor, factors, "scaled")
    product, name = sole_consumer(found.tensor), found.tensor.name
    assert product is not None
    found.tensor.name, product.outputs[0].name = product.outputs[0].name, name


def _multiply(graph: ir.Graph, tensor: ir.Value, factors: Vector, what: str) -> None:
    """A Mul by a factor per channel between a tensor and all that reads it."""
    producer, names, base = tensor.producer(), Names(graph), f"{tensor.name}/{what}"
    assert producer is not None and tensor.shape is not None
    shape = (1, -1, *[1] * (len(tensor.shape) - 2))
    uses = list(tensor.uses())
    array = factors.astype(np.float32).reshape(shape)
    node = ir.node("Mul", [tensor, names.constant(f"{base}/factors", array)], name=names.node(base))
    result = node.outputs[0]
    result.name, result.type, result.shape = names.value(base), tensor.type, tensor.shape
    graph.insert_after(producer, node)
    for use in uses:
        use.node.replace_input_with(use.idx, result)


def multiplied_by(node: ir.Node) -> Vector | None:
    """The factors of a Mul that ``scale_into`` or ``scale_out_of`` made, float64 [channels]; else None."""
    factors = constant(node.inputs[1]) if node.op_type == "Mul" else None
    if factors is None or factors.ndim < 2 or factors.size != factors.shape[1]:
        return None
    vector: Vector = factors.astype(np.float64).reshape(-1)
    return vector


def powers_of_two(factors: Sequence[float] | Vector) -> Vector:
    """The largest powers of two that are not above the factors, which are 1 or more; float64."""
    powers: Vector = np.exp2(np.floor(np.log2(np.asarray(factors, np.float64))))
    return powers
