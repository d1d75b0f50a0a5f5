"""TRANSPOSEs around float operators that undo each other.

    x ─ TRANSPOSE p ─ RELU ─ TRANSPOSE q ─► y        x ─ RELU ─ TRANSPOSE p·q ─► y;  nothing for p·q = 1

A TRANSPOSE moves behind every operator that treats all elements alike, two in a row become one, and what
nobody reads is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from calib8.tflite.graph import Graph, Operator, Tensor

ALIKE: Final = frozenset({
    "ABS", "ADD", "DEQUANTIZE", "DIV", "ELU", "EXP", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOG", "LOGISTIC",
    "MAXIMUM", "MINIMUM", "MUL", "NEG", "POW", "QUANTIZE", "RELU", "RELU6", "RSQRT", "SQRT", "SUB", "TANH",
})  # fmt: skip
"""Operators whose results do not depend on where an element lies."""


@dataclass
class _Work:
    """The graph while it is rewritten.

    Attributes:
        tensors, operators: so far.
        outputs: of the model, which keep their tensors.
        turned: tensor → the tensor that it is a TRANSPOSE of, and the order of axes.
        same: tensor → the one that holds the same.
    """

    tensors: list[Tensor]
    outputs: frozenset[int]
    operators: list[Operator] = field(default_factory=list)
    turned: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    same: dict[int, int] = field(default_factory=dict)

    def add(self, tensor: Tensor) -> int:
        """A further tensor."""
        self.tensors.append(replace(tensor, name=f"{tensor.name}/{len(self.tensors)}"))
        return len(self.tensors) - 1

    def turn(self, source: int, axes: Sequence[int], target: int) -> None:
        """A TRANSPOSE, or the tensor itself where nothing would move."""
        if list(axes) == sorted(axes) and target not in self.outputs:
            self.same[target] = source
            return
        perm = self.add(Tensor("perm", (len(axes),), "int32", np.array(axes, np.int32)))
        self.operators.append(Operator("TRANSPOSE", (source, perm), (target,)))
        self.turned[target] = source, tuple(axes)


def without_turns(graph: Graph) -> Graph:
    """The graph with as few TRANSPOSEs; the same numbers."""
    work = _Work(list(graph.tensors), frozenset(graph.outputs))
    for operator in graph.operators:
        inputs = tuple(work.same.get(place, place) for place in operator.inputs)
        moved = replace(operator, inputs=inputs)
        axes = _order(work, moved)
        if moved.op == "TRANSPOSE" and inputs[0] in work.turned:
            _joined(work, moved)
        elif axes is not None:
            _behind(work, moved, axes)
        else:
            work.operators.append(moved)
            _note(work, moved)
    return _kept(replace(graph, tensors=tuple(work.tensors), operators=tuple(work.operators)))


def _note(work: _Work, operator: Operator) -> None:
    perm = work.tensors[operator.inputs[1]].data if operator.op == "TRANSPOSE" else None
    if perm is not None:
        work.turned[operator.outputs[0]] = operator.inputs[0], tuple(int(axis) for axis in perm)


def _joined(work: _Work, operator: Operator) -> None:
    """Two TRANSPOSEs as one."""
    source, before = work.turned[operator.inputs[0]]
    perm = work.tensors[operator.inputs[1]].data
    assert perm is not None
    work.turn(source, [before[int(axis)] for axis in perm], operator.outputs[0])


def _order(work: _Work, operator: Operator) -> tuple[int, ...] | None:
    """The order of axes in which all operands of an operator were turned; None if it is not one."""
    if operator.op not in ALIKE or len(operator.outputs) != 1:
        return None
    computed = [place for place in operator.inputs if work.tensors[place].data is None]
    orders = {work.turned[place][1] if place in work.turned else None for place in computed}
    fixed = (work.tensors[place].data for place in operator.inputs)
    if len(orders) != 1 or any(data is not None and data.size > 1 for data in fixed):
        return None
    [axes] = orders
    return axes if axes is not None and len(axes) == len(work.tensors[operator.outputs[0]].shape) else None


def _behind(work: _Work, operator: Operator, axes: tuple[int, ...]) -> None:
    """The operator on what was turned, and the TRANSPOSE behind it."""
    inputs = tuple(work.turned[place][0] if place in work.turned else place for place in operator.inputs)
    (target,) = operator.outputs
    y = work.tensors[target]
    shape = tuple(y.shape[axes.index(axis)] for axis in range(len(axes)))
    inner = work.add(replace(y, shape=shape))
    work.operators.append(replace(operator, inputs=inputs, outputs=(inner,)))
    work.turn(inner, axes, target)


def _kept(graph: Graph) -> Graph:
    """The graph without operators and tensors that nobody reads."""
    wanted, operators = set(graph.outputs), list[Operator]()
    for operator in reversed(graph.operators):
        if not wanted.isdisjoint(operator.outputs):
            wanted.update(operator.inputs)
            operators.append(operator)
    used = wanted.union(graph.inputs, *((*each.outputs, *each.intermediates) for each in operators))
    places = {old: new for new, old in enumerate(sorted(place for place in used if place >= 0))}

    def moved(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(places.get(number, number) for number in numbers)

    def placed(one: Operator) -> Operator:
        between = moved(one.intermediates)
        return replace(one, inputs=moved(one.inputs), outputs=moved(one.outputs), intermediates=between)

    return replace(
        graph,
        tensors=tuple(graph.tensors[place] for place in places),
        operators=tuple(placed(one) for one in operators[::-1]),
        inputs=moved(graph.inputs),
        outputs=moved(graph.outputs),
    )
