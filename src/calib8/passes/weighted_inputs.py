"""Q/DQ on the inputs of layers and averaging pools, and on one side of additions: what TensorRT fuses."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from calib8.model.graph import activation_inputs, rank, sole_consumer
from calib8.ops.groups import AVERAGE_POOLS, WEIGHTED_OPS
from calib8.ops.questions import adds
from calib8.passes.decisions import NodeDecision


def weighted_inputs(
    decisions: Iterable[NodeDecision], quantized: Iterable[ir.Node]
) -> dict[str, frozenset[str] | None]:
    """Tensor that carries Q/DQ → names of the nodes that read its dequantized form.

    The ops between them are listed as quantized where the runtime moves the codes through them.
    """
    readers: dict[str, set[str]] = {}
    by_name = {node.name: node for node in quantized}
    for decision in decisions:
        node = by_name.get(decision.node)
        if node is None:
            continue
        for value in _wanted_inputs(node):
            readers.setdefault(value.name or "", set()).add(decision.node)
    return {name: frozenset(nodes) for name, nodes in readers.items()}


def _wanted_inputs(node: ir.Node) -> list[ir.Value]:
    """Inputs of a node that get Q/DQ in the ``weighted-inputs`` placement."""
    if adds(node):
        return _skip_branches(node)
    if node.op_type in WEIGHTED_OPS | AVERAGE_POOLS:
        return list(activation_inputs(node))[:1]
    return []


def _skip_branches(node: ir.Node) -> list[ir.Value]:
    """Inputs of an Add that need Q/DQ: all but one that a weighted layer yields for this Add alone.

    The runtime adds the other branch to that layer's sums before rounding.
    """
    values = [value for value in activation_inputs(node) if rank(value) != 0]
    if len(values) != 2:
        return []
    for value in reversed(values):
        producer = value.producer()
        if producer is not None and producer.op_type in WEIGHTED_OPS and sole_consumer(value) is node:
            return [other for other in values if other is not value]
    return values
