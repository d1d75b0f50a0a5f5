"""Quantizers of codes that the standard took up late, in the domain of ONNX Runtime that had them before."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from calib8.model.graph import CONTRIB, opset_version
from calib8.quantization.qdq import QUANTIZERS, codes_of

CONTRIB_VERSION: Final = 1
ALL_CODES_OPSET: Final = 21
LATER_CODES: Final = frozenset({ir.DataType.UINT16, ir.DataType.INT16, ir.DataType.UINT4, ir.DataType.INT4})
"""Codes that the standard's quantizers take from that operator set on; ONNX Runtime's own did before."""


def restore_own_quantizers(model: ir.Model) -> int:
    """Quantizers of codes that the model's operator set does not know become those of ONNX Runtime.

    DequantizeLinear(int4 x) → com.microsoft.DequantizeLinear(int4 x) below operator set 21

    Returns:
        Nodes renamed.
    """
    late = [
        node for node in model.graph if node.op_type in QUANTIZERS and codes_of(node).dtype in LATER_CODES
    ]
    if not late or opset_version(model) >= ALL_CODES_OPSET:
        return 0
    for node in late:
        node.domain = CONTRIB
    model.graph.opset_imports[CONTRIB] = CONTRIB_VERSION
    return len(late)
