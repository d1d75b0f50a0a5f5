"""Whatever depends on constants alone is computed once, by ONNX Runtime: ``op(constants) → constant``.

    weight ── Reshape ── BatchNormalization (training) ── Mul ── Reshape ──┐
                                                                    x ── Conv        →   x ── Conv ── constant

onnxscript's folding stops at ops with several outputs, at large constants and at what its evaluator does not
know. The same nodes run here as they would in the float model, so the function keeps its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.errors import DataError, ModelError
from calib8.model.graph import constant, first_free, register_constant
from calib8.model.runtime import as_written, open_session

RANDOM_OPS = ("Random", "Multinomial", "Bernoulli")
"""Beginnings of the names of ops that give something else in every run."""


def any_node(node: ir.Node) -> bool:
    """Every node may become a constant."""
    del node
    return True


def evaluate_constants(
    model: ir.Model, growth_limit: int, may_go: Callable[[ir.Node], bool] = any_node
) -> int:
    """Replaces what is computed from constants alone, in one run of ONNX Runtime, by its value.

    Left alone are ops that draw numbers, control flow, what is no tensor of numbers, the graph's outputs, and
    results that hold more elements than ``growth_limit`` and than every constant they are computed from.

    Args:
        model: a graph whose constants are initializers; changed in place, its values keep their names.
        growth_limit: elements of a result that any constants may grow to.
        may_go: whether a node may become a constant; those behind one that may not stay too.

    Returns:
        Values that became constants.
    """
    reach = _reach(model.graph, may_go)
    kept = {node for node in reach if _too_large(node, reach[node], growth_limit)}
    kept |= {node for node in reach if any(value.is_graph_output() for value in node.outputs)}
    done = 0
    for value, result in _computed(model, list(_wanted(reach, kept))).items():
        producer = value.producer()
        if producer is not None and result.size <= max(growth_limit, reach[producer]):
            _replace(model.graph, value, result)
            done += 1
    if done:
        ir_passes.RemoveUnusedNodesPass()(model)
    return done


def _reach(graph: ir.Graph, may_go: Callable[[ir.Node], bool]) -> dict[ir.Node, int]:
    """Nodes that depend on constants alone → elements of the largest constant that they are computed from."""
    found: dict[ir.Node, int] = {}
    for node in graph:
        read = [value for value in node.inputs if value is not None]
        if read and _is_function(node) and may_go(node) and all(_is_constant(value, found) for value in read):
            found[node] = max(_elements_behind(value, found) for value in read)
    return found


def _is_constant(value: ir.Value, found: dict[ir.Node, int]) -> bool:
    return constant(value) is not None or value.producer() in found


def _elements_behind(value: ir.Value, found: dict[ir.Node, int]) -> int:
    producer, array = value.producer(), value.const_value
    return array.size if array is not None else found[producer] if producer is not None else 0


def _is_function(node: ir.Node) -> bool:
    """Whether equal inputs give equal tensors, and no graph inside reads other values."""
    if draws_numbers(node):
        return False
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    tensors = all(value.type is None or isinstance(value.type, ir.TensorType) for value in node.outputs)
    return tensors and not any(attribute.type in graphs for attribute in node.attributes.values())


def draws_numbers(node: ir.Node) -> bool:
    """Whether a node gives something else in every run, or may do so: Dropout draws when it trains."""
    return node.op_type.startswith(RANDOM_OPS) or "Dropout" in node.op_type


def _too_large(node: ir.Node, largest: int, growth_limit: int) -> bool:
    return any(_elements(value) > max(growth_limit, largest) for value in node.outputs if any(value.uses()))


def _elements(value: ir.Value) -> int:
    """Elements of a result as far as shape inference tells, 0 where it does not."""
    return 0 if value.shape is None else prod(size if isinstance(size, int) else 0 for size in value.shape)


def _wanted(reach: dict[ir.Node, int], kept: set[ir.Node]) -> Iterator[ir.Value]:
    """What nodes that stay read of nodes that go."""
    for node in reach:
        if node not in kept:
            for value in node.outputs:
                if any(use.node not in reach or use.node in kept for use in value.uses()):
                    yield value


def _computed(model: ir.Model, wanted: list[ir.Value]) -> dict[ir.Value, npt.NDArray[np.generic]]:
    """Their values; none where ONNX Runtime cannot tell, or one is no array of numbers."""
    if not wanted:
        return {}
    graph = ir.convenience.extract(model.graph, [], wanted)
    part = ir.Model(graph, ir_version=model.ir_version, functions=list(model.functions.values()))
    try:
        results = open_session(part, threads=1, configure=as_written).run({})
    except (ModelError, DataError):
        return {}  # nor can it run the model; whoever runs it says so
    numbers = all(isinstance(result, np.ndarray) and result.dtype.kind in "biuf" for result in results)
    return dict(zip(wanted, results, strict=True)) if numbers else {}


def _replace(graph: ir.Graph, value: ir.Value, result: npt.NDArray[np.generic]) -> None:
    """The constant takes the value's name; the value, which nobody reads any more, gets another one."""
    name = value.name or ""
    taken = set(graph.initializers) | {other.name for node in graph for other in node.outputs}
    value.name = first_free(f"{name}/computed", {one or "" for one in taken})
    ir.convenience.replace_all_uses_with(value, register_constant(graph, name, result))
