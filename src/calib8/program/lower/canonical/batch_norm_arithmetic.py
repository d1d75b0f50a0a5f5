"""A BatchNormalization that no layer could take becomes a multiplication and an addition.

BatchNormalization(x, γ, β, μ, σ²) → Add(Mul(x, k), d)     k = γ / √(σ² + ε), d = β − μ·k
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, rank
from calib8.ops.questions import normalizes
from calib8.passes.fold_affine import batch_norm_affine
from calib8.program.lower.canonical.edits import new_node, replace


def rewrite(model: ir.Model) -> int:
    """k and d, computed in float64, get the shape [C, 1, …] of a constant per channel.

    Returns:
        Nodes rewritten; those with computed parameters, in training mode or on values of unknown rank stay.
    """
    names = Names(model.graph)
    rewritten = 0
    for node in list(model.graph):
        axes = rank(node.inputs[0]) if normalizes(node) else None
        affine = batch_norm_affine(node) if axes is not None and axes >= 2 else None
        if affine is None or axes is None:
            continue
        shape = (affine.k.size, *[1] * (axes - 2))
        factor = names.constant(f"{node.name}/factor", affine.k.reshape(shape).astype(np.float32))
        shift = names.constant(f"{node.name}/shift", affine.d.reshape(shape).astype(np.float32))
        output = node.outputs[0]
        stem = output.name or ""
        product = new_node(
            names,
            "Mul",
            [node.inputs[0], factor],
            name=f"{node.name}/Mul",
            result=f"{stem}/scaled",
            like=output,
        )
        total = new_node(
            names,
            "Add",
            [product.outputs[0], shift],
            name=f"{node.name}/Add",
            result=f"{stem}/shifted",
            like=output,
        )
        names.graph.insert_before(node, [product, total])
        replace(names.graph, output, total.outputs[0])
        rewritten += 1
    return rewritten
