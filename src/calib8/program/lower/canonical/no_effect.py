"""Nodes that yield what they read vanish.

Identity(x) → x,   Dropout(x) → x,   Cast(x) to the type that x has → x
"""

from __future__ import annotations

import onnx_ir as ir

from calib8.model.graph import constant, input_at, int_attribute


def rewrite(model: ir.Model) -> int:
    """Readers read the value itself; it takes over the name of a graph's output.

    Where that value is an input of the graph, a constant, or an output under another name, the node stays
    as an Identity.

    Returns:
        Nodes removed or turned into Identity.
    """
    rewritten = 0
    for node in list(model.graph):
        if node.domain == "" and _has_no_effect(node):
            rewritten += _remove(model.graph, node) or _to_identity(node)
    return rewritten


def _has_no_effect(node: ir.Node) -> bool:
    source = node.inputs[0] if node.inputs else None
    if source is None or any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        return False
    if node.op_type == "Dropout":
        training = input_at(node, 2)
        chosen = constant(training)
        return training is None or (chosen is not None and not chosen.any())
    if node.op_type == "Cast":
        return source.dtype is not None and source.dtype == int_attribute(node, "to", 0)
    return node.op_type == "Identity"


def _remove(graph: ir.Graph, node: ir.Node) -> bool:
    source, result = node.inputs[0], node.outputs[0]
    assert source is not None
    named = result.is_graph_output()
    if named and (source.producer() is None or source.is_graph_output()):
        return False
    name = result.name
    result.replace_all_uses_with(source, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    if named:
        source.name = name
    return True


def _to_identity(node: ir.Node) -> bool:
    """What has to stay for its name says what it is; False where it did already."""
    if node.op_type == "Identity":
        return False
    node.op_type = "Identity"
    node.attributes.clear()
    node.resize_inputs(1)
    node.resize_outputs(1)
    return True
