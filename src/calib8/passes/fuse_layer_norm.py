"""LayerNormalization spelled out, as exporters write it for old operator sets, becomes one node.

    d / √(v + ε)      d · (1 / √(v + ε))      d · (1 / √(v + ε) · γ)      d = x − mean, v the variance
    x · s + (β − mean · s)                    s = 1 / √(v + ε) or that · γ
    Add(Mul(y, γ), β)                         behind the first three, or without Mul or Add

Rows are the last axes, or others, which are then moved to the end and back. Codes between these nodes would
round what has no scale of its own: a square, a spread, a quotient. It runs before ReduceMean, Mul and Add
become other things.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import (
    add_constant,
    constant,
    is_activation,
    put_in_place,
    rank,
    sole_consumer,
    unique_name,
    unique_node_name,
)
from calib8.ops.limits import LONGEST_ROW
from calib8.ops.questions import adds, divides, is_standard, multiplies, subtracts
from calib8.passes.norm_terms import Term, centred, inverse, is_closed, lies_along, mean_of, orders, root

Sizes = tuple[int, ...]
F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class _Rows:
    """What brings rows to mean 0 and spread 1, times γ, plus β.

    Attributes:
        spread: the root or its inverse, with all nodes in front of the last one.
        sizes: of its axes.
        last: yields the result.
        scale, bias: float32 of these sizes; None where there is none.
    """

    spread: Term
    sizes: Sizes
    last: ir.Node
    scale: F32 | None = None
    bias: F32 | None = None


def fuse_layer_norm(model: ir.Model) -> int:
    """``(x − mean) / √(variance + ε) · γ + β → LayerNormalization(x, γ, β)``.

    The sizes of the axes must be known, and nothing else may read what is computed on the way.

    Returns:
        LayerNormalizations made.
    """
    made = 0
    for node in list(model.graph):
        rows = _rows(node) if node.graph is model.graph and is_standard(node) else None
        if rows is None:
            continue
        _replace(model.graph, _with_parameters(rows))
        made += 1
    if made:
        ir_passes.RemoveUnusedNodesPass()(model)
    return made


def _rows(node: ir.Node) -> _Rows | None:
    """What a node ends, None where it ends no such computation."""
    if divides(node):
        found = _of_two(node, centred(node.inputs[0]), root(node.inputs[1]), node.inputs[1])
    elif multiplies(node):
        found = next(filter(None, (_product(node, *pair) for pair in orders(node))), None)
    else:
        found = _shifted(node)
    return found if found is not None and is_closed(found.spread.nodes, node) else None


def _product(node: ir.Node, one: ir.Value | None, other: ir.Value | None) -> _Rows | None:
    """d · inverse, or d · (inverse · γ)."""
    distance = centred(one)
    if distance is None:
        return None
    factor = _factor(other)
    if factor is None:
        return None
    spread, at, scale = factor
    found = _of_two(node, distance, spread, at)
    return None if found is None else _scaled(found, scale)


def _factor(value: ir.Value | None) -> tuple[Term, ir.Value | None, ir.Value | None] | None:
    """An inverse root, or one times γ: the term, where it is alone, and γ."""
    spread = inverse(value)
    if spread is not None:
        return spread, value, None
    node = None if value is None else value.producer()
    if node is None or not is_standard(node) or not multiplies(node):
        return None
    for one, other in orders(node):
        spread = inverse(one) if constant(other) is not None else None
        if spread is not None:
            return spread.behind(node), one, other
    return None


def _of_two(node: ir.Node, distance: Term | None, spread: Term | None, at: ir.Value | None) -> _Rows | None:
    """Rows where the distance and the spread are of the same ones."""
    if distance is None or spread is None or (distance.source, distance.axes) != (spread.source, spread.axes):
        return None
    sizes = _sizes(spread) if lies_along(at, spread) else None
    return None if sizes is None else _Rows(spread.behind(*distance.nodes), sizes, node)


def _shifted(node: ir.Node) -> _Rows | None:
    """x · s + (β − mean · s), or x · s − mean · s."""
    if not (adds(node) or subtracts(node)):
        return None
    for first, second in orders(node)[: 2 if adds(node) else 1]:
        shift = None if second is None else second.producer()
        bias, lowered, nodes = None, second, list[ir.Node]()
        if adds(node):
            if shift is None or not is_standard(shift) or not subtracts(shift):
                continue
            bias, lowered, nodes = shift.inputs[0], shift.inputs[1], [shift]
        found = _scaled_and_lowered(node, first, lowered, nodes)
        if found is not None:
            return found if bias is None else _raised(found, bias)
    return None


def _scaled_and_lowered(
    node: ir.Node, first: ir.Value | None, lowered: ir.Value | None, more: list[ir.Node]
) -> _Rows | None:
    """x · s and mean · s with one s."""
    raised, down = (None if value is None else value.producer() for value in (first, lowered))
    if raised is None or down is None or not (multiplies(raised) and multiplies(down)):
        return None
    for x, s in orders(raised):
        for mean, other in orders(down):
            factor, middle = (_factor(s), mean_of(mean)) if s is other else (None, None)
            if factor is None or middle is None or not lies_along(mean, middle) or middle.source is not x:
                continue
            spread, at, scale = factor
            found = _of_two(node, middle.behind(raised, down, *more), spread, at)
            return None if found is None else _scaled(found, scale)
    return None


def _sizes(rows: Term) -> Sizes | None:
    """Sizes of the axes of rows; None for rows that are too long, or go over the batch beside other axes."""
    shape = rows.source.shape
    if shape is None or not is_activation(rows.source):
        return None
    sizes = tuple(size for axis in rows.axes if isinstance(size := shape[axis], int))
    known = len(sizes) == len(rows.axes) and math.prod(sizes) <= LONGEST_ROW
    return sizes if known and (_are_last(rows) or 0 not in rows.axes) else None


def _are_last(rows: Term) -> bool:
    axes = rank(rows.source) or 0
    return rows.axes == tuple(range(axes - len(rows.axes), axes))


def _per_value(value: ir.Value | None, rows: _Rows) -> F32 | None:
    """A constant with one number for each value of a row, [sizes], or None where it is something else."""
    array, axes = constant(value), rank(rows.spread.source) or 0
    if array is None or array.dtype != np.float32 or array.ndim > axes:
        return None
    whole = array.reshape((1,) * (axes - array.ndim) + array.shape)
    alone = [size for axis, size in enumerate(whole.shape) if axis not in rows.spread.axes]
    own = tuple(whole.shape[axis] for axis in rows.spread.axes)
    if any(size != 1 for size in alone) or any(
        have not in (1, size) for have, size in zip(own, rows.sizes, strict=True)
    ):
        return None
    return np.ascontiguousarray(np.broadcast_to(whole.reshape(own), rows.sizes), np.float32)


def _scaled(rows: _Rows, scale: ir.Value | None) -> _Rows | None:
    """With a γ that was found on the way; None where it is not one number per value."""
    array = _per_value(scale, rows)
    return rows if scale is None else None if array is None else replace(rows, scale=array)


def _raised(rows: _Rows, bias: ir.Value) -> _Rows | None:
    """With a β that was found on the way; None where it is not one number per value."""
    array = _per_value(bias, rows)
    return None if array is None else replace(rows, bias=array)


def _with_parameters(rows: _Rows) -> _Rows:
    """With the Mul and the Add of a constant that alone read the result."""
    for reader, array, is_scale in _readers(rows):
        if is_scale:
            rows = replace(rows, last=reader, scale=array)
        else:
            return replace(rows, last=reader, bias=array)
    return rows


def _readers(rows: _Rows) -> Iterator[tuple[ir.Node, F32, bool]]:
    """The Mul behind rows that have neither γ nor β, then the Add behind rows without β."""
    last = rows.last
    for is_scale in (True, False):
        reader = sole_consumer(last.outputs[0])
        fits = reader is not None and is_standard(reader) and (multiplies if is_scale else adds)(reader)
        if reader is None or not fits or rows.bias is not None or (is_scale and rows.scale is not None):
            continue
        array = next((found for one in reader.inputs if (found := _per_value(one, rows)) is not None), None)
        if array is not None:
            yield reader, array, is_scale
            last = reader


def _replace(graph: ir.Graph, rows: _Rows) -> None:
    """One node in the place of the last one; nobody reads those before it any more."""
    last, source = rows.last, rows.spread.source
    axes = rank(source) or 0
    order = [axis for axis in range(axes) if axis not in rows.spread.axes] + list(rows.spread.axes)
    moved = source if _are_last(rows.spread) else _transposed(graph, last, source, order, "rows")
    whole = np.ones(rows.sizes, np.float32) if rows.scale is None else rows.scale
    inputs = [moved, add_constant(graph, f"{last.name}.scale", whole)]
    if rows.bias is not None:
        inputs.append(add_constant(graph, f"{last.name}.bias", rows.bias))
    attributes = {"axis": -len(rows.sizes), "epsilon": rows.spread.epsilon}
    if _are_last(rows.spread):
        put_in_place(graph, last, ir.node("LayerNormalization", inputs, attributes, name=last.name))
        return
    name = unique_node_name(graph, f"{last.name}/normalized")
    norm = ir.node("LayerNormalization", inputs, attributes, name=name)
    result = norm.outputs[0]
    result.name, result.type, result.shape = (
        unique_name(graph, f"{last.name}.normalized"),
        moved.type,
        moved.shape,
    )
    graph.insert_before(last, norm)
    back = {"perm": [order.index(axis) for axis in range(axes)]}
    put_in_place(graph, last, ir.node("Transpose", [result], back, name=last.name))


def _transposed(graph: ir.Graph, before: ir.Node, value: ir.Value, order: list[int], word: str) -> ir.Value:
    """A value with its axes in another order, computed in front of a node."""
    node = ir.node(
        "Transpose", [value], {"perm": order}, name=unique_node_name(graph, f"{before.name}/{word}")
    )
    result = node.outputs[0]
    result.name, result.type = unique_name(graph, f"{before.name}.{word}"), value.type
    result.shape = None if value.shape is None else ir.Shape([value.shape[axis] for axis in order])
    graph.insert_before(before, node)
    return result
