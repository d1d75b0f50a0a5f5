"""Which nodes a layer with weights follows."""

from __future__ import annotations

import onnx_ir as ir

from calib8.ops.groups import WEIGHTED_OPS


def feeding_weights(model: ir.Model) -> set[ir.Node]:
    """Nodes from which a Conv, ConvTranspose, Gemm or MatMul can be reached."""
    reaching: set[ir.Node] = set()
    for node in reversed(list(model.graph)):
        consumers = [use.node for value in node.outputs for use in value.uses()]
        if any(consumer.op_type in WEIGHTED_OPS or consumer in reaching for consumer in consumers):
            reaching.add(node)
    return reaching
