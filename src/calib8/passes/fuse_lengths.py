"""Lengths of pairs spelled out, such as magnitudes of a spectrum, become one node.

    x ─┬─ Slice [0, n)  ─ Pow 2 ─┐
       └─ Slice [n, 2n) ─ Pow 2 ─┴ Add ─ Sqrt ─► y      →      x ─ Reshape [2, n] ─ ReduceL2 ─► y

    a ─ Mul(a, a) ─┐
    b ─ Mul(b, b) ─┴ Add ─ Sqrt ─► y                    →      a, b ─ Unsqueeze ─ Concat ─ ReduceL2 ─► y

Codes between these nodes would round squares, which reach over twice as many bits as what is squared: of the
codes of a loud spectrum those of a quiet one are next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import (
    Names,
    constant,
    input_at,
    is_activation,
    opset_version,
    put_in_place,
    rank,
    scalar_constant,
    sole_consumer,
)
from calib8.ops.questions import adds, is_standard, multiplies

AXES_ARE_INPUTS = 18
"""First operator set in which ReduceL2 takes axes as an input."""


@dataclass(frozen=True)
class _Halves:
    """Two parts of a tensor, [0, n) and [n, 2n) of an axis that is 2n long.

    Attributes:
        whole: the tensor.
        axis: which one.
        sizes: of the tensor with that axis as [2, n], as Reshape takes them.
    """

    whole: ir.Value
    axis: int
    sizes: tuple[int, ...]


def fuse_lengths(model: ir.Model) -> int:
    """``√(a² + b²) → ReduceL2`` of both together.

    Nothing else may read the squares or their sum, and a and b have one shape.

    Returns:
        ReduceL2 made.
    """
    made = 0
    for node in list(model.graph):
        pair = _pair(node) if node.op_type == "Sqrt" and is_standard(node) else None
        if pair is not None:
            _replace(model, node, *pair)
            made += 1
    if made:
        ir_passes.RemoveUnusedNodesPass()(model)
    return made


def _pair(root: ir.Node) -> tuple[ir.Value, ir.Value] | None:
    """a and b in front of a Sqrt, None where there is something else."""
    total = _only(root.inputs[0])
    if total is None or not adds(total):
        return None
    a, b = (_squared(_only(value)) for value in total.inputs)
    if a is None or b is None or a is b:
        return None
    same = a.shape is not None and a.shape == b.shape and len(a.shape) > 0
    return (a, b) if same and is_activation(a) and is_activation(b) else None


def _only(value: ir.Value | None) -> ir.Node | None:
    """The producer of a value that one node reads."""
    node = None if value is None else value.producer()
    alone = value is not None and sole_consumer(value) is not None
    return node if node is not None and alone and is_standard(node) else None


def _squared(node: ir.Node | None) -> ir.Value | None:
    """What a Pow or Mul takes the square of."""
    if node is None:
        return None
    if node.op_type == "Pow" and scalar_constant(node.inputs[1]) == 2.0:
        return node.inputs[0]
    return node.inputs[0] if multiplies(node) and node.inputs[0] is node.inputs[1] else None


def _halves(a: ir.Value, b: ir.Value) -> _Halves | None:
    """What a and b are the two parts of, in either order."""
    parts = sorted(filter(None, (_part(a), _part(b))), key=lambda part: part[2])
    if len(parts) != 2 or parts[0][:2] != parts[1][:2]:
        return None
    (whole, axis, first, middle), (_, _, second, last) = parts
    shape = whole.shape
    if shape is None or (first, second, last) != (0, middle, 2 * middle) or shape[axis] != last:
        return None
    behind = [size if isinstance(size, int) else -1 for size in shape[axis + 1 :]]
    if behind.count(-1) > 1:
        return None
    before = [size if isinstance(size, int) else 0 for size in shape[:axis]]  # 0 copies
    return _Halves(whole, axis, (*before, 2, middle, *behind))


def _part(value: ir.Value) -> tuple[ir.Value, int, int, int] | None:
    """Tensor, axis, first and last + 1 of a Slice along one axis in steps of 1."""
    node = value.producer()
    source = None if node is None or node.op_type != "Slice" or not is_standard(node) else node.inputs[0]
    axes = rank(source)
    if node is None or source is None or axes is None or source.shape is None:
        return None
    starts, ends = (constant(input_at(node, place)) for place in (1, 2))
    given, steps = (constant(input_at(node, place)) for place in (3, 4))
    if starts is None or ends is None or starts.size != 1 or ends.size != 1:
        return None
    if (input_at(node, 3) is not None and given is None) or (steps is not None and int(steps.item()) != 1):
        return None
    axis = 0 if given is None else int(given.item()) % axes
    size = source.shape[axis]
    if not isinstance(size, int) or (input_at(node, 4) is not None and steps is None):
        return None
    first, last = (min(max(at + size * (at < 0), 0), size) for at in (int(starts.item()), int(ends.item())))
    return source, axis, first, last


def _replace(model: ir.Model, root: ir.Node, a: ir.Value, b: ir.Value) -> None:
    """One node in the place of the root; nobody reads those before it any more."""
    names = Names(model.graph)
    together, axis = _together(names, root, a, b)
    inputs = [together]
    attributes: dict[str, int | list[int]] = {"keepdims": 0}
    if opset_version(model) >= AXES_ARE_INPUTS:
        inputs.append(names.constant(f"{root.name}/axes", np.array([axis], np.int64)))
    else:
        attributes["axes"] = [axis]
    put_in_place(model.graph, root, ir.node("ReduceL2", inputs, attributes, name=root.name))


def _together(names: Names, root: ir.Node, a: ir.Value, b: ir.Value) -> tuple[ir.Value, int]:
    """Both in one tensor, and the axis of two along which they lie."""
    halves = _halves(a, b)
    if halves is not None:
        whole, axis = halves.whole, halves.axis
        sizes = names.constant(f"{root.name}/sizes", np.array(halves.sizes, np.int64))
        shape = [*(whole.shape or ())]
        shape[axis : axis + 1] = halves.sizes[axis : axis + 2]
        return _moved(names, root, ir.node("Reshape", [whole, sizes]), shape), axis
    shape = [*(a.shape or ())]
    axis = min(len(shape) - 1, 1)
    places = names.constant(f"{root.name}/axis", np.array([axis], np.int64))
    one, two = ([*shape[:axis], size, *shape[axis:]] for size in (1, 2))
    parts = [_moved(names, root, ir.node("Unsqueeze", [value, places]), one) for value in (a, b)]
    return _moved(names, root, ir.node("Concat", parts, {"axis": axis}), two), axis


def _moved(names: Names, root: ir.Node, node: ir.Node, shape: list[int | ir.SymbolicDim]) -> ir.Value:
    """The result of a node that only moves values, put in front of the root."""
    value, source = node.outputs[0], node.inputs[0]
    node.name = names.node(f"{root.name}/{node.op_type}")
    value.name, value.shape = names.value(f"{root.name}/{node.op_type}"), ir.Shape(shape)
    value.type = None if source is None else source.type
    names.graph.insert_before(root, node)
    return value
