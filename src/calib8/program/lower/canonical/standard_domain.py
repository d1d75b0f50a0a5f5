"""Ops of ONNX Runtime's own domain that the standard one has too become standard ops.

com.microsoft.DequantizeLinear(x, s, z, axis) → DequantizeLinear(x, s, z, axis)
com.microsoft.NhwcMaxPool(x)                  → Transpose(MaxPool(Transpose(x)))

Where a model is written that ONNX Runtime is to load, quantizers of codes that the standard took up later go
back to its own domain (``quantization/own_quantizers``).
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from calib8.model.graph import CONTRIB, Names
from calib8.ops.questions import is_quantizer
from calib8.program.lower.canonical.edits import new_node, replace

LONG_NAME: Final = "ai.onnx"
"""Another name of the standard domain."""

FROM_NHWC: Final = (0, 3, 1, 2)
TO_NHWC: Final = (0, 2, 3, 1)


def rewrite(model: ir.Model) -> int:
    """They compute the same; ONNX Runtime has its own where the standard was late, or for another layout.

    Returns:
        Nodes renamed or replaced, those under the long name of the standard domain included.
    """
    names = Names(model.graph)
    rewritten = 0
    for node in list(model.graph):
        if node.domain == LONG_NAME or (node.domain == CONTRIB and is_quantizer(node)):
            node.domain = ""
            rewritten += 1
        elif node.domain == CONTRIB and node.op_type == "NhwcMaxPool":
            _channels_first(names, node)
            rewritten += 1
    return rewritten


def _channels_first(names: Names, node: ir.Node) -> None:
    source, result = node.inputs[0], node.outputs[0]
    stem = result.name or ""
    before = new_node(
        names,
        "Transpose",
        [source],
        name=f"{node.name}/from_NHWC",
        result=f"{stem}/input",
        attributes={"perm": FROM_NHWC},
    )
    pool = new_node(names, "MaxPool", [before.outputs[0]], name=f"{node.name}/NCHW", result=f"{stem}/NCHW")
    for attribute in node.attributes.values():
        pool.attributes[attribute.name] = attribute
    after = new_node(
        names,
        "Transpose",
        [pool.outputs[0]],
        name=f"{node.name}/to_NHWC",
        result=f"{stem}/NHWC",
        attributes={"perm": TO_NHWC},
    )
    names.graph.insert_before(node, [before, pool, after])
    pool.name = node.name
    replace(names.graph, result, after.outputs[0])
