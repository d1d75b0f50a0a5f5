"""One node of a float Tengine model as a model of its own, with its constants or others.

… ─ x ─ Convolution(w, b) ─ y ─ …            x ─ Convolution(w', b') ─ y
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.exporting.tmfile.hand_back import is_live
from calib8.model.from_tmfile.translate import float_model
from calib8.model.runtime import Session, open_session
from calib8.tmfile.graph import INPUT, Graph, Node

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Alone:
    """A node that is ready to run.

    Attributes:
        reads: what it is fed, by place among the tensors of the whole model.
        session: of the model.
    """

    reads: tuple[int, ...]
    session: Session

    def run(self, arrays: Sequence[Array]) -> list[npt.NDArray[Any]]:
        """All outputs for what it reads."""
        feeds = {port.name: array for port, array in zip(self.session.inputs, arrays, strict=True)}
        return self.session.run(feeds)


def alone(graph: Graph, node: Node, name: str, constants: Mapping[int, Array] | None = None) -> Alone:
    """Opens a node of a graph.

    Args:
        graph: a float model in the order NCHW, with all sizes.
        node: one of its nodes, no constant and no input.
        name: of the model, for messages.
        constants: other elements of the weights and the bias of a layer, by place; they may have a multiple
            of its output channels.

    Raises:
        UnsupportedModelError: the node has no ONNX form.
    """
    places = tuple(dict.fromkeys((*node.inputs, *node.outputs)))
    reads = tuple(place for place in dict.fromkeys(node.inputs) if is_live(graph, place))
    tensors = {place: graph.tensors[place] for place in places}
    for place in reads:
        tensors[place] = replace(tensors[place], role="input")
    for place, data in (constants or {}).items():
        tensors[place] = replace(tensors[place], data=data, shape=data.shape)
    if constants:
        node = _widened(node, tensors[node.inputs[1]].shape[0])
        shape = tensors[node.outputs[0]].shape
        wide = (shape[0], tensors[node.inputs[1]].shape[0], *shape[2:])
        tensors[node.outputs[0]] = replace(tensors[node.outputs[0]], shape=wide)
    number = {place: at for at, place in enumerate(places)}
    inputs = [Node("", INPUT, (), (number[place],)) for place in reads]
    moved = replace(
        node,
        inputs=tuple(number[place] for place in node.inputs),
        outputs=tuple(number[place] for place in node.outputs),
    )
    single = Graph(
        tuple(tensors.values()), (*inputs, moved), tuple(range(len(inputs))), (len(inputs),), name=graph.name
    )
    return Alone(reads, open_session(float_model(single, name), threads=1, name=name))


def _widened(layer: Node, channels: int) -> Node:
    """A layer with so many output channels."""
    option = "num_output" if layer.op == "FullyConnected" else "output_channel"
    return replace(layer, options={**layer.options, option: channels})
