"""ScatterND that writes every place of a tensor, as exporters write `x[:, :, 0:] = y`, is what is written.

ScatterND(x, all places of x in order, y)   →   Reshape(y, sizes of x)
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import add_constant, constant, put_in_place
from calib8.ops.questions import is_standard, scatters


def plain_scatter(model: ir.Model) -> int:
    """Replaces every ScatterND with constant places that are all there are, in their order.

    Returns:
        Number of nodes rewritten.
    """
    found = [node for node in model.graph if scatters(node) and is_standard(node) and _writes_all(node)]
    for node in found:
        sizes = _sizes(node)
        assert sizes is not None
        shape = add_constant(model.graph, f"{node.name}.sizes", np.array(sizes, np.int64))
        put_in_place(model.graph, node, ir.node("Reshape", [node.inputs[2], shape], name=node.name))
    if found:
        ir_passes.RemoveUnusedNodesPass()(model)
    return len(found)


def _writes_all(node: ir.Node) -> bool:
    places, sizes = constant(node.inputs[1]), _sizes(node)
    joined = node.attributes.get("reduction")
    if places is None or sizes is None or (joined is not None and joined.as_string() != "none"):
        return False
    depth = places.shape[-1]
    every = np.indices(sizes[:depth]).reshape(depth, -1).T
    return np.array_equal(places.reshape(-1, depth), every)


def _sizes(node: ir.Node) -> tuple[int, ...] | None:
    """Sizes of the tensor that is written to."""
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    if shape is None:
        return None
    sizes = tuple(size for size in shape if isinstance(size, int))
    return sizes if len(sizes) == len(shape) and all(sizes) else None
