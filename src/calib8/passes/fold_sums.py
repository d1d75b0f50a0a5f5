"""Folds a number that multiplies the sum of two layers into both of them.

    k · ((x·W + b) + (y·V + c))   →   (x·(k·W) + k·b) + (y·(k·V) + k·c)

So end networks with a second classifier for distillation (LeViT, EfficientFormer): ½ · (head + second head).
Codes between the sum and the product would be a rounding more.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from calib8.model.graph import constant, sole_consumer
from calib8.model.layer import Layer, layer_of
from calib8.ops.questions import adds, is_standard
from calib8.passes.fold_affine import bias_vector, fold_into, node_affine, take_over


def fold_behind_sum(model: ir.Model) -> int:
    """``Mul(Add(layer, layer), k) → y``   becomes   ``Add(layer, layer) → y``; so does a Div by a number.

    Left alone: sums or layers that others read, layers whose weights or biases are computed, constants that
    are more than one number.

    Returns:
        Products folded.
    """
    folded = 0
    for node in list(model.graph):
        found = _summed(node)
        if found is None:
            continue
        addition, layers = found
        affine = node_affine(node, addition.outputs[0])
        if affine is None or affine.k.size != 1 or np.any(affine.d != 0):
            continue
        if all(fold_into(model.graph, layer, affine) for layer in layers):
            take_over(model.graph, addition, node)
            folded += 1
    return folded


def _summed(node: ir.Node) -> tuple[ir.Node, tuple[Layer, Layer]] | None:
    """The Add of two layers that a node alone reads, and these layers; else None."""
    for value in node.inputs:
        addition = None if value is None else value.producer()
        if value is None or addition is None or not adds(addition) or not is_standard(addition):
            continue
        first, second = (_own_layer(addition, place) for place in (0, 1))
        if first is None or second is None or sole_consumer(value) is not node:
            return None
        return addition, (first, second)
    return None


def _own_layer(addition: ir.Node, place: int) -> Layer | None:
    """A layer with constants that can be changed, which yields an addend for this Add alone."""
    value = addition.inputs[place]
    layer = None if value is None else layer_of(value.producer())
    if value is None or layer is None or sole_consumer(value) is not addition:
        return None
    weight = constant(layer.weight)
    fits = weight is not None and weight.dtype == np.float32 and weight.ndim >= 2
    return layer if fits and bias_vector(layer) is not None else None
