"""The part of a TFLite graph that leads to chosen tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from calib8.errors import UsageError
from calib8.tflite.graph import Graph, Operator


def up_to(graph: Graph, outputs: Sequence[str]) -> Graph:
    """The graph with other outputs and the operators that lead to them; its inputs stay.

    Args:
        graph: of a model.
        outputs: names of tensors that are computed or fed, in the order wanted.

    Raises:
        UsageError: no name at all, the same one twice, or one that no such tensor has.
    """
    if not outputs:
        raise UsageError("outputs", "names no tensor", "Name at least one")
    if len(set(outputs)) < len(outputs):
        raise UsageError("outputs", f"names a tensor twice: {', '.join(outputs)}", "Name each once")
    places = tuple(_place(graph, name) for name in outputs)
    return replace(graph, operators=needed(graph, places), outputs=places)


def needed(graph: Graph, places: Iterable[int]) -> tuple[Operator, ...]:
    """The operators that lead to tensors, in the order of execution."""
    wanted = set(places)
    kept: list[Operator] = []
    for operator in reversed(graph.operators):
        if not wanted.isdisjoint(operator.outputs):
            wanted.update(operator.inputs)
            kept.append(operator)
    return tuple(reversed(kept))


def _place(graph: Graph, name: str) -> int:
    live = [*graph.inputs, *(place for operator in graph.operators for place in operator.outputs)]
    names = {graph.tensors[place].name: place for place in reversed(live)}
    if name not in names:
        close = get_close_matches(name, names, 1)
        cure = f"Did you mean '{close[0]}'" if close else f"The last ones are {', '.join(list(names)[:5])}"
        raise UsageError("outputs", f"the model computes no tensor '{name}'", cure)
    return names[name]
