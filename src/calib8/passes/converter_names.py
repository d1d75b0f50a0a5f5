"""What Tengine's converter calls the tensors of an ONNX model: a fusion keeps the name of its first node.

    Conv ─ a ─ BatchNormalization ─ b ─ Relu ─ c          ONNX: the values that are rounded are called c
    Convolution ─ a                                       Tengine: the same values are called a

Fused are Conv or Gemm with the BatchNormalization behind it, then Conv with a Relu, or with a Clip that
begins at 0 or ends at 6.
Source: OAID Tengine, convert_tool (``graph_opt.cpp``).
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from calib8.model.graph import sole_consumer
from calib8.model.load import read_from
from calib8.ops.questions import clips, is_convolution, is_transposed_convolution, normalizes, rectifies
from calib8.passes.functions import clip_limits
from calib8.tmfile.magic import claims_to_be_tmfile

CONVERTER_NAMES: Final = "converter_names"
"""Key of the names in the metadata of a quantized model, as JSON."""

LOWEST, HIGHEST = 0.0, 6.0


def converter_names(original: ir.Model) -> dict[str, str]:
    """Tensor of an ONNX model → its name in the tmfile that the converter makes, where the two differ.

    Args:
        original: the float graph as it was loaded, BatchNormalization included; all names of a tmfile are
            those of the converter already.
    """
    found: dict[str, str] = {}
    if claims_to_be_tmfile(read_from(original)):
        return found
    for node in original.graph:
        convolves = is_convolution(node) and not is_transposed_convolution(node)
        if not convolves and node.op_type != "Gemm":
            continue
        result = node.outputs[0]
        behind = sole_consumer(result)
        if behind is not None and normalizes(behind):
            result = behind.outputs[0]
            behind = sole_consumer(result)
        if convolves and behind is not None and _is_fused(behind):
            result = behind.outputs[0]
        if result is not node.outputs[0]:
            found[result.name or ""] = node.outputs[0].name or ""
    return found


def _is_fused(node: ir.Node) -> bool:
    if rectifies(node):
        return True
    if not clips(node):
        return False
    low, high = clip_limits(node)
    return low == LOWEST or high == HIGHEST
