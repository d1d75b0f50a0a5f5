"""Variables: what a TFLite model keeps between runs becomes states of its graph, and its operators go.

    VAR_HANDLE h      READ_VARIABLE h → x      …      ASSIGN_VARIABLE h ← y         state: reads x, writes y
    CALL_ONCE  ──►    another subgraph: VAR_HANDLE h, ASSIGN_VARIABLE h ← constant        its initial value

Handles of one container and name are one variable. Reading behind another read or an assignment gives what
that read or assigned. A variable that no run assigns is a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from calib8.errors import ModelError, UnsupportedModelError
from calib8.tflite.check import CODES
from calib8.tflite.graph import Graph, Operator, State, Tensor

HANDLE, READ, ASSIGN, ONCE = "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"

COUNTS: Final = {HANDLE: (0, 1), READ: (1, 1), ASSIGN: (2, 0), ONCE: (0, 0)}
"""Operator → number of its inputs and outputs."""

DAMAGED: Final = "Export or download the model again"
ONE_FUNCTION: Final = "Export one function of the model, without If and While"
FIXED: Final = "Export the model with a fixed batch and variables of fixed sizes"
BEGIN: Final = "Export the model with an initial value for it"

Key = tuple[str, str]
"""Container and name of a variable."""


def without_variables(graphs: Sequence[Graph], name: str) -> Graph:
    """The first subgraph with states in place of operators on variables.

    Args:
        graphs: subgraphs as the file has them, unchecked.
        name: of the model, for messages.

    Raises:
        ModelError: operators on variables that contradict each other.
        UnsupportedModelError: other subgraphs than those that CALL_ONCE runs, or one of these does more than
            to assign constants; variables without an initial value or of unknown sizes.
    """
    if not graphs:
        raise UnsupportedModelError(name, "has 0 subgraphs", DAMAGED)
    main = graphs[0]
    used = any(operator.op in COUNTS for operator in main.operators)
    if len(graphs) == 1 and not used:
        return main
    folding = _Folding(graphs, name)
    for number, operator in enumerate(main.operators):
        folding.visit(number, operator)
    _refuse_others(graphs, folding.begun, name)
    return folding.finished()


def _refuse_others(graphs: Sequence[Graph], begun: set[int], name: str) -> None:
    """Refuses subgraphs that nothing runs, or that control flow does."""
    others = [place for place in range(1, len(graphs)) if place not in begun]
    if others:
        title = graphs[others[0]].name or f"number {others[0]}"
        problem = f"has {len(graphs)} subgraphs; '{title}' is none that CALL_ONCE runs"
        raise UnsupportedModelError(name, problem, ONE_FUNCTION)


class _Folding:
    """The first subgraph while its operators are visited.

    Attributes:
        begun: subgraphs that CALL_ONCE runs.
    """

    def __init__(self, graphs: Sequence[Graph], name: str) -> None:
        self.begun: set[int] = set()
        self._graphs, self._main, self._name = graphs, graphs[0], name
        self._tensors = list(self._main.tensors)
        self._operators: list[Operator] = []
        self._handles: dict[int, Key] = {}
        self._initial: dict[Key, Tensor] = {}
        self._first: dict[Key, int] = {}
        """Variable → the tensor that its first reading writes, where no assignment comes before."""
        self._held: dict[Key, int] = {}
        """Variable → the tensor that holds its value here."""

    def visit(self, number: int, operator: Operator) -> None:
        """The next operator."""
        title = f"{self._name}, operator {number} ({operator.title})"
        if operator.op not in COUNTS:
            self._refuse_handles(operator, title)
            self._operators.append(operator)
            return
        _check_places(self._main, operator, title)
        if operator.op == ONCE:
            self._begin(operator, title)
        elif operator.op == HANDLE:
            self._handles[operator.outputs[0]] = _key(operator)
        elif operator.op == READ:
            self._read(_variable(self._handles, operator, title), operator.outputs[0], title)
        else:
            self._held[_variable(self._handles, operator, title)] = operator.inputs[1]

    def finished(self) -> Graph:
        """The graph, once all were visited."""
        for place in (*self._main.inputs, *self._main.outputs):
            if place in self._handles:
                problem = f"hands out the variable {_called(self._handles[place])} itself"
                raise UnsupportedModelError(self._name, problem, ONE_FUNCTION)
        states = [state for key in self._first if (state := self._state(key)) is not None]
        return replace(
            self._main,
            tensors=tuple(self._tensors),
            operators=tuple(self._operators),
            states=tuple(states),
        )

    def _refuse_handles(self, operator: Operator, title: str) -> None:
        found = next((place for place in operator.inputs if place in self._handles), None)
        if found is not None:
            problem = f"reads the variable {_called(self._handles[found])} itself"
            raise UnsupportedModelError(title, problem, ONE_FUNCTION)

    def _begin(self, operator: Operator, title: str) -> None:
        """Takes the initial values of a subgraph, in the first run only."""
        place = operator.options.get("init_subgraph_index", 0)
        if not (isinstance(place, int) and 1 <= place < len(self._graphs)):
            raise ModelError(title, f"runs subgraph {place} of {len(self._graphs)}", DAMAGED)
        if self._held:
            raise ModelError(title, "stands behind operators that read or assign variables", DAMAGED)
        if place not in self.begun:
            self._initial |= _initial_values(self._graphs[place], f"{self._name}, subgraph {place}")
        self.begun.add(place)

    def _read(self, key: Key, place: int, title: str) -> None:
        source = self._held.get(key)
        if source is None:
            self._first[key] = self._held[key] = place
            return
        self._check_alike(key, source, place, title)
        if self._tensors[source].data is not None:
            self._tensors[place] = replace(self._tensors[place], data=self._tensors[source].data)
        else:
            self._copy(source, place)

    def _copy(self, source: int, place: int) -> None:
        sizes = self._tensors[source].shape
        self._operators.append(Operator("RESHAPE", (source,), (place,), {"new_shape": sizes}))

    def _state(self, key: Key) -> State | None:
        """None where no run changes it: then it is a constant."""
        read, written = self._first[key], self._held[key]
        initial = self._begun_with(key, read)
        if written == read:
            self._tensors[read] = replace(self._tensors[read], data=initial.data)
            return None
        assert initial.data is not None
        self._check_alike(key, read, written, f"{self._name}, variable {_called(key)}")
        if self._tensors[written].data is not None:
            problem = f"gets the constant '{self._tensors[written].name}' in every run"
            raise UnsupportedModelError(f"{self._name}, variable {_called(key)}", problem, ONE_FUNCTION)
        return State(key[1], read, written, initial.data)

    def _begun_with(self, key: Key, read: int) -> Tensor:
        """The initial value; a tensor that reads it and leaves its sizes open gets them."""
        subject, tensor = f"{self._name}, variable {_called(key)}", self._tensors[read]
        initial = self._initial.get(key)
        if initial is None:
            raise UnsupportedModelError(subject, "is read before anything is assigned to it", BEGIN)
        if initial.dtype != tensor.dtype:
            problem = f"begins as {initial.dtype} and is read as {tensor.dtype}"
            raise ModelError(subject, problem, DAMAGED)
        if initial.shape != tensor.shape:
            problem = f"begins with shape {list(initial.shape)} and is read with {list(tensor.shape)}"
            raise UnsupportedModelError(subject, problem, FIXED)
        self._tensors[read] = replace(tensor, signature=())
        return initial

    def _check_alike(self, key: Key, source: int, place: int, title: str) -> None:
        """Refuses a variable that is read in another form than it was written."""
        one, other = self._tensors[source], self._tensors[place]
        if one.dtype != other.dtype or one.shape != other.shape:
            forms = " and ".join(f"{each.dtype} {list(each.shape)}" for each in (one, other))
            raise UnsupportedModelError(title, f"takes variable {_called(key)} as {forms}", FIXED)
        if one.dtype in CODES and not _same_codes(one, other):
            names = f"'{one.name}' and '{other.name}'"
            problem = f"takes variable {_called(key)} from {names}, which differ in scale or zero point"
            raise UnsupportedModelError(title, problem, "Quantize the model again")


def _initial_values(graph: Graph, title: str) -> dict[Key, Tensor]:
    """What a subgraph assigns, and nothing else happens in it."""
    handles: dict[int, Key] = {}
    found: dict[Key, Tensor] = {}
    if graph.inputs or graph.outputs:
        raise ModelError(title, "is run by CALL_ONCE and has inputs or outputs", DAMAGED)
    for operator in graph.operators:
        _check_places(graph, operator, title)
        if operator.op == HANDLE:
            handles[operator.outputs[0]] = _key(operator)
        elif operator.op == ASSIGN:
            key, value = _variable(handles, operator, title), graph.tensors[operator.inputs[1]]
            if value.data is None:
                problem = f"computes '{value.name}', what variable {_called(key)} begins with"
                raise UnsupportedModelError(title, problem, "Export constants as initial values")
            found[key] = value
        else:
            problem = f"is run by CALL_ONCE and does more than to assign constants ({operator.title})"
            raise UnsupportedModelError(title, problem, "Export constants as initial values")
    return found


def _check_places(graph: Graph, operator: Operator, title: str) -> None:
    """Refuses operators on variables with other tensors than they have."""
    if operator.op not in COUNTS:
        return
    found = len(operator.inputs), len(operator.outputs)
    if found != COUNTS[operator.op]:
        raise ModelError(title, f"{operator.op} has {found[0]} inputs and {found[1]} outputs", DAMAGED)
    wrong = [p for p in (*operator.inputs, *operator.outputs) if not 0 <= p < len(graph.tensors)]
    if wrong:
        raise ModelError(title, f"{operator.op} names tensor {wrong[0]} of {len(graph.tensors)}", DAMAGED)


def _variable(handles: dict[int, Key], operator: Operator, title: str) -> Key:
    if operator.inputs[0] not in handles:
        raise ModelError(title, f"{operator.op} reads no handle of a variable", DAMAGED)
    return handles[operator.inputs[0]]


def _key(operator: Operator) -> Key:
    return str(operator.options.get("container", "")), str(operator.options.get("shared_name", ""))


def _called(key: Key) -> str:
    return f"'{'/'.join(part for part in key if part)}'"


def _same_codes(one: Tensor, other: Tensor) -> bool:
    pair = one.quantization, other.quantization
    if pair[0] is None or pair[1] is None:
        return pair == (None, None)
    return np.array_equal(pair[0].scales, pair[1].scales) and np.array_equal(
        pair[0].zero_points, pair[1].zero_points
    )


def with_variables(graph: Graph) -> list[Graph]:
    """Subgraphs for a file: the graph with operators on variables in place of its states, and what begins them.

    The inverse of ``without_variables``.
    """
    if not graph.states:
        return [graph]
    titles = _unique([state.name for state in graph.states])
    base = len(graph.tensors)
    handles = [Tensor(title, (), "resource") for title in titles]
    tensors = (*graph.tensors, *handles)
    heads, reads, ends = [], [], []
    for number, (state, title) in enumerate(zip(graph.states, titles, strict=True)):
        heads.append(_handle(title, base + number))
        reads.append(Operator(READ, (base + number,), (state.read,)))
        ends.append(Operator(ASSIGN, (base + number, state.written), ()))
    once = Operator(ONCE, (), (), {"init_subgraph_index": 1})
    operators = (once, *heads, *reads, *graph.operators, *ends)
    return [replace(graph, tensors=tensors, operators=operators, states=()), _beginning(graph, titles)]


def _beginning(graph: Graph, titles: Sequence[str]) -> Graph:
    """The subgraph that assigns the initial values."""
    tensors: list[Tensor] = []
    operators: list[Operator] = []
    for state, title in zip(graph.states, titles, strict=True):
        value = replace(graph.tensors[state.read], name=f"{title}/initial", data=state.initial, signature=())
        place = len(tensors)
        tensors += [Tensor(title, (), "resource"), value]
        operators += [_handle(title, place), Operator(ASSIGN, (place, place + 1), ())]
    return Graph(tuple(tensors), tuple(operators), (), (), "initial")


def _handle(title: str, place: int) -> Operator:
    return Operator(HANDLE, (), (place,), {"container": "", "shared_name": title})


def _unique(names: Sequence[str]) -> list[str]:
    """The names, a number behind those that come again."""
    return [f"{name}#{place}" if name in names[:place] else name for place, name in enumerate(names)]
