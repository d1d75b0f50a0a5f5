"""Factors per channel into functions of one tensor and out of them: the layers around take them up.

    layer W, b ─► t ─► f              layer s·W, s·b ─► s·t ─► Mul 1/s ─► f          into f
    f ─► t ─► layers W                f ─► Mul u ─► u·t ─► layers W/u                 out of f

s and u are powers of two, so both are the same function bit for bit. A target that computes a function of one
tensor as one (``QuantScheme.joins_pointwise``) has codes on s·t and u·t, and none
beside the Mul: a factor per channel that costs nothing. f may be any such function, f(s·t) = s·f(t) or not,
of one node or of several (SiLU, GELU).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, constant, sole_consumer
from calib8.ops.questions import multiplies
from calib8.passes.fold_affine import Vector
from calib8.passes.functions import (
    TensorFunction,
    activation_behind,
    computed_as_one,
    feeding_weights,
    is_pointwise,
)
from calib8.passes.layer_channels import LayerChannels, layer_channels
from calib8.passes.place import place
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
    """What a function yields for convolutions alone.

    Attributes:
        tensor: the output of the function, [N, C, …].
        readers: Conv, all that read it.
    """

    tensor: ir.Value
    readers: tuple[LayerChannels, ...]

    @property
    def depthwise(self) -> bool:
        """All of them have weights of their own for each channel."""
        return all(layer.depthwise for layer in self.readers)


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
    functions = {one.source: one for one in computed_as_one(model, scheme)}
    found = []
    for node in model.graph:
        layer, tensor = layer_channels(node), node.outputs[0]
        if layer is None or not layer.layer.windows:
            continue
        nodes = _only_function_behind(tensor, functions)
        joins = bool(nodes) and nodes <= upstream and tensor.name in placement.readers
        if joins and {node.name, *(one.name for one in nodes)} <= quantized:
            found.append(FunctionEntry(layer, tensor))
    return found


def _only_function_behind(
    tensor: ir.Value, functions: Mapping[ir.Value, TensorFunction]
) -> frozenset[ir.Node]:
    """The nodes that read a tensor first, all of one function; none where anything else reads it."""
    reader = sole_consumer(tensor)
    if reader is not None:
        return frozenset([reader] if is_pointwise(reader) else [])
    function = functions.get(tensor)
    return frozenset(function.nodes if function is not None and function.is_sole_reader else ())


def function_exits(model: ir.Model, scheme: QuantScheme, keep_float: frozenset[str]) -> list[FunctionExit]:
    """Where factors can come out, in graph order; arguments as for ``function_entries``."""
    if not scheme.joins_pointwise or scheme.weight_granularity != "per-channel":
        return []
    quantized = place(model, scheme, keep_float).quantized_nodes()
    results = {one.result for one in computed_as_one(model, scheme)}
    found = []
    for node in model.graph:
        function = is_pointwise(node) or node.outputs[0] in results
        if node.name not in quantized or not function or _belongs_to_layer(node):
            continue
        readers = _reading_layers(node.outputs[0], quantized)
        if readers:
            found.append(FunctionExit(node.outputs[0], readers))
    return found


def _belongs_to_layer(node: ir.Node) -> bool:
    """Whether a layer, an addition or a pool computes the node together with its sums."""
    source = node.inputs[0].producer() if node.inputs[0] is not None else None
    return source is not None and activation_behind(source) is node


def _reading_layers(tensor: ir.Value, quantized: frozenset[str]) -> tuple[LayerChannels, ...]:
    """All readers of a tensor, none if one of them is anything but a Conv of codes."""
    if tensor.is_graph_output():
        return ()
    readers = []
    for use in tensor.uses():
        layer = layer_channels(use.node)
        if layer is None or use.idx != 0 or not layer.layer.direct or use.node.name not in quantized:
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
    current = layer_channels(entry.layer.node)
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
        current = layer_channels(reader.node)
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
    factors = constant(node.inputs[1]) if multiplies(node) else None
    if factors is None or factors.ndim < 2 or factors.size != factors.shape[1]:
        return None
    vector: Vector = factors.astype(np.float64).reshape(-1)
    return vector


def powers_of_two(factors: Sequence[float] | Vector) -> Vector:
    """The largest powers of two that are not above the factors, which are 1 or more; float64."""
    powers: Vector = np.exp2(np.floor(np.log2(np.asarray(factors, np.float64))))
    return powers
