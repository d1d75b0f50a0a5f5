"""Nodes behind all that they read, as ONNX has them; some tools forget what graphs inside of nodes read.

If(c) { Shape(a) }, a = Relu(x)      →      a = Relu(x), If(c) { Shape(a) }
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
from onnx_ir.passes import common as ir_passes
from onnx_ir.traversal import RecursiveGraphIterator


def put_in_order(model: ir.Model) -> bool:
    """Sorts the nodes of a graph unless they are in order; whether they were not.

    ONNX Runtime sorts them itself, so files of its quantizer run that no reader of graphs takes.
    """
    if _are_in_order(model.graph):
        return False
    ir_passes.TopologicalSortPass()(model)
    return True


def _are_in_order(graph: ir.Graph) -> bool:
    places = {node: place for place, node in enumerate(graph)}
    return all(
        places.get(producer, -1) < place
        for node, place in places.items()
        for value in values_read(node)
        if (producer := value.producer()) is not None
    )


def values_read(node: ir.Node) -> Iterator[ir.Value]:
    """The inputs of a node, and all that graphs inside of it read from outside."""
    yield from (value for value in node.inputs if value is not None)
    yield from outer_values(node)


def outer_values(node: ir.Node) -> Iterator[ir.Value]:
    """What the graphs inside a node read from outside of them."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield from _from_outside(attribute.as_graph())


def _from_outside(graph: ir.Graph) -> Iterator[ir.Value]:
    inside = [graph]
    nodes = list(RecursiveGraphIterator(graph))
    for node in nodes:
        inside += [one.as_graph() for one in node.attributes.values() if one.type == ir.AttributeType.GRAPH]
    own = {value for one in inside for value in (*one.inputs, *one.initializers.values())}
    own |= {value for node in nodes for value in node.outputs}
    for node in nodes:
        yield from (value for value in node.inputs if value is not None and value not in own)
