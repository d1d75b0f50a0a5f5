"""Pads that state every axis.

ONNX Runtime moves a Transpose past a Pad that names axes as if it named none. Between integer convolutions
that ends with an error, also for CenterCropPad, which has such a Pad inside.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import (
    add_constant,
    constant,
    input_at,
    ints_attribute,
    put_in_place,
    rank,
    unique_name,
    unique_node_name,
)
from calib8.ops.questions import crops_or_pads, is_standard, pads

Ints = npt.NDArray[np.int64]


def plain_pads(model: ir.Model) -> int:
    """``Pad(x, pads, axes) → Pad(x, pads of all axes)``; ``CenterCropPad(x, sizes) → Pad(Slice(x), pads)``.

    What has computed pads, axes or sizes, names axes of unknown size for a CenterCropPad, or reads a tensor
    of unknown rank, stays.

    Returns:
        Number of nodes rewritten.
    """
    found = 0
    for node in list(model.graph):
        if not is_standard(node):
            continue
        if pads(node):
            found += _state_all_axes(model.graph, node)
        elif crops_or_pads(node):
            found += _crop_and_pad(model.graph, node)
    return found


def _state_all_axes(graph: ir.Graph, node: ir.Node) -> bool:
    axes, amounts, count = constant(input_at(node, 3)), constant(input_at(node, 1)), rank(node.inputs[0])
    if axes is None or amounts is None or not count or amounts.size != 2 * axes.size:
        return False
    every = np.zeros((2, count), np.int64)
    every[:, axes.reshape(-1) % count] = amounts.reshape(2, -1)
    node.replace_input_with(1, add_constant(graph, f"{node.name}.pads", every.reshape(-1)))
    node.resize_inputs(3 if input_at(node, 2) is not None else 2)
    return True


def _crop_and_pad(graph: ir.Graph, node: ir.Node) -> bool:
    """Half of what is too much, or lacks, is on either side of an axis, the odd one at its end."""
    source, wanted = node.inputs[0], constant(node.inputs[1])
    if source is None or source.shape is None or wanted is None or not len(source.shape):
        return False
    count = len(source.shape)
    axes = np.array(ints_attribute(node, "axes", tuple(range(count))), np.int64) % count
    sizes = [source.shape[axis] for axis in axes.tolist()]
    if wanted.size != axes.size or not all(isinstance(size, int) for size in sizes):
        return False
    have, target = np.array(sizes, np.int64), wanted.reshape(-1).astype(np.int64)
    cropped, lacking = np.maximum(have - target, 0), np.maximum(target - have, 0)
    if cropped.any():
        source = _cut(graph, node, source, axes, cropped // 2, cropped // 2 + np.minimum(have, target))
    every = np.zeros((2, count), np.int64)
    every[:, axes] = lacking // 2, lacking - lacking // 2
    amounts = add_constant(graph, f"{node.name}.pads", every.reshape(-1))
    put_in_place(graph, node, ir.node("Pad", [source, amounts], name=node.name))
    return True


def _cut(graph: ir.Graph, node: ir.Node, source: ir.Value, axes: Ints, starts: Ints, ends: Ints) -> ir.Value:
    numbers = {"starts": starts, "ends": ends, "axes": axes}
    operands = [add_constant(graph, f"{node.name}.{key}", array) for key, array in numbers.items()]
    cut = ir.node("Slice", [source, *operands], name=unique_node_name(graph, f"{node.name}_slice"))
    cut.outputs[0].name = unique_name(graph, f"{node.outputs[0].name}_cut")
    cut.outputs[0].type = node.outputs[0].type
    cut.outputs[0].shape = _cut_shape(source, axes, ends - starts)
    graph.insert_before(node, cut)
    return cut.outputs[0]


def _cut_shape(source: ir.Value, axes: Ints, sizes: Ints) -> ir.Shape | None:
    if source.shape is None:
        return None
    shape = list(source.shape)
    for axis, size in zip(axes, sizes, strict=True):
        shape[int(axis)] = int(size)
    return ir.Shape(shape)
