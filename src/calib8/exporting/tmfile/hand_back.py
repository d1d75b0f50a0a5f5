"""Whose scale every tensor of an int8 or uint8 tmfile takes, as Tengine's tool decides it.

    x ─ Flatten ─ y        x takes the scale of y, if nothing else reads x, and so on back from there

Source: OAID Tengine, quant_tool (``quant_save_graph.cpp``).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from calib8.tmfile.graph import Graph, Node

HANDS_BACK: Final = frozenset({"Flatten", "Reshape", "Squeeze", "Clip"})
"""Operators whose result takes its scale back to what they read; so do max pools and ReLU without a slope,
and Slice for what lies right before it."""


def own_scales(graph: Graph) -> dict[int, str]:
    """The name of every input and computed tensor, by place: each keeps its scale."""
    return {place: graph.tensors[place].name for place in range(len(graph.tensors)) if is_live(graph, place)}


def scale_sources(graph: Graph, *, slices: bool = True) -> dict[int, str]:
    """The name of the tensor whose scale an input or computed tensor takes, by place.

    From the last tensor to the first: what ``HANDS_BACK`` computes gives its scale to what it reads, if that
    has fewer than two readers, and so on back from there.

    Args:
        graph: a float one.
        slices: Slice does so too, and then takes the scale of what it reads; the tool's search of EQ leaves
            that out.
    """
    return _Pass(graph, slices).run()


def is_live(graph: Graph, place: int) -> bool:
    """An input, or computed."""
    return graph.tensors[place].role in ("var", "input")


class _Pass:
    """Walks back over the tensors, which the tool knows by their names."""

    def __init__(self, graph: Graph, slices: bool) -> None:
        self.graph, self.slices = graph, slices
        self.sources = {tensor.name: tensor.name for tensor in graph.tensors}
        read = (graph.tensors[place].name for node in graph.nodes for place in node.inputs)
        self.readers = Counter(read)
        self.producer = {place: node for node in graph.nodes for place in node.outputs}
        self.done: set[str] = set()

    def run(self) -> dict[int, str]:
        """All tensors."""
        places = [place for place in range(len(self.graph.tensors)) if is_live(self.graph, place)]
        for place in reversed(places):
            name = self.graph.tensors[place].name
            if name in self.done:
                continue
            node = self.producer[place]
            if (node.op == "Slice" and self.slices) or hands_back(node):
                self.hand(name, node.inputs[0])
            self.done.add(name)
        found = {place: self.sources[self.graph.tensors[place].name] for place in places}
        for node in self.graph.nodes:
            if node.op == "Slice" and self.slices:
                found[node.outputs[0]] = found[node.inputs[0]]
        return found

    def hand(self, name: str, place: int) -> None:
        """Gives the scale of a tensor to the one before it, and on."""
        while is_live(self.graph, place):
            before = self.graph.tensors[place].name
            if before in self.done or self.readers[before] >= 2:
                return
            self.sources[before] = self.sources[name]
            self.done.add(before)
            node = self.producer[place]
            if not hands_back(node):
                return
            name, place = before, node.inputs[0]


def hands_back(node: Node) -> bool:
    """Whether the scale of what a node computes becomes that of what it reads."""
    if node.op == "Pooling":
        return node.options["alg"] == 0
    if node.op == "ReLU":
        return node.options["negative_slope"] == 0.0
    return node.op in HANDS_BACK
