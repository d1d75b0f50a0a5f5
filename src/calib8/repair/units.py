"""Which nodes go into float together.

unit    a quantized node with the activations that runtimes compute with it: Conv → Relu; functions of one
        tensor that a target computes as one are in one unit
work    multiply-accumulates of a unit + elements that it yields
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import onnx_ir as ir

from calib8.model.runtime import Arrays
from calib8.model.work import elements, macs_or_weights, with_shapes_of
from calib8.passes.place import Placement
from calib8.scheme import FUNCTION_OPS, UNARY_OPS


@dataclass(frozen=True)
class Unit:
    """Nodes that are float or int8 together.

    Attributes:
        nodes: their names, in graph order; the first one is what the unit is called by.
        macs: multiply-accumulates.
        work: these and the elements that the unit yields.
    """

    nodes: tuple[str, ...]
    macs: int
    work: int


def units_of(model: ir.Model, placement: Placement, sample: Arrays) -> tuple[Unit, ...]:
    """The units of the quantized nodes, in graph order.

    Args:
        model: the prepared float graph.
        placement: which of its nodes are quantized.
        sample: inputs of one run, for the shapes.
    """
    quantized, groups = placement.quantized_nodes(), dict[str, list[ir.Node]]()
    home: dict[str, str] = {}
    before = {name: one for chain in placement.chains for one, name in pairwise(chain)}
    as_one = {name: frozenset(chain) for chain in placement.chains for name in chain}
    for node in with_shapes_of(model, sample).graph:
        name = node.name or ""
        if name not in quantized:
            continue
        source = node.inputs[0]
        function = node.op_type in UNARY_OPS | FUNCTION_OPS
        producer = source.producer() if function and source is not None else None
        joins = producer is not None and producer.name in home and _alone_reads(node, source, as_one)
        joined_to = before.get(name) or (producer.name if joins and producer is not None else None)
        home[name] = home[joined_to] if joined_to else name
        groups.setdefault(home[name], []).append(node)
    return tuple(_unit(nodes) for nodes in groups.values())


def _alone_reads(node: ir.Node, source: ir.Value | None, as_one: Mapping[str, frozenset[str]]) -> bool:
    """Whether a node, with what is computed as one with it, is all that reads a tensor."""
    together = as_one.get(node.name or "", frozenset({node.name}))
    readers = () if source is None or source.is_graph_output() else source.uses()
    return bool(readers) and all(use.node.name in together for use in readers)


def _unit(nodes: list[ir.Node]) -> Unit:
    counted = sum(macs_or_weights(node) for node in nodes)
    yielded = sum(elements(value) or 0 for node in nodes for value in node.outputs)
    return Unit(tuple(node.name or "" for node in nodes), counted, counted + yielded)
