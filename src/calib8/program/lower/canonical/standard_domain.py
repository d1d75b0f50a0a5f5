"""QuantizeLinear and DequantizeLinear of ONNX Runtime's own domain become standard ones.

com.microsoft.DequantizeLinear(x, s, z, axis) → DequantizeLinear(x, s, z, axis)
"""

from __future__ import annotations

import onnx_ir as ir

from calib8.quantization.qdq import QUANTIZERS

LONG_NAME = "ai.onnx"
"""Another name of the standard domain."""


def rewrite(model: ir.Model) -> int:
    """Both compute the same; ONNX Runtime writes its own where operator set 13 had no 16-bit codes.

    Returns:
        Nodes renamed, those under the long name of the standard domain included.
    """
    rewritten = 0
    for node in model.graph:
        if node.domain == LONG_NAME or (node.domain == "com.microsoft" and node.op_type in QUANTIZERS):
            node.domain = ""
            rewritten += 1
    return rewritten
