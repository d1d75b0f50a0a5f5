"""LayerNormalization spelled out, as exporters write it for old operator sets, becomes one node.

    m = ReduceMean(x)    d = Sub(x, m)    v = ReduceMean(Pow(d, 2))    y = Div(d, Sqrt(Add(v, ε)))
    Add(Mul(y, γ), β)                     over the last axes, or without Mul or Add

Codes between these nodes would round what has no scale of its own: a square, a spread, a quotient. It runs
before ReduceMean, Mul and Add become other things.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import (
    add_constant,
    constant,
    int_attribute,
    is_activation,
    put_in_place,
    rank,
    reduced_axes,
    scalar_constant,
    sole_consumer,
)
from calib8.ops.limits import LONGEST_ROW
from calib8.ops.questions import adds, divides, is_standard, multiplies, subtracts

Sizes = tuple[int, ...]


@dataclass
class _Rows:
    """What a Div brings to mean 0 and spread 1, and the nodes that do it."""

    source: ir.Value
    sizes: Sizes
    epsilon: float
    nodes: list[ir.Node]


def fuse_layer_norm(model: ir.Model) -> int:
    """``(x − mean) / √(variance + ε) · γ + β → LayerNormalization(x, γ, β)``.

    The sizes of the last axes must be known, and nothing else may read what is computed on the way.

    Returns:
        LayerNormalizations made.
    """
    made = 0
    for node in list(model.graph):
        rows = _rows(node) if divides(node) and is_standard(node) else None
        if rows is None:
            continue
        scale, last = _parameter(node, rows.sizes, is_scale=True)
        bias, last = _parameter(last, rows.sizes, is_scale=False)
        _replace(model.graph, rows, last, scale, bias)
        made += 1
    if made:
        ir_passes.RemoveUnusedNodesPass()(model)
    return made


def _rows(quotient: ir.Node) -> _Rows | None:
    """The pattern in front of a Div, None where there is another one."""
    centred, root = quotient.inputs
    spread = _only(root, "Sqrt")
    raised = None if spread is None else _only(spread.inputs[0], "Add")
    if centred is None or spread is None or raised is None:
        return None
    variance, epsilon = _with_number(raised)
    mean_of = _only(variance, "ReduceMean")
    square = None if mean_of is None else mean_of.inputs[0]
    squared = None if square is None else square.producer()
    if mean_of is None or squared is None or epsilon is None or not 0 <= epsilon < math.inf:
        return None
    base = _squared(squared)
    if base is None or sole_consumer(squared.outputs[0]) is not mean_of:
        return None
    nodes = [squared, mean_of, raised, spread]
    source = _source(centred, base, nodes)
    means = [node for node in nodes if node.op_type == "ReduceMean"]
    sizes = None if source is None else _common_sizes(source, means)
    return None if source is None or sizes is None else _Rows(source, sizes, epsilon, nodes)


def _only(value: ir.Value | None, op_type: str) -> ir.Node | None:
    """The producer of a value that one node reads, if it is of this op."""
    node = None if value is None else value.producer()
    if value is None or node is None or node.op_type != op_type or not is_standard(node):
        return None
    return node if sole_consumer(value) is not None else None


def _with_number(node: ir.Node) -> tuple[ir.Value | None, float | None]:
    """The two operands of an Add of a number."""
    for value, other in (node.inputs, reversed(node.inputs)):
        number = scalar_constant(other)
        if number is not None:
            return value, number
    return None, None


def _squared(node: ir.Node) -> ir.Value | None:
    """What a Pow or Mul takes the square of."""
    if node.op_type == "Pow" and scalar_constant(node.inputs[1]) == 2.0:
        return node.inputs[0]
    return node.inputs[0] if multiplies(node) and node.inputs[0] is node.inputs[1] else None


def _source(centred: ir.Value, base: ir.Value, nodes: list[ir.Node]) -> ir.Value | None:
    """What the means are taken of; adds the Sub nodes (one, or one for each reader) and the first mean."""
    found: set[ir.Value | None] = set()
    for value in dict.fromkeys((centred, base)):
        node = value.producer()
        if node is None or not subtracts(node) or value.is_graph_output():
            return None
        mean = None if node.inputs[1] is None else node.inputs[1].producer()
        if mean is None or mean.op_type != "ReduceMean" or mean.inputs[0] is not node.inputs[0]:
            return None
        nodes += [node, *([] if mean in nodes else [mean])]
        found.add(node.inputs[0])
    inside = {*nodes}
    results = [value for node in nodes for value in node.outputs]
    readers = [use.node for value in results for use in value.uses()]
    outside = [node for node in readers if node not in inside]
    ends = len(set(outside)) == 1 and divides(outside[0])
    leaves = any(value.is_graph_output() for value in results)
    return found.pop() if len(found) == 1 and ends and not leaves else None


def _common_sizes(source: ir.Value, means: list[ir.Node]) -> Sizes | None:
    """Sizes of the last axes, if both means are over these and keep them; None for rows that are too long."""
    shape = source.shape
    if shape is None or not is_activation(source):
        return None
    axes = {tuple(sorted(reduced_axes(node, len(shape)))) for node in means}
    chosen = axes.pop() if len(axes) == 1 else ()
    sizes = tuple(size for size in shape[len(shape) - len(chosen) :] if isinstance(size, int))
    last = chosen == tuple(range(len(shape) - len(chosen), len(shape)))
    kept = all(int_attribute(node, "keepdims", 1) for node in means)
    if not chosen or not last or not kept or len(sizes) != len(chosen) or math.prod(sizes) > LONGEST_ROW:
        return None
    return sizes


def _parameter(
    node: ir.Node, sizes: Sizes, *, is_scale: bool
) -> tuple[npt.NDArray[np.float32] | None, ir.Node]:
    """The constant of the Mul or Add that alone reads a node's result, one number per value, and that node.

    None and the node itself where there is none.
    """
    reader = sole_consumer(node.outputs[0])
    if reader is None or not is_standard(reader) or not (multiplies if is_scale else adds)(reader):
        return None, node
    array = next((found for found in map(constant, reader.inputs) if found is not None), None)
    if array is None or array.dtype != np.float32 or math.prod(array.shape[: -len(sizes)]) != 1:
        return None, node
    shape: Sizes = array.shape[-len(sizes) :]
    fits = all(have in (1, size) for have, size in zip(shape, sizes[len(sizes) - len(shape) :], strict=True))
    if not fits or array.ndim > (rank(node.outputs[0]) or 0):
        return None, node
    return np.ascontiguousarray(np.broadcast_to(array.reshape(shape), sizes), np.float32), reader


def _replace(
    graph: ir.Graph,
    rows: _Rows,
    last: ir.Node,
    scale: npt.NDArray[np.float32] | None,
    bias: npt.NDArray[np.float32] | None,
) -> None:
    """One node in the place of the last one; nobody reads those before it any more."""
    whole = np.ones(rows.sizes, np.float32) if scale is None else scale
    inputs = [rows.source, add_constant(graph, f"{last.name}.scale", whole)]
    if bias is not None:
        inputs.append(add_constant(graph, f"{last.name}.bias", bias))
    attributes = {"axis": -len(rows.sizes), "epsilon": rows.epsilon}
    put_in_place(graph, last, ir.node("LayerNormalization", inputs, attributes, name=last.name))
