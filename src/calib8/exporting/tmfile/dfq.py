"""Weights of neighbouring Convolutions equalized, as Tengine's DFQ does it before it calibrates.

    c: channel between two layers, r: range of its weights on either side
    pair       √(r₁ r₂) = r           W₁[c] · r / r₁,  b₁[c] · r / r₁,  W₂[:, c] · r₁ / r
    three      ∛(r₁ r₂ r₃) = r        the middle one depthwise:  W₂[c] · (r₁ / r) · (r₃ / r),  b₂[c] · r₃ / r,
                                      W₃[:, c] · r / r₃

A range is the largest weight, at least 0, less the last weight that is below those before it: the tool means
the smallest one. In the layer that reads the channels it is largest less smallest, both with 0.

What the tool gets wrong is left out: channels without a range on one side, which it sets to 0, bias included;
layers with a ReLU6 or another function than a ReLU between them, and layers whose weights or bias something
else reads too, which compute something else then.
Source: OAID Tengine, quant_tool (``quant_dfq.cpp``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.tmfile.graph import Graph, Node, Tensor

Single = npt.NDArray[np.float32]

PASSED: Final = frozenset({"ReLU", "Dropout", "Noop"})
"""Operators that a factor above 0 passes."""

HOMOGENEOUS: Final = (-1, 0)
"""Activations inside a Convolution that it passes: none and ReLU."""


@dataclass(frozen=True, eq=False)
class Equalized:
    """What became of a graph.

    Attributes:
        graph: with other weights.
        layers: names of the nodes that were equalized.
        refused: names of those that lie behind a function that no factor passes.
    """

    graph: Graph
    layers: tuple[str, ...]
    refused: tuple[str, ...]


def equalized(graph: Graph) -> Equalized:
    """The graph with equalized weights; not changed itself.

    Args:
        graph: a float one.
    """
    return _Equalizing(graph).run()


class _Equalizing:
    """Walks over the layers in the order of the file."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.tensors = graph, list(graph.tensors)
        self.producer = {place: node for node in graph.nodes for place in node.outputs}
        self.readers: dict[int, list[Node]] = {}
        for node in graph.nodes:
            for place in node.inputs:
                self.readers.setdefault(place, []).append(node)
        self.results = set(graph.output_tensors())
        self.done: set[str] = set()
        self.refused: list[str] = []

    def run(self) -> Equalized:
        """The graph, and which layers."""
        for node in self.graph.nodes:
            if node.op == "Convolution" and is_depthwise(node):
                self.three(node)
            elif node.op == "Convolution" and node.name not in self.done:
                self.pair(node)
        layers = tuple(node.name for node in self.graph.nodes if node.name in self.done)
        return Equalized(replace(self.graph, tensors=tuple(self.tensors)), layers, tuple(self.refused))

    def three(self, middle: Node) -> None:
        """A depthwise layer with the ones around it."""
        first, last = self.before(middle), self.behind(middle)
        if first is None or last is None or not (self.has_bias(first) and self.has_bias(middle)):
            return
        if not all(map(self.is_alone, (first, middle, last))):
            return
        if last.options["group"] != 1 or not self.channels_fit(first, last):
            return
        if not self.passes(middle, first, middle):
            return
        ranges = [_rows_range(self.weight(node)) for node in (first, middle)]
        ranges.append(_columns_range(self.weight(last)))
        product = ranges[0] * ranges[1] * ranges[2]
        mean = np.power(product.astype(np.float64), 1.0 / 3).astype(np.float32)
        ahead, back = _factors(mean, ranges[0]), _factors(mean, ranges[2])
        self.scale_rows(first, ahead[1], ahead[1])
        self.scale_rows(middle, ahead[0], back[0], back[0])
        self.scale_columns(last, back[1])
        self.done.update(node.name for node in (first, middle, last))

    def pair(self, second: Node) -> None:
        """A layer with the one before it."""
        first = self.before(second)
        if first is None or is_depthwise(first) or not self.has_bias(first):
            return
        if not (self.is_alone(first) and self.is_alone(second)):
            return
        if second.options["group"] != 1 or not self.channels_fit(first, second):
            return
        if not self.passes(second, first):
            return
        ranges = _rows_range(self.weight(first)), _columns_range(self.weight(second))
        mean = np.sqrt(ranges[0] * ranges[1])
        ahead = _factors(mean, ranges[0])
        self.scale_rows(first, ahead[1], ahead[1])
        self.scale_columns(second, ahead[0])
        self.done.update((first.name, second.name))

    def before(self, node: Node) -> Node | None:
        """The Convolution whose results a layer alone reads; None for another node."""
        place = node.inputs[0]
        while self.is_inner(place):
            found = self.producer[place]
            if found.op == "Convolution":
                return found
            if not self.is_between(found):
                return None
            place = found.inputs[0]
        return None

    def behind(self, node: Node) -> Node | None:
        """The Convolution that alone reads the results of a layer; None for another node."""
        place = node.outputs[0]
        while self.is_inner(place):
            found = self.readers[place][0]
            if found.op == "Convolution":
                return found if found.inputs[0] == place else None
            if not self.is_between(found):
                return None
            place = found.outputs[0]
        return None

    def is_inner(self, place: int) -> bool:
        """One node reads the tensor, and it is no output of the model."""
        return len(self.readers.get(place, ())) == 1 and place not in self.results

    def is_between(self, node: Node) -> bool:
        """The tool looks past the node: it has one input and one output, and is no layer and no pool."""
        return len(node.inputs) == len(node.outputs) == 1 and node.op not in ("FullyConnected", "Pooling")

    def passes(self, node: Node, *layers: Node) -> bool:
        """Factors pass all that follows the layers; otherwise the node is noted."""
        if all(layer.options["activation"] in HOMOGENEOUS and self.is_plain(layer) for layer in layers):
            return True
        self.refused.append(node.name)
        return False

    def is_plain(self, layer: Node) -> bool:
        """Up to the next Convolution there are only operators that factors pass."""
        place = layer.outputs[0]
        while (found := self.readers[place][0]).op != "Convolution":
            if found.op not in PASSED:
                return False
            place = found.outputs[0]
        return True

    def channels_fit(self, first: Node, last: Node) -> bool:
        """The first layer writes as many channels as the last one reads."""
        return bool(self.weight(first).shape[0] == self.weight(last).shape[1])

    def has_bias(self, node: Node) -> bool:
        """A layer with a bias: the tool takes for granted that all have one."""
        return len(node.inputs) > 2

    def is_alone(self, node: Node) -> bool:
        """Nothing else reads the weights and the bias of a layer."""
        return all(len(self.readers[place]) == 1 for place in node.inputs[1:])

    def weight(self, node: Node) -> Single:
        """Weights as they are now."""
        return _data(self.tensors[node.inputs[1]])

    def scale_rows(self, node: Node, *factors: Single) -> None:
        """Factors per output channel, one after the other; the last one goes to the bias alone."""
        weight = self.weight(node)
        for factor in factors[:-1]:
            weight = weight * factor.reshape(-1, 1, 1, 1)
        self.put(node.inputs[1], weight)
        self.put(node.inputs[2], _data(self.tensors[node.inputs[2]]) * factors[-1])

    def scale_columns(self, node: Node, factor: Single) -> None:
        """Factors per input channel."""
        self.put(node.inputs[1], self.weight(node) * factor.reshape(1, -1, 1, 1))

    def put(self, place: int, data: Single) -> None:
        """Other elements of a constant."""
        self.tensors[place] = replace(self.tensors[place], data=data)


def is_depthwise(node: Node) -> bool:
    """One group per output channel."""
    return node.options["group"] == node.options["output_channel"] and node.options["group"] != 1


def _data(tensor: Tensor) -> Single:
    assert tensor.data is not None
    data: Single = tensor.data
    return data


def _rows_range(weight: Single) -> Single:
    """Range of every output channel, as the tool finds it."""
    rows = weight.reshape(len(weight), -1)
    largest = np.maximum.accumulate(np.maximum(rows, np.float32(0)), axis=1)
    below = rows < largest
    last = rows.shape[1] - 1 - np.argmax(below[:, ::-1], axis=1)
    smallest = np.where(below.any(axis=1), rows[np.arange(len(rows)), last], np.float32(0))
    found: Single = largest[:, -1] - smallest
    return found


def _columns_range(weight: Single) -> Single:
    """Range of every input channel."""
    columns = weight.transpose(1, 0, 2, 3).reshape(weight.shape[1], -1)
    found: Single = columns.max(axis=1, initial=0) - columns.min(axis=1, initial=0)
    return found


def _factors(mean: Single, of: Single) -> Sequence[Single]:
    """r / mean and mean / r; 1 where there is no range."""
    one, none = np.float32(1), (mean == 0) | (of == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(none, one, of / mean), np.where(none, one, mean / of)
