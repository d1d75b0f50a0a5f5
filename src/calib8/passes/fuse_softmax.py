"""Softmax spelled out, as it is exported from JAX, becomes one node.

    e = Exp(Sub(x, ReduceMax(x)))        y = Div(e, ReduceSum(e))        or e · Reciprocal(ReduceSum(e))
    y = Reshape(Softmax(Flatten<axis=-1>(x)), Shape(x))                  as old operator sets define it

Without the Sub too. Codes between these nodes would have to hold sums of exponentials.
"""

from __future__ import annotations

import math

import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import (
    input_at,
    int_attribute,
    is_activation,
    put_in_place,
    rank,
    scalar_constant,
)
from calib8.ops.questions import divides, is_standard, multiplies, reshapes, subtracts
from calib8.passes.norm_terms import Term, is_closed, lies_along, moved, orders, reduced


def fuse_softmax(model: ir.Model) -> int:
    """``exp(x − max) / Σ exp(x − max) → Softmax(x)`` over one axis; flattened rows need not be.

    Nothing else may read what is computed on the way.

    Returns:
        Softmaxes made.
    """
    made = 0
    for node in list(model.graph):
        rows = (_rows(node) or _flattened(node)) if is_standard(node) else None
        if rows is None or not is_closed(rows.nodes, node):
            continue
        softmax = ir.node("Softmax", [rows.source], {"axis": rows.axes[0]}, name=node.name)
        put_in_place(model.graph, node, softmax)
        made += 1
    if made:
        ir_passes.RemoveUnusedNodesPass()(model)
    return made


def _rows(node: ir.Node) -> Term | None:
    """The rows that a Div or Mul divides by their sums, None for other nodes."""
    if divides(node):
        return _exponentials(node.inputs[0], node.inputs[1])
    if not multiplies(node):
        return None
    for one, other in orders(node):
        inverse = None if other is None else other.producer()
        if inverse is not None and inverse.op_type == "Reciprocal" and is_standard(inverse):
            found = _exponentials(one, inverse.inputs[0])
            return None if found is None else found.behind(inverse)
    return None


def _flattened(node: ir.Node) -> Term | None:
    """The rows of a Softmax between a Flatten to rows and a Reshape back; None for other nodes."""
    softmax = _made_by(node.inputs[0] if reshapes(node) else None, "Softmax")
    flatten = None if softmax is None else _made_by(softmax.inputs[0], "Flatten")
    if softmax is None or flatten is None:
        return None
    source, given = input_at(flatten, 0), input_at(node, 1)
    shape = _made_by(given, "Shape")
    whole = shape is not None and not shape.attributes
    axes = rank(source)
    if source is None or axes is None or not whole:
        return None
    last = int_attribute(flatten, "axis", 1) in (-1, axes - 1) and int_attribute(softmax, "axis", -1) in (
        -1,
        1,
    )
    sized = shape is not None and shape.inputs[0] is source
    return Term(source, (axes - 1,), frozenset((softmax, flatten))) if last and sized else None


def _made_by(value: ir.Value | None, op_type: str) -> ir.Node | None:
    """The node that yields a value, if its op is this one."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == op_type and is_standard(node) else None


def _exponentials(value: ir.Value | None, divisor: ir.Value | None) -> Term | None:
    """What exponentials are taken of, where the divisor is their sum along one axis."""
    total, raised = _along(divisor, "ReduceSum"), None if value is None else value.producer()
    if total is None or raised is None or raised.op_type != "Exp" or not is_standard(raised):
        return None
    inside = raised.inputs[0]
    if total.source is not value or inside is None or not is_activation(inside):
        return None
    nodes = total.nodes | {raised}
    lowered = inside.producer()
    if lowered is not None and is_standard(lowered) and subtracts(lowered):
        largest = _along(lowered.inputs[1], "ReduceMax")
        if largest is not None and (largest.source, largest.axes) == (lowered.inputs[0], total.axes):
            return Term(largest.source, total.axes, nodes | largest.nodes | {lowered})
    return Term(inside, total.axes, nodes)


def _along(value: ir.Value | None, op_type: str) -> Term | None:
    """A reduction over one axis, in the axes of its source; a limit of −∞ changes nothing."""
    inner, moves = moved(value)
    node = None if inner is None else inner.producer()
    nodes = [*moves]
    if node is not None and node.op_type == "Max" and is_standard(node) and len(node.inputs) == 2:
        nodes.append(node)
        free = [one for one, other in orders(node) if scalar_constant(other) == -math.inf]
        node = free[0].producer() if free and free[0] is not None else None
    if node is None or node.op_type != op_type or not is_standard(node):
        return None
    found = reduced(node)
    if found is None or len(found.axes) != 1 or input_at(node, 0) is None:
        return None
    found = found.behind(*nodes)
    return found if lies_along(value, found) else None
