"""Gemm without factors and without a transposed input.

Gemm(x, DQ(W, s), C, alpha, beta, transA) → Gemm(Transpose(x), DQ(W, alpha·s), beta·C)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, float_attribute, input_at, int_attribute
from calib8.program.lower.canonical.codings import are_scales, constant_codes, real_constant
from calib8.program.lower.canonical.edits import dequantized_constant, new_node, set_type


def rewrite(model: ir.Model) -> int:
    """``alpha`` goes into the scales of a coded weight, ``beta`` into a constant bias.

    The scales are rounded to float32 once. Left alone: factors ≤ 0, a factor of what is computed.

    Returns:
        Nodes rewritten.
    """
    names = Names(model.graph)
    return sum(
        _fold_alpha(names, node) | _fold_beta(names, node) | _transpose_input(names, node)
        for node in list(model.graph)
        if node.op_type == "Gemm" and node.domain == ""
    )


def _fold_alpha(names: Names, node: ir.Node) -> bool:
    alpha, weight = float_attribute(node, "alpha", 1.0), constant_codes(node.inputs[1])
    if alpha == 1.0 or alpha <= 0.0 or weight is None:
        return False
    with np.errstate(over="ignore", under="ignore"):
        scale = np.asarray(np.float32(alpha) * weight.scale, np.float32)
    if not are_scales(scale):
        return False
    new = dequantized_constant(names, replace(weight, scale=scale), f"{node.name}/weight")
    names.graph.insert_before(node, new)
    node.replace_input_with(1, new.outputs[0])
    node.attributes.pop("alpha")
    return True


def _fold_beta(names: Names, node: ir.Node) -> bool:
    beta, bias = float_attribute(node, "beta", 1.0), real_constant(input_at(node, 2))
    if input_at(node, 2) is None:
        return node.attributes.pop("beta", None) is not None and beta != 1.0
    if beta == 1.0 or bias is None:
        return False
    node.replace_input_with(2, names.constant(f"{node.name}/bias", np.asarray(np.float32(beta) * bias)))
    node.attributes.pop("beta")
    return True


def _transpose_input(names: Names, node: ir.Node) -> bool:
    if not int_attribute(node, "transA", 0):
        return False
    source = node.inputs[0]
    assert source is not None
    stem = f"{node.name}/transA"
    turned = new_node(
        names, "Transpose", [source], name=stem, result=f"{source.name}/T", attributes={"perm": (1, 0)}
    )
    set_type(turned.outputs[0], source.dtype)
    if source.shape is not None:
        turned.outputs[0].shape = ir.Shape(tuple(reversed(list(source.shape))))
    names.graph.insert_before(node, turned)
    node.replace_input_with(0, turned.outputs[0])
    node.attributes.pop("transA")
    return True
