"""Outputs that a Concat makes of branches, such as the boxes and the scores of a detector, taken apart.

    boxes (0 … 640) ─┐
    scores (0 … 1) ──┴ Concat → output          becomes          output[boxes], output[scores]

The noise of a large branch hides all that happens to a small one; as outputs of their own each counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, int_attribute, ints_attribute, rank
from calib8.quantization.qdq import float_origin, label

_KEEPING: Final = ("Identity", "Relu", "Clip", "Sigmoid")
"""Ops behind a Concat that leave every value in its place."""


@dataclass(frozen=True)
class Branches:
    """What an output is made of.

    Attributes:
        node: label of the Concat.
        tensors: names of its inputs.
        axis: of the output, > 0, along which they lie.
        sizes: of each along that axis.
    """

    node: str
    tensors: tuple[str, ...]
    axis: int
    sizes: tuple[int, ...]


def output_branches(model: ir.Model) -> tuple[Branches | None, ...]:
    """For every output of a graph the branches that it is made of, None where it is not."""
    return tuple(_branches(value) for value in model.graph.outputs)


def _branches(value: ir.Value) -> Branches | None:
    """Follows an output back to a Concat."""
    behind: list[ir.Node] = []
    node = float_origin(value).producer()
    while node is not None and node.op_type in (*_KEEPING, "Transpose", "Reshape"):
        behind.append(node)
        source = node.inputs[0]
        node = None if source is None else float_origin(source).producer()
    if node is None or node.op_type != "Concat":
        return None
    axes, inputs = rank(node.outputs[0]), [value for value in node.inputs if value is not None]
    if axes is None or len(inputs) < 2 or any(value.shape is None for value in inputs):
        return None
    axis: int | None = int_attribute(node, "axis", 0) % axes
    sizes = tuple(value.shape[axis or 0] for value in inputs if value.shape is not None)
    for one in reversed(behind):
        axis = None if axis is None else _axis_behind(one, axis)
    if not axis or not all(isinstance(size, int) for size in sizes):
        return None
    names = tuple(float_origin(value).name or "" for value in inputs)
    return Branches(label(node), names, axis, tuple(int(size) for size in sizes if isinstance(size, int)))


def _axis_behind(node: ir.Node, axis: int) -> int | None:
    """Where a node leaves an axis of its input; None where it takes it apart."""
    if node.op_type == "Transpose":
        order = ints_attribute(node, "perm", ())
        return order.index(axis) if axis in order else None
    if node.op_type != "Reshape":
        return axis
    before, after = (_sizes(value) for value in (node.inputs[0], node.outputs[0]))
    if len(before) <= axis or not after:
        return None
    prefix = math.prod(before[:axis])
    places = (i for i, size in enumerate(after) if size == before[axis] and math.prod(after[:i]) == prefix)
    return next(places, None)


def _sizes(value: ir.Value | None) -> list[int]:
    """Sizes of a tensor, 1 for what is not known: the batch."""
    shape = () if value is None or value.shape is None else value.shape
    return [size if isinstance(size, int) else 1 for size in shape]


def with_branches(model: ir.Model, found: Sequence[Branches | None]) -> ir.Model:
    """A copy in which each output is replaced by its branches.

    Args:
        model: of a network with as many outputs, float or QDQ.
        found: for each of them what it is made of, None for those that stay.
    """
    copy = model.clone()
    names, outputs = Names(copy.graph), list(copy.graph.outputs)
    copy.graph.outputs.clear()
    for output, branches in zip(outputs, found, strict=True):
        if branches is None or output.dtype != ir.DataType.FLOAT:
            copy.graph.outputs.append(output)
            continue
        ends = np.cumsum((0, *branches.sizes))
        for first, last in pairwise(ends):
            copy.graph.outputs.append(_slice(names, output, branches.axis, int(first), int(last)))
    return copy


def _slice(names: Names, output: ir.Value, axis: int, first: int, last: int) -> ir.Value:
    """Entries ``first`` … ``last`` − 1 of an axis."""
    bounds = [names.constant("calib8/branch", np.array([n], np.int64)) for n in (first, last, axis)]
    node = ir.node("Slice", [output, *bounds], name=names.node("calib8/branch"))
    value = node.outputs[0]
    value.name = names.value(f"{output.name}/branch")
    value.type = output.type
    if output.shape is not None:
        sizes = [last - first if index == axis else size for index, size in enumerate(output.shape)]
        value.shape = ir.Shape(sizes)
    names.graph.append(node)
    return value
