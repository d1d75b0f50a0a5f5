"""Arithmetic with constants that change nothing: x · 1, x / 1, x + 0, x − 0, whatever the constant's shape.

onnxscript has these rules for single numbers alone; exporters write a constant [1], or one per channel. Where
such a node stays in a quantized graph, a pair of Q and DQ comes between it and the next: ONNX Runtime drops
the node and makes one pair of the two, with the smaller of the two ranges.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Final

import onnx_ir as ir

from calib8.model.graph import constant
from calib8.ops.groups import NEUTRAL

COMMUTING: Final = ("Mul", "Add")


def neutral_to_identity(model: ir.Model) -> int:
    """``x · [1 …] → Identity(x)``, ``x + [0 …] → Identity(x)`` and so on, where x has the result's shape.

    Returns:
        Number of nodes rewritten; what broadcasts x to a larger shape, or may do so, stays.
    """
    rewritten = 0
    for node in model.graph:
        kept = _kept(node) if node.domain == "" and node.op_type in NEUTRAL else None
        if kept is not None:
            node.op_type = "Identity"
            node.resize_inputs(1)
            node.replace_input_with(0, kept)
            rewritten += 1
    return rewritten


def _kept(node: ir.Node) -> ir.Value | None:
    """The operand that the node yields as it is, None where it computes something."""
    left, right = node.inputs
    if left is None or right is None:
        return None
    if _is_neutral(right, left, node.op_type):
        return left
    return right if node.op_type in COMMUTING and _is_neutral(left, right, node.op_type) else None


def _is_neutral(value: ir.Value, other: ir.Value, op_type: str) -> bool:
    array = constant(value)
    return array is not None and _keeps_shape(array.shape, other) and bool((array == NEUTRAL[op_type]).all())


def _keeps_shape(shape: tuple[int, ...], other: ir.Value) -> bool:
    """A constant of that shape does not broadcast the other operand."""
    if not shape:
        return True
    if other.shape is None or len(shape) > len(other.shape):
        return False
    sizes = zip_longest(reversed(shape), reversed(other.shape.dims), fillvalue=1)
    return all(size in (1, wanted) for size, wanted in sizes)
