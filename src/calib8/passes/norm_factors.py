"""Factors per channel out of normalizations of rows: scale and bias take them up, layers take them away.

    LayerNorm(x, γ, β) ─► t ─► layers W          LayerNorm(x, u·γ, u·β) ─► u·t ─► layers W/u

u are powers of two, so this is the same function bit for bit, and no node more. Between them Reshapes and
Transposes may stand that leave the last axis what it is, as windows of attention have them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from calib8.model.graph import constant, input_at, int_attribute, ints_attribute, rank
from calib8.ops.questions import has_length_1, is_standard, normalizes_rows, reshapes, transposes
from calib8.passes.fold_affine import Vector, set_constant
from calib8.passes.layer_channels import LayerChannels, layer_channels
from calib8.passes.place import place
from calib8.scheme import QuantScheme


@dataclass(frozen=True)
class NormExit:
    """What a normalization yields for matrix products alone.

    Attributes:
        norm: LayerNormalization or RMSNormalization of one axis, the last, with a constant scale.
        readers: Gemm and MatMul, all that read it, as it is or moved.
        tensors: its output, and what is moved of it.
    """

    norm: ir.Node
    readers: tuple[LayerChannels, ...]
    tensors: tuple[ir.Value, ...]

    @property
    def tensor(self) -> ir.Value:
        """The output of the normalization, [N, …, C]."""
        return self.norm.outputs[0]


def norm_exits(model: ir.Model, scheme: QuantScheme, keep_float: frozenset[str]) -> list[NormExit]:
    """Where factors can come out, in graph order.

    Args:
        model: a prepared float graph.
        scheme: the target; one with a scale per weight has none.
        keep_float: names of nodes that stay float.
    """
    if scheme.weight_granularity != "per-channel":
        return []
    norms = [node for node in model.graph if norm_scale(node) is not None]
    if not norms:
        return []
    placement = place(model, scheme, keep_float)
    quantized, found = placement.quantized_nodes(), []
    for node in norms:
        tensors, readers = list[ir.Value](), list[LayerChannels]()
        coded = node.outputs[0].name in placement.readers
        if coded and _follow(node.outputs[0], quantized, tensors, readers):
            found.append(NormExit(node, tuple(readers), tuple(tensors)))
    return found


def norm_scale(node: ir.Node) -> Vector | None:
    """The scale of a normalization of one axis, the last, float64 [C]; None for other nodes."""
    axes = rank(node.outputs[0])
    if not normalizes_rows(node) or has_length_1(node) or not is_standard(node) or axes is None:
        return None
    scale, bias = constant(input_at(node, 1)), constant(input_at(node, 2))
    last = int_attribute(node, "axis", -1) in (-1, axes - 1)
    if not last or scale is None or scale.dtype != np.float32 or scale.ndim != 1:
        return None
    if input_at(node, 2) is not None and (bias is None or bias.shape != scale.shape):
        return None
    return None if any(value.uses() for value in node.outputs[1:]) else scale.astype(np.float64)


def _follow(
    value: ir.Value, quantized: frozenset[str], tensors: list[ir.Value], readers: list[LayerChannels]
) -> bool:
    """Whether nothing but matrix products reads a value, moved or not; adds what is on the way."""
    tensors.append(value)
    if value.is_graph_output() or not value.uses():
        return False
    for use in value.uses():
        layer = layer_channels(use.node)
        if layer is not None and use.idx == 0 and not layer.layer.windows and use.node.name in quantized:
            readers.append(layer)
        elif not _keeps_channels(use.node) or not _follow(use.node.outputs[0], quantized, tensors, readers):
            return False
    return True


def _keeps_channels(node: ir.Node) -> bool:
    """Whether a node moves rows and leaves each as it is."""
    before, after = (None if value is None else value.shape for value in (node.inputs[0], node.outputs[0]))
    if before is None or after is None or not is_standard(node):
        return False
    if transposes(node):
        order = ints_attribute(node, "perm", ())
        return bool(order) and order[-1] == len(before) - 1
    return reshapes(node) and isinstance(before[-1], int) and before[-1] == after[-1]


def scale_norm(graph: ir.Graph, found: NormExit, factors: Vector) -> None:
    """``LayerNorm(γ, β) → t → layers``   becomes   ``LayerNorm(u·γ, u·β) → u·t → layers/u``, in place.

    Args:
        graph: holds the nodes.
        found: of this graph.
        factors: u, powers of two, float64 [C].
    """
    for index, word in ((1, "scale"), (2, "bias")):
        array = constant(input_at(found.norm, index))
        if array is not None:
            set_constant(graph, found.norm, index, array.astype(np.float64) * factors, word)
    for reader in found.readers:
        current = layer_channels(reader.node)
        assert current is not None
        current.scaled(inputs=1.0 / factors).write(graph)
