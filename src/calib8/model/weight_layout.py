"""One view of the weights of all layers, and the way back.

    Conv [O, I/g, k…]   ConvTranspose [I, O/g, k…]   Gemm [I, O] or [O, I]   MatMul [I, O]
        ⇄   [groups, outputs of a group, inputs of a group, taps]

Output channel ``o`` of group ``g`` is channel ``g · outputs + o`` of the layer, and so for its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import int_attribute
from calib8.ops.questions import is_convolution


def groups_of(layer: ir.Node) -> int:
    """Groups of a Conv or ConvTranspose, 1 for Gemm and MatMul."""
    return int_attribute(layer, "group", 1) if is_convolution(layer) else 1


def by_channel(layer: ir.Node, weight: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A weight in the layer's own layout as [groups, outputs of a group, inputs of a group, taps].

    The inputs of a MatMul with more axes than two are all but its last one.
    """
    groups = groups_of(layer)
    if layer.op_type == "Conv":
        return weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    if layer.op_type == "ConvTranspose":
        split = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
        return split.transpose(0, 2, 1, 3)
    matrix = weight if _outputs_first(layer) else np.moveaxis(weight, -1, 0)
    return matrix.reshape(1, len(matrix), -1, 1)


def in_layout(layer: ir.Node, weight: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[Any]:
    """The inverse of ``by_channel`` for a weight of this shape."""
    if layer.op_type == "Conv":
        return weight.reshape(shape)
    if layer.op_type == "ConvTranspose":
        return weight.transpose(0, 2, 1, 3).reshape(shape)
    if _outputs_first(layer):
        return weight.reshape(shape)
    return np.moveaxis(weight.reshape(shape[-1], *shape[:-1]), 0, -1)


def _outputs_first(layer: ir.Node) -> bool:
    return layer.op_type == "Gemm" and bool(int_attribute(layer, "transB", 0))
