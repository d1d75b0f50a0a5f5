"""States of a TFLite graph as inputs and outputs: what runs it carries the one to the other.

graph:  x ─► … ─► y          state 'h': read from r, written to w
here:   x, h ─► … ─► y, w    h is another name of r
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from calib8.tensors import TensorSpec
from calib8.tflite.graph import Graph, Operator, State, Tensor
from calib8.tflite.live import needed, value_inputs
from calib8.tflite.ports import port_names, port_specs

STATE_TYPES: Final = ("float32", "uint8", "int8", "int16", "int32")
"""Of states in programs."""

OWN_STATES: Final[Mapping[str, int]] = {"SVDF": 4}
"""Operator that moves a state on → the input that is its state, which zeros begin."""


def with_state_ports(graph: Graph) -> Graph:
    """The graph with its states among its inputs and outputs, under names of their own.

    States that operators have for themselves get another tensor that is written, the last output of the
    operator. States that nothing leads from to the outputs are left out. A graph that has such ports stays
    as it is.
    """
    graph = _with_own_states(graph)
    if all(state.read in graph.inputs for state in graph.states):
        return graph
    states = _reached(graph)
    tensors, operators, kept = list(graph.tensors), list(graph.operators), []
    read_names = {tensors[place].name for place in graph.inputs}
    written_names = {tensors[place].name for place in graph.outputs}
    fed = {*graph.inputs, *graph.outputs, *(state.read for state in states)}
    for state in states:
        title = _new_name(state.name or "state", read_names)
        written = state.written
        if written in fed or tensors[written].name in written_names:
            like = tensors[written]
            tensors.append(replace(like, name=_new_name(f"{title}/next", written_names), signature=()))
            written = len(tensors) - 1
            operators.append(_copy(state.written, written, like))
        read_names.add(title)
        written_names.add(tensors[written].name)
        fed.add(written)
        tensors[state.read] = replace(tensors[state.read], name=title)
        kept.append(replace(state, written=written))
    return replace(
        graph,
        tensors=tuple(tensors),
        operators=tuple(operators),
        inputs=(*graph.inputs, *(state.read for state in kept)),
        outputs=(*graph.outputs, *(state.written for state in kept)),
        states=tuple(kept),
    )


def _with_own_states(graph: Graph) -> Graph:
    """States of the graph for variables that one operator has for itself."""
    tensors, operators, states = list(graph.tensors), list(graph.operators), list(graph.states)
    readers = Counter(place for operator in operators for place in operator.inputs)
    outside = {*graph.inputs, *graph.outputs, *(place for each in operators for place in each.outputs)}
    for number, operator in enumerate(operators):
        place = OWN_STATES.get(operator.op, len(operator.inputs))
        read = operator.inputs[place] if place < len(operator.inputs) else -1
        if read < 0 or not tensors[read].is_variable or readers[read] > 1 or read in outside:
            continue
        found = replace(tensors[read], is_variable=False)
        if found.data is not None or found.dtype not in STATE_TYPES:
            continue
        tensors[read] = found
        tensors.append(replace(found, name=f"{found.name}/next"))
        operators[number] = replace(operator, outputs=(*operator.outputs, len(tensors) - 1))
        states.append(State(found.name, read, len(tensors) - 1, np.zeros(0, found.dtype)))
    if len(states) == len(graph.states):
        return graph
    return replace(graph, tensors=tuple(tensors), operators=tuple(operators), states=tuple(states))


def state_ports(graph: Graph) -> Mapping[str, str]:
    """Input → output that feeds it in the next run, by name, of a graph that has such ports."""
    inputs = dict(zip(graph.inputs, port_names(graph, graph.inputs), strict=True))
    outputs = dict(zip(graph.outputs, port_names(graph, graph.outputs), strict=True))
    return {inputs[state.read]: outputs[state.written] for state in graph.states}


def state_specs(graph: Graph) -> tuple[TensorSpec, ...]:
    """What a model keeps between runs: names, types and shapes."""
    exposed = with_state_ports(graph)
    return port_specs(exposed, [state.read for state in exposed.states])


def _reached(graph: Graph) -> list[State]:
    """States that the outputs, or other such states, depend on."""
    found: list[State] = []
    while True:
        places = [*graph.outputs, *(state.written for state in found)]
        read = {place for operator in needed(graph, places) for place in value_inputs(operator)}.union(places)
        further = [state for state in graph.states if state.read in read]
        if len(further) == len(found):
            return found
        found = further


def _copy(source: int, place: int, like: Tensor) -> Operator:
    return Operator("RESHAPE", (source,), (place,), {"new_shape": like.shape})


def _new_name(name: str, taken: Iterable[str]) -> str:
    """The name, with a number behind it where it is taken."""
    number, known = 1, set(taken)
    title = name
    while title in known:
        number += 1
        title = f"{name}#{number}"
    return title
