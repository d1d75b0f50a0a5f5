"""Which nodes of an int8 graph are in float when some are to be: more than those, as placement decides.

wanted in float          in float with it
layer                    the Relu or Clip that it computes
one of a chain           the whole chain
layer before a tail      the functions behind the last layer: they would read float values
all readers              what only moves values for them

    nodes that are int8 with none in float  −  nodes that are int8 with the wanted ones in float
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from calib8.model.graph import label
from calib8.model.metadata import PREFIX
from calib8.passes.place import place
from calib8.scheme import TARGETS, QuantScheme


def scheme_of(model: ir.Model) -> QuantScheme | None:
    """What the target of an int8 model takes, None where calib8 did not make it."""
    return TARGETS.get(model.metadata_props.get(f"{PREFIX}target", ""))


def float_nodes(bare: ir.Model, scheme: QuantScheme, wanted: Collection[str]) -> frozenset[str]:
    """Labels of the nodes that are in float where the wanted ones are, these included.

    Args:
        bare: an int8 graph without its codes, types and shapes inferred; not changed.
        scheme: the target.
        wanted: labels of nodes.
    """
    graph = bare.clone()
    for node in graph.graph:
        node.name = label(node)
    before = place(graph, scheme).quantized_nodes()
    return frozenset(wanted) | (before - place(graph, scheme, frozenset(wanted)).quantized_nodes())
