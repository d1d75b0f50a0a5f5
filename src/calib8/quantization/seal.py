"""Layers that are to stay float, kept from a runtime that would make them int8 by itself.

… → DequantizeLinear → Conv → Relu → QuantizeLinear → …        weight and bias float
… → DequantizeLinear → Sum → Conv → Relu → QuantizeLinear → …

ONNX Runtime 1.21 and newer (its rewrite ``WeightBiasQuantization``) takes the first form for an int8 layer
of which somebody forgot the weights, and rounds them: one scale for all, whatever that does to them. So it
does with weights that are computed from constants. It looks for a DequantizeLinear right before the layer. A
Sum of one tensor is that tensor, and no rewrite removes it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import onnx_ir as ir

from calib8.model.graph import Names, constant, known_sizes
from calib8.ops.groups import WEIGHTED_OPS
from calib8.quantization.qdq import QUANTIZERS, dequantizer, label

SEALED_OPS: Final = WEIGHTED_OPS - {"MatMul"}
"""Ops whose weights ONNX Runtime quantizes."""


def is_seal(node: ir.Node) -> bool:
    """A Sum that hands its only input on."""
    return node.op_type == "Sum" and len(node.inputs) == 1


def seal_float_layers(model: ir.Model, only: Collection[str] | None = None) -> int:
    """Puts a Sum before every layer with a float weight that reads dequantized codes; the number of layers.

    Args:
        model: a QDQ graph; changed in place.
        only: labels of the layers that are looked at, None: all.
    """
    names, sealed = Names(model.graph), dict[ir.Value, ir.Value]()
    count = 0
    for node in list(model.graph):
        source = node.inputs[0] if node.inputs else None
        if node.op_type not in SEALED_OPS or source is None or dequantizer(source) is None:
            continue
        if not _is_float_constant(node.inputs[1]) or (only is not None and label(node) not in only):
            continue
        if source not in sealed:
            sealed[source] = _summed(model.graph, names, source, node)
        node.replace_input_with(0, sealed[source])
        count += 1
    return count


def _is_float_constant(weight: ir.Value | None) -> bool:
    """A constant, or one for ONNX Runtime, which folds what constants alone lead to; codes lead to none."""
    waiting = [weight]
    while waiting:
        value = waiting.pop()
        if value is None or constant(value) is not None:
            continue
        maker = value.producer()
        if maker is None or maker.op_type in QUANTIZERS:
            return False
        waiting.extend(maker.inputs)
    return weight is not None


def _summed(graph: ir.Graph, names: Names, source: ir.Value, before: ir.Node) -> ir.Value:
    name = names.value(f"{source.name}/float")
    output = ir.Value(name=name, type=source.type, shape=known_sizes(source.shape))
    graph.insert_before(
        before, ir.Node("", "Sum", [source], outputs=[output], name=names.node(f"{label(before)}/Sum"))
    )
    return output
