"""Softplus as PyTorch exports it, with the line that it is from a threshold on, is Softplus.

Where(x > 20, x, Softplus(x))   →   Softplus(x)      they differ by e^-20 at most, below float32's last bit
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import put_in_place, scalar_constant
from calib8.ops.questions import is_standard

LEAST = 17.0
"""e^-17 is less than half of the last bit of 17 in float32."""


def plain_softplus(model: ir.Model) -> int:
    """Rewrites every such Where.

    Returns:
        Number of nodes rewritten.
    """
    found = [node for node in model.graph if node.op_type == "Where" and is_standard(node) and _is_line(node)]
    for node in found:
        curve = node.inputs[2]
        assert curve is not None
        softplus = curve.producer()
        assert softplus is not None
        put_in_place(model.graph, node, ir.node("Softplus", [softplus.inputs[0]], name=node.name))
    if found:
        ir_passes.RemoveUnusedNodesPass()(model)
    return len(found)


def _is_line(node: ir.Node) -> bool:
    above, line, curve = node.inputs
    greater = None if above is None else above.producer()
    softplus = None if curve is None else curve.producer()
    if line is None or greater is None or softplus is None:
        return False
    if greater.op_type not in ("Greater", "GreaterOrEqual") or softplus.op_type != "Softplus":
        return False
    threshold = scalar_constant(greater.inputs[1])
    return greater.inputs[0] is softplus.inputs[0] is line and threshold is not None and threshold >= LEAST
