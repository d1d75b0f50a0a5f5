"""The part of a TFLite graph that leads to chosen tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from calib8.errors import UsageError
from calib8.parameters import either
from calib8.tflite.graph import Graph
from calib8.tflite.live import needed

OUTPUTS: Final = either("outputs", "--until")
"""What asks for them."""


def up_to(graph: Graph, outputs: Sequence[str]) -> Graph:
    """The graph with other outputs and the operators that lead to them; its inputs stay.

    Args:
        graph: of a model.
        outputs: names of tensors that are computed or fed, in the order wanted.

    Raises:
        UsageError: no name at all, the same one twice, or one that no such tensor has.
    """
    if not outputs:
        raise UsageError(OUTPUTS, "names no tensor", "Name at least one")
    if len(set(outputs)) < len(outputs):
        raise UsageError(OUTPUTS, f"names a tensor twice: {', '.join(outputs)}", "Name each once")
    places = tuple(_place(graph, name) for name in outputs)
    return replace(graph, operators=needed(graph, places), outputs=places)


def _place(graph: Graph, name: str) -> int:
    live = [*graph.inputs, *(place for operator in graph.operators for place in operator.outputs)]
    names = {graph.tensors[place].name: place for place in reversed(live)}
    if name not in names:
        close = get_close_matches(name, names, 1)
        cure = f"Did you mean '{close[0]}'" if close else f"The last ones are {', '.join(list(names)[:5])}"
        raise UsageError(OUTPUTS, f"the model computes no tensor '{name}'", cure)
    return names[name]
