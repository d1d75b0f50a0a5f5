"""Why a node cannot be computed from codes, as far as the node itself tells.

its op            has no integer form
its weights       are computed, of another type, or hold NaN or Inf
its windows       have gaps, or frames of groups that overlap; it interpolates along other axes
its parameters    are computed: limits, slopes, what a border is filled with, scales of rows
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from calib8.model.graph import constant, input_at, is_activation, rank, scalar_constant
from calib8.model.layer import Layer, layer_of
from calib8.ops.groups import (
    AVERAGE_POOLS,
    BINARY_OPS,
    FUNCTION_OPS,
    MOVE_OPS,
    OPERAND_OPS,
    QUANTIZABLE_OPS,
    TARGET_OPS,
)
from calib8.ops.questions import (
    clips,
    has_slopes,
    is_standard,
    joins,
    normalizes_groups,
    normalizes_rows,
    pads,
)
from calib8.passes.norm_reasons import why_groups_float, why_rows_float
from calib8.passes.window_reasons import why_frames_float, why_window_float


def why_float(node: ir.Node, keep_float: frozenset[str]) -> str:
    """Reason for which a node cannot be quantized by itself or as part of a function, empty if it can.

    Args:
        node: of a prepared graph.
        keep_float: names of nodes that the user wants in float.
    """
    if node.name in keep_float:
        return "the user keeps it in float"
    if not is_standard(node) or node.op_type not in QUANTIZABLE_OPS | FUNCTION_OPS | TARGET_OPS:
        return "the op has no integer form"
    if reads_unknown_type(node):
        return "the type of its input is unknown"
    layer = layer_of(node)
    if layer is not None:
        return _why_weight_float(layer)
    if node.op_type in MOVE_OPS or clips(node) or has_slopes(node):
        return _why_operand_float(node) or why_window_float(node)
    if node.op_type in AVERAGE_POOLS:
        return why_window_float(node)
    if node.op_type in BINARY_OPS | OPERAND_OPS or joins(node):
        return _why_constant_float(node)
    if normalizes_groups(node):
        return why_groups_float(node)
    return why_rows_float(node) if normalizes_rows(node) else ""


def _why_weight_float(layer: Layer) -> str:
    weight, bias = constant(layer.weight), layer.bias
    if weight is None:
        return "its weight is computed, not constant"
    if weight.dtype != np.float32 or not layer.fits(weight.ndim):
        return f"its weight is {weight.dtype} with {weight.ndim} axes"
    if bias is not None and constant(bias) is None:
        return "its bias is computed, not constant"
    if bias is not None and not _is_vector(bias):
        return "its bias is a matrix"
    if not layer.plain:
        return "its input is transposed or scaled"
    if not np.all(np.isfinite(weight)):
        return "its weight holds NaN or Inf"
    return why_frames_float(layer, weight.ndim)


def multiplies_activations(node: ir.Node) -> bool:
    """Whether a node is a MatMul of matrices, or stacks of them, that are both computed.

    A constant counts as computed where it is no weight of a layer: a stack of matrices (positions that
    attention adds, as ViTDet and MViT have them), or a matrix on the left.
    """
    layer = layer_of(node)
    if layer is None or not layer.stacks or not is_standard(node):
        return False
    left, right = node.inputs[:2]
    computed = [v is not None and is_activation(v) and (rank(v) or 0) > 1 for v in (left, right)]
    return any(computed) and (computed[0] or _is_stack(left, 2)) and (computed[1] or _is_stack(right, 3))


def _is_stack(value: ir.Value | None, axes: int) -> bool:
    """Finite constants of so many axes or more."""
    array = constant(value)
    if array is None or array.dtype != np.float32 or array.ndim < axes:
        return False
    return bool(array.size and np.all(np.isfinite(array)))


def _is_vector(bias: ir.Value) -> bool:
    array = constant(bias)
    return array is not None and (array.ndim == 1 or (array.ndim == 2 and array.shape[0] == 1))


def _why_operand_float(node: ir.Node) -> str:
    for value in node.inputs[1:]:
        if value is not None and is_activation(value):
            return "one of its parameters is computed"
    if clips(node) and any(v is not None and scalar_constant(v) is None for v in node.inputs[1:]):
        return "its limits are computed"
    if pads(node):
        mode = node.attributes.get("mode")
        fill = input_at(node, 2)
        if (mode is None or mode.as_string() == "constant") and fill is not None:
            padding = scalar_constant(fill)
            if padding is None or not math.isfinite(padding):
                return "it pads with a computed or infinite value"
    return ""


def _why_constant_float(node: ir.Node) -> str:
    for array in (constant(value) for value in node.inputs):
        if array is not None and not (array.size and np.all(np.isfinite(array))):
            return "one of its constants is empty or holds NaN or Inf"
    return ""


def reads_unknown_type(node: ir.Node) -> bool:
    """Whether nothing tells the type of one of its inputs: what an op yields that onnx does not know."""
    return any(value is not None and value.dtype is None for value in node.inputs)
