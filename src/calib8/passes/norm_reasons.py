"""Why a normalization by what is computed of its input stays float, as far as the node itself tells.

its results       include mean or spread, and somebody reads them
its parameters    are computed, of another type, of a form that is not one per value, or hold NaN or Inf
its rows          are longer than sums of codes may be
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from calib8.model.graph import constant, int_attribute, rank
from calib8.ops.limits import LARGEST_GROUP, LONGEST_ROW, LONGEST_ROW_AROUND_0
from calib8.ops.questions import has_length_1


def why_rows_float(node: ir.Node) -> str:
    """Of an op that normalizes rows: empty if they have an integer form."""
    if has_length_1(node) and int_attribute(node, "p", 2) != 2:
        return "it adds up magnitudes, not squares"
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        return "its mean or its spread is read"
    sizes = _row_sizes(node)
    known = [size for size in sizes or () if isinstance(size, int)]
    longest = LONGEST_ROW if node.op_type == "LayerNormalization" else LONGEST_ROW_AROUND_0
    if math.prod(known) > longest:
        return f"it normalizes {math.prod(known)} values at once"
    for value in node.inputs[1:]:
        array = None if value is None else constant(value)
        if value is not None and array is None:
            return "its scale or its bias is computed"
        if array is None:
            continue
        if array.dtype != np.float32 or not _fits(array.shape, sizes) or array.size > longest:
            return f"its scale or its bias is {array.dtype} of shape {list(array.shape)}"
        if not np.all(np.isfinite(array)):
            return "its scale or its bias holds NaN or Inf"
    return ""


def why_groups_float(node: ir.Node) -> str:
    """Of an InstanceNormalization or GroupNormalization: empty if its groups have an integer form."""
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    if shape is None or len(shape) < 3:
        return "its input has no channels over places" if shape is not None else "its axes are unknown"
    channels = shape[1]
    if not isinstance(channels, int):
        return "the number of its channels is unknown"
    groups = int_attribute(node, "num_groups", channels)
    known = [size for size in shape[2:] if isinstance(size, int)]
    if math.prod(known) * (channels // groups) > LARGEST_GROUP:
        return f"it normalizes {math.prod(known) * (channels // groups)} values at once"
    for array in map(constant, node.inputs[1:]):
        if array is None:
            return "its scale or its bias is computed"
        if array.dtype != np.float32 or array.shape not in ((groups,), (channels,)):
            return f"its scale or its bias is {array.dtype} of shape {list(array.shape)}"
        if not np.all(np.isfinite(array)):
            return "its scale or its bias holds NaN or Inf"
    return ""


def _row_sizes(node: ir.Node) -> list[int | None] | None:
    """Sizes of the axes that are normalized, None where one is not known; None if nobody knows how many."""
    axis, axes = int_attribute(node, "axis", -1), rank(node.inputs[0])
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    if axes is None or shape is None:
        return [None] * -axis if axis < 0 else None
    if has_length_1(node):
        return [size if isinstance(size := shape[axis % axes], int) else None]
    return [size if isinstance(size, int) else None for size in shape[axis % axes :]]


def _fits(shape: tuple[int, ...], sizes: list[int | None] | None) -> bool:
    """Whether there is a parameter for every value of a row, or one for several."""
    if sizes is None:
        return True
    lead, own = shape[: max(len(shape) - len(sizes), 0)], shape[-len(sizes) :]
    behind = sizes[len(sizes) - len(own) :] if own else []
    return all(size == 1 for size in lead) and all(
        one == 1 or size is None or one == size for one, size in zip(own, behind, strict=True)
    )
