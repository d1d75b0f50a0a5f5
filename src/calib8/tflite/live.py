"""Which operators a model needs: those that lead to its outputs, for the numbers and not for sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from calib8.tflite.graph import Graph, Operator

SIZE_INPUTS: Final[Mapping[str, int]] = {
    "BROADCAST_TO": 1,
    "RESHAPE": 1,
    "RESIZE_BILINEAR": 1,
    "RESIZE_NEAREST_NEIGHBOR": 1,
    "TRANSPOSE_CONV": 0,
}
"""Operator → its input that holds sizes; the shape of its output says the same."""


ZERO_STATES: Final[Mapping[str, tuple[int, ...]]] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": (35, 36, 37, 38),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (18, 19),
}
"""Operator → its inputs that are states which every run begins with zeros."""


def needed(graph: Graph, places: Iterable[int]) -> tuple[Operator, ...]:
    """The operators that lead to tensors, in the order of execution.

    What only computes the sizes of a tensor, as converters write it for a free batch, is left out.
    """
    wanted = set(places)
    kept: list[Operator] = []
    for operator in reversed(graph.operators):
        if not wanted.isdisjoint(operator.outputs):
            wanted.update(value_inputs(operator))
            kept.append(operator)
    return tuple(reversed(kept))


def value_inputs(operator: Operator) -> tuple[int, ...]:
    """The inputs of an operator that are given, without the one that holds sizes and states of zeros."""
    left_out = {SIZE_INPUTS.get(operator.op, -1), *ZERO_STATES.get(operator.op, ())}
    return tuple(place for at, place in enumerate(operator.inputs) if at not in left_out and place >= 0)


def makes_constant(graph: Graph, operator: Operator) -> bool:
    """A DEQUANTIZE of a constant."""
    if operator.op != "DEQUANTIZE" or len(operator.inputs) != 1 or operator.inputs[0] < 0:
        return False
    return graph.tensors[operator.inputs[0]].data is not None
