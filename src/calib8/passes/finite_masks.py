"""Masks of attention as finite numbers that are added: no codes hold −∞.

Softmax(Where(seen, x, −∞))   →   Softmax(x + m),  m = 0 where seen, else −10⁴
Softmax(x + m)                →   Softmax(x + max(m, −10⁴))

e^−10⁴ is 0 in float32. A row of which nothing is seen is no number before. With −10⁹ or the like for −∞
it has the same share for all: such a mask is rewritten only if every row sees something.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import add_constant, constant, int_attribute, put_in_place, rank, sole_consumer
from calib8.ops.questions import adds, is_standard

LOWEST: Final = -1e4


def finite_masks(model: ir.Model) -> int:
    """Rewrites every constant mask right before a Softmax.

    Returns:
        Number of nodes rewritten.
    """
    found = [(node, masked) for node in model.graph if (masked := _mask(node)) is not None]
    for node, (scores, mask) in found:
        added = add_constant(model.graph, f"{node.outputs[0].name}/mask", mask.astype(np.float32))
        put_in_place(model.graph, node, ir.node("Add", [scores, added], name=node.name))
    if found:
        ir_passes.RemoveUnusedNodesPass()(model)
    return len(found)


def _mask(node: ir.Node) -> tuple[ir.Value, npt.NDArray[Any]] | None:
    """What is masked, and what is to be added to it; None where nothing is, or nothing has to change."""
    reader = sole_consumer(node.outputs[0]) if len(node.outputs) == 1 else None
    if reader is None or reader.op_type != "Softmax" or not is_standard(node):
        return None
    if adds(node):
        return _lower_limit(node)
    return _chosen(node) if node.op_type == "Where" else None


def _lower_limit(node: ir.Node) -> tuple[ir.Value, npt.NDArray[Any]] | None:
    arrays = [constant(value) for value in node.inputs]
    index = 0 if arrays[0] is not None else 1
    found, scores = arrays[index], node.inputs[1 - index]
    if found is None or scores is None or arrays[1 - index] is not None or found.dtype != np.float32:
        return None
    array = found.astype(np.float32)
    low = array < LOWEST
    if np.any(np.isnan(array)) or not np.any(low) or array.max() == np.inf:
        return None
    if not np.all(array[low] == -np.inf) and not _sees(node, array):
        return None
    return scores, np.maximum(array, np.float32(LOWEST))


def _chosen(node: ir.Node) -> tuple[ir.Value, npt.NDArray[Any]] | None:
    seen, arrays = constant(node.inputs[0]), [constant(value) for value in node.inputs[1:]]
    index = 0 if arrays[0] is None else 1
    scores, far = node.inputs[1 + index], arrays[1 - index]
    if seen is None or scores is None or far is None or arrays[index] is not None:
        return None
    low = far.astype(np.float32)
    if scores.shape is None or node.outputs[0].shape != scores.shape or not np.all(low <= LOWEST):
        return None
    kept = seen.astype(bool) if index == 0 else ~seen.astype(bool)
    mask = np.where(kept, np.float32(0), np.full(low.shape, LOWEST, np.float32))
    return (scores, mask) if np.all(low == -np.inf) or _sees(node, mask) else None


def _sees(node: ir.Node, mask: npt.NDArray[np.float32]) -> bool:
    """Whether something is seen in every row of the Softmax behind a node."""
    reader = sole_consumer(node.outputs[0])
    over_rows = reader is not None and is_over_rows(reader) and mask.ndim > 0
    return over_rows and bool(np.all(mask.max(axis=-1) > LOWEST / 10))


def is_over_rows(node: ir.Node) -> bool:
    """A Softmax over the last axis."""
    axis, axes = int_attribute(node, "axis", -1), rank(node.outputs[0])
    return node.op_type == "Softmax" and (axis == -1 or (axes is not None and axis == axes - 1))
