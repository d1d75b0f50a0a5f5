"""A graph for other sizes of its inputs, where the file leaves them free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calib8.errors import UnsupportedModelError
from calib8.tflite.graph import Graph


def resized(graph: Graph, shapes: Mapping[str, Sequence[int]], name: str) -> Graph:
    """The graph whose inputs have these sizes.

    Args:
        graph: of a model.
        shapes: input name → sizes; an input that is not named keeps those of the file.
        name: of the model, for messages.

    Raises:
        UnsupportedModelError: the file has other sizes.
    """
    for place in graph.inputs:
        tensor = graph.tensors[place]
        wanted = tuple(shapes.get(tensor.name, tensor.shape))
        if wanted != tensor.shape:
            sizes = "×".join(map(str, tensor.shape))
            raise UnsupportedModelError(
                name, f"its input '{tensor.name}' is stored with the sizes {sizes}", "Export it with others"
            )
    return graph
