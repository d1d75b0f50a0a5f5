"""Control flow that is known beforehand: which sizes decide it, and which inputs decide what is left.

    If(Equal(Shape(x)[1], 1)) ──► y        where x is known to be [N, 1]        the branch ──► y

A condition may follow from constants (a fixed input is one) or from sizes. Constants are folded whatever the
sizes are; only where a node is left are free sizes fixed to those of the sample, those of the batch last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import DataError, UnsupportedModelError, UsageError
from calib8.model.graph import label, size_name
from calib8.model.node_order import outer_values
from calib8.ops.groups import CONTROL_FLOW, OF_SHAPES
from calib8.parameters import entries

Arrays = Mapping[str, npt.NDArray[Any]]

ONE_BRANCH: Final = "Export it with the condition fixed (one branch)"


def holds_branches(model: ir.Model) -> bool:
    """Some node holds graphs of its own that may or may not run."""
    return any(node.op_type in CONTROL_FLOW for node in model.graph)


def decided(model: ir.Model, sample: Arrays, fold: Callable[[ir.Model], object]) -> ir.Model:
    """The model with the sizes that decide its branches: itself where constants do, or where there are none.

    Args:
        model: not changed.
        sample: one array per input.
        fold: rewrites a graph in place; whatever follows from constants and sizes is gone then.

    Raises:
        UnsupportedModelError: control flow that is left whatever sizes are known.
    """
    if not holds_branches(model):
        return model
    folded = None
    for sized in (model, _sized(model, sample, batch=False), _sized(model, sample, batch=True)):
        folded = sized.clone()
        try:
            fold(folded)
        except ValueError:  # of a rewrite that met a graph inside a node
            continue
        if not holds_branches(folded):
            return sized
    raise undecided(model if folded is None else folded, model)


def _sized(model: ir.Model, sample: Arrays, *, batch: bool) -> ir.Model:
    """A copy whose inputs have the sizes of the sample; without ``batch`` those of no first axis."""
    sized = model.clone()
    sized.meta.update(model.meta)
    first = {size_name(value.shape[0]) for value in model.graph.inputs if value.shape} - {""}
    for value in sized.graph.inputs:
        shape, array = value.shape, sample.get(value.name or "")
        if shape is None or array is None or len(shape) != array.ndim:
            continue
        value.shape = ir.Shape(
            [
                size if not batch and not isinstance(size, int) and (axis == 0 or size_name(size) in first)
                else own
                for axis, (size, own) in enumerate(zip(shape, array.shape, strict=True))
            ]
        )  # fmt: skip
    return sized


def undecided(folded: ir.Model, original: ir.Model) -> UnsupportedModelError:
    """What cannot be folded, and the inputs that decide it.

    Args:
        folded: what is left.
        original: the model as it is named.
    """
    name = original.graph.name or "model"
    nodes = [node for node in folded.graph if node.op_type in CONTROL_FLOW]
    what = ", ".join(f"{node.op_type} '{label(node)}'" for node in nodes)
    problem = f"holds control flow that is not known beforehand: {what}"
    branches = [node for node in nodes if node.op_type == "If"]
    if not branches:
        cure = "Export it without loops: with LSTM, GRU or RNN nodes, or with the steps written out"
        return UnsupportedModelError(name, problem, cure)
    found = _deciding(folded, branches)
    if not found:
        return UnsupportedModelError(name, problem, ONE_BRANCH)
    decide = ("input" if len(found) == 1 else "inputs") + " " + ", ".join(f"'{one}'" for one in found)
    if len(found) == len(folded.graph.inputs):
        every = "its only one" if len(found) == 1 else "all that it has"
        return UnsupportedModelError(name, f"{problem}; decided by the {decide}, {every}", ONE_BRANCH)
    cure = f"If the same branch is always taken, say so: {_fixed(found)}"
    return UnsupportedModelError(name, f"{problem}; decided by the {decide}", cure)


def _deciding(model: ir.Model, branches: Iterable[ir.Node]) -> list[str]:
    """Names of the inputs that decide some nodes, in their order."""
    reached = set().union(*map(deciding_inputs, branches))
    return [value.name or "" for value in model.graph.inputs if value.name in reached]


def _fixed(names: Iterable[str]) -> str:
    return entries("fix", dict.fromkeys(names, "VALUE"))


@contextmanager
def telling_of_branches(model: ir.Model) -> Iterator[None]:
    """What is wrong with data that lack an input which chooses a branch says that it can be fixed.

    Args:
        model: a loaded float model.

    Raises:
        DataError, UsageError: those of the body, perhaps with more to do.
    """
    try:
        yield
    except (DataError, UsageError) as error:
        branches = [node for node in model.graph if node.op_type == "If"]
        found = _deciding(model, branches)
        named = [name for name in found if name in f"{error.problem} {error.cure}"]
        if not named or len(found) == len(model.graph.inputs):
            raise
        what = "the input that chooses" if len(found) == 1 else "the inputs that choose"
        more = f"or fix {what} a branch of the model: {_fixed(found)}"
        raise type(error)(error.subject, error.problem, f"{error.cure.rstrip('.')}; {more}") from error


def deciding_inputs(node: ir.Node) -> set[str]:
    """Names of the graph's inputs whose values say which branch of an If runs.

    What only the shape of a value depends on does not count.
    """
    condition = node.inputs[0]
    return set() if condition is None else _reached([condition])


def _reached(start: Iterable[ir.Value]) -> set[str]:
    """Inputs from which values are computed."""
    found, seen, waiting = set[str](), set[ir.Value](), list(start)
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        producer = value.producer()
        if producer is None:
            if value.is_graph_input():
                found.add(value.name or "")
        elif producer.op_type not in OF_SHAPES:
            waiting += [one for one in producer.inputs if one is not None]
            waiting += outer_values(producer)
    return found


def reads_outside(model: ir.Model) -> bool:
    """Some node that holds graphs reads values from outside of them: it is not whole by itself."""
    return any(node.op_type in CONTROL_FLOW and any(True for _ in outer_values(node)) for node in model.graph)
