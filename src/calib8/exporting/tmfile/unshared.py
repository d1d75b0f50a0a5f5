"""Constants that become other codes for each reader, one for each of them.

    y = Conv(x, w, b)   z = Conv(y, w, b)      b becomes two: its scale is that of w times that of x or of y

Weights stay one constant where layers share them: their codes depend on nothing else. Tengine's tool puts
what is shared into codes twice, the second time codes in place of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from calib8.model.graph import first_free
from calib8.tmfile.graph import CONST, Graph, Node
from calib8.tmfile.kinds import LAYERS

WEIGHTS: Final = 1
"""Place of the weights among the inputs of a layer; the bias is behind them."""


def unshared(graph: Graph) -> tuple[Graph, Mapping[str, str]]:
    """The graph in which each bias belongs to one layer, and no weights are anything else too.

    Args:
        graph: a float one.

    Returns:
        The same graph where nothing is shared, and name of each new constant → that of the first one. New
        constants have nodes before all others, and are the last tensors.
    """
    taken = {tensor.name for tensor in graph.tensors}
    tensors, nodes, origins = list(graph.tensors), list(graph.nodes), dict[str, str]()
    stands: dict[tuple[int, str], int] = {}
    known: set[int] = set()
    for number, node in enumerate(graph.nodes):
        reads = list(node.inputs)
        for at, place in enumerate(node.inputs):
            if graph.tensors[place].role != "const":
                continue
            use = place, _use(node, number, at)
            if use not in stands and place in known:
                name = first_free(graph.tensors[place].name or f"tensor_{place}", taken)
                taken.add(name)
                origins[name] = graph.tensors[place].name
                tensors.append(replace(graph.tensors[place], name=name))
            stands.setdefault(use, len(tensors) - 1 if place in known else place)
            known.add(place)
            reads[at] = stands[use]
        nodes[number] = replace(node, inputs=tuple(reads))
    if not origins:
        return graph, origins
    first = len(graph.tensors)
    fresh = [Node(tensor.name, CONST, (), (first + at,)) for at, tensor in enumerate(tensors[first:])]
    inputs, outputs = (
        tuple(len(fresh) + place for place in ports) for ports in (graph.inputs, graph.outputs)
    )
    made = replace(graph, tensors=tuple(tensors), nodes=(*fresh, *nodes), inputs=inputs, outputs=outputs)
    return made, origins


def _use(node: Node, number: int, at: int) -> str:
    """What a constant is for a node: uses of one name give it the same codes."""
    if node.op not in LAYERS:
        return "slopes" if node.op == "PReLU" else "operand"
    return "weights" if at <= WEIGHTS else f"bias of {number}"
