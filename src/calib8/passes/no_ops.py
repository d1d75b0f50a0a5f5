"""Nodes that give what they are given: slices of everything, reshapes to the shape that is there …

They cost a copy, and codes behind them would be a second pair directly behind that of their input: OpenVINO
crashes on two in a row behind a Concat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import constant, input_at, ints_attribute
from calib8.passes.simplify import restore_outputs


def remove_no_ops(model: ir.Model) -> int:
    """``Slice(x) → x`` where all of x is taken; so for the other ops of ``GIVES_ALL``.

    Left alone are nodes whose sizes or constants are not known, and of which more than one output is read.

    Returns:
        Nodes removed.
    """
    names = [value.name for value in model.graph.outputs]
    before = model.graph.num_nodes()
    found = [node for node in model.graph if _gives_all(node)]
    for node in found:
        copy = ir.node("Identity", [node.inputs[0]], name=node.name)
        ir.convenience.replace_nodes_and_values(
            model.graph, node, [node], [copy], list(node.outputs), list(copy.outputs)
        )
    if not found:
        return 0
    ir_passes.IdentityEliminationPass()(model)
    restore_outputs(model.graph, names)
    ir_passes.RemoveUnusedNodesPass()(model)
    return before - model.graph.num_nodes()


def _gives_all(node: ir.Node) -> bool:
    known = GIVES_ALL.get(node.op_type)
    return known is not None and not node.domain and len(node.outputs) == 1 and known(node)


def _slice(node: ir.Node) -> bool:
    """From the first place to behind the last, step by step, on every axis that it names."""
    starts, ends = (constant(input_at(node, index)) for index in (1, 2))
    axes, steps = (constant(input_at(node, index)) for index in (3, 4))
    shape = _shape(node.inputs[0])
    given = [input_at(node, index) for index in (3, 4)]
    if starts is None or ends is None or shape is None:
        return False
    if any(value is not None and array is None for value, array in zip(given, (axes, steps), strict=True)):
        return False
    if steps is not None and not np.all(steps == 1):
        return False
    places = range(starts.size) if axes is None else axes.tolist()
    limits = zip(places, starts.tolist(), ends.tolist(), strict=True)
    return all(_takes_all(shape[axis], start, end) for axis, start, end in limits)


def _takes_all(size: int | None, start: int, end: int) -> bool:
    if size is None:
        return start == 0 and end >= np.iinfo(np.int32).max
    return (start == 0 or start <= -size) and end >= size


def _same_sizes(node: ir.Node) -> bool:
    """As many axes before and after, of the same sizes; one may be free, for the others settle it."""
    before, after = _shape(node.inputs[0]), _shape(node.outputs[0])
    if before is None or after is None or len(before) != len(after):
        return False
    unknown = [(one, other) for one, other in zip(before, after, strict=True) if None in (one, other)]
    same = all(one == other for one, other in zip(before, after, strict=True) if None not in (one, other))
    return same and len(unknown) <= 1 and all(pair == (None, None) for pair in unknown) and 0 not in before


def _expand(node: ir.Node) -> bool:
    shape, wanted = _shape(node.inputs[0]), constant(input_at(node, 1))
    if shape is None or wanted is None or wanted.size > len(shape):
        return False
    sizes = shape[len(shape) - wanted.size :]
    return all(new in (1, old) for old, new in zip(sizes, wanted.tolist(), strict=True))


def _transpose(node: ir.Node) -> bool:
    order = ints_attribute(node, "perm", ())
    return bool(order) and order == tuple(range(len(order)))


def _pad(node: ir.Node) -> bool:
    amounts = constant(input_at(node, 1))
    return amounts is not None and not np.any(amounts)


def _tile(node: ir.Node) -> bool:
    repeats = constant(input_at(node, 1))
    return repeats is not None and bool(np.all(repeats == 1))


def _one_part(node: ir.Node) -> bool:
    return len(node.outputs) == 1


def _shape(value: ir.Value | None) -> tuple[int | None, ...] | None:
    """Sizes, None where one is free; None where nothing is known."""
    if value is None or value.shape is None:
        return None
    return tuple(size if isinstance(size, int) else None for size in value.shape.dims)


GIVES_ALL: Final[dict[str, Callable[[ir.Node], bool]]] = {
    "Expand": _expand,
    "Flatten": _same_sizes,
    "Pad": _pad,
    "Reshape": _same_sizes,
    "Slice": _slice,
    "Split": _one_part,
    "Tile": _tile,
    "Transpose": _transpose,
}
"""Op → whether a node of it, with one output, gives its first input as it is."""
