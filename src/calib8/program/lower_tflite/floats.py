"""What has no integer form: float operators wait in a group, which becomes one Float instruction when needed.

    codes ── DEQUANTIZE ──► Float (all waiting operators) ── QUANTIZE ──► codes

Operators that make floats of constants are part of every group that reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from calib8.model.from_tflite.operators import translation
from calib8.model.from_tflite.translate import Problem, UntranslatedError, operators_as_onnx
from calib8.program.instructions import Float
from calib8.program.lower_tflite.builder import Builder
from calib8.tflite.graph import Graph, Operator
from calib8.tflite.live import makes_constant, value_inputs

CODES: Final = frozenset({"int4", "int8", "uint8", "int16"})
"""Types in which ONNX nodes would compute something else than the operator does."""


@dataclass(eq=False)
class Waiting:
    """Operators that wait for the next Float instruction, and those that had to.

    Attributes:
        graph: the model.
        operators: that wait.
        reasons: why an operator has no integer form.
    """

    graph: Graph
    operators: list[Operator] = field(default_factory=list)
    reasons: dict[Operator, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reads the graph once: who reads what, and what makes floats of constants."""
        self.readers: dict[int, list[Operator]] = {}
        for operator in self.graph.operators:
            for place in value_inputs(operator):
                self.readers.setdefault(place, []).append(operator)
        self.fixed = [each for each in self.graph.operators if makes_constant(self.graph, each)]

    def takes(self, operator: Operator) -> bool:
        """Whether ONNX nodes can carry an operator out."""
        places = (*value_inputs(operator), *operator.outputs)
        computed = [self.graph.tensors[place] for place in places if self.graph.tensors[place].data is None]
        return translation(operator) is not None and all(tensor.dtype not in CODES for tensor in computed)

    def makes(self, places: Sequence[int]) -> bool:
        """Whether a waiting operator computes one of these tensors."""
        return any(not set(operator.outputs).isdisjoint(places) for operator in self.operators)

    def add(self, operator: Operator, reason: str) -> None:
        """One more."""
        self.operators.append(operator)
        self.reasons[operator] = reason


def flush(builder: Builder, waiting: Waiting) -> tuple[Problem, ...]:
    """Adds the Float instruction of all waiting operators; those without ONNX nodes, if there are any."""
    group, graph = tuple(waiting.operators), builder.graph
    waiting.operators.clear()
    if not group:
        return ()
    fixed = waiting.fixed
    made = {place for operator in (*fixed, *group) for place in operator.outputs}
    read = dict.fromkeys(place for operator in group for place in value_inputs(operator))
    sources = [place for place in read if place not in made and graph.tensors[place].data is None]
    results = _leaving(waiting, group)
    numbers = {place: builder.number(place) for place in (*sources, *results)}
    _name_apart(builder, numbers.values())
    names = {place: builder.slots[number].name for place, number in numbers.items()}
    try:
        model = operators_as_onnx(
            graph,
            [*fixed, *group],
            {place: names[place] for place in sources},
            {place: names[place] for place in results},
        )
    except UntranslatedError as error:
        return error.problems
    titles = tuple(builder.name(operator) for operator in group)
    builder.steps.append(
        Float(
            " … ".join(dict.fromkeys((titles[0], titles[-1]))),
            tuple(numbers[place] for place in sources),
            tuple(numbers[place] for place in results),
            model,
            titles,
            tuple(waiting.reasons[operator] for operator in group),
        )
    )
    return ()


def _leaving(waiting: Waiting, group: Sequence[Operator]) -> list[int]:
    """What operators outside a group, or the outputs, read of it."""
    inside, ends = set(group), set(waiting.graph.outputs)
    made = (place for operator in group for place in operator.outputs)
    return [
        place
        for place in made
        if place in ends or any(reader not in inside for reader in waiting.readers.get(place, ()))
    ]


def _name_apart(builder: Builder, numbers: Iterable[int]) -> None:
    """Slots of one Float instruction get different names."""
    taken: set[str] = set()
    for number in numbers:
        slot = builder.slots[number]
        if slot.name in taken or not slot.name:
            builder.slots[number] = replace(slot, name=f"{slot.name}#{number}")
        taken.add(builder.slots[number].name)


def by_float_level(graph: Graph, floats: Sequence[Operator]) -> tuple[Operator, ...]:
    """The operators in an order in which float ones that can run together follow each other.

    The level of an operator counts how often a path to it enters float operators from others; as many Float
    instructions as there are levels are needed in any order.
    """
    producers = {place: operator for operator in graph.operators for place in operator.outputs}
    level: dict[Operator, int] = {}
    for operator in graph.operators:
        level[operator] = int(operator in floats)
        for place in value_inputs(operator):
            before = producers.get(place)
            if before is not None:
                enters = operator in floats and before not in floats
                level[operator] = max(level[operator], level[before] + int(enters))
    return tuple(sorted(graph.operators, key=lambda operator: (level[operator], operator not in floats)))
