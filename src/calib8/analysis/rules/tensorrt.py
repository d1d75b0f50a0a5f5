"""Where TensorRT wants Q/DQ: on what it fuses into an int8 kernel, and nowhere inside the kernel.

    x → Q → DQ → Conv → BN → Relu → Q → DQ → …          no Q/DQ between Conv, BN and Relu
    Conv ─────────────→ Add → Relu                      the layer's branch enters the sum unrounded,
    skip → Q → DQ ────↗                                 the other one in codes

Source: NVIDIA TensorRT developer guide, "Explicit Quantization", Q/DQ placement recommendations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from calib8.analysis.rules import Finding
from calib8.model.graph import sole_consumer
from calib8.ops.groups import AVERAGE_POOLS, CLAMPS
from calib8.ops.questions import adds, normalizes
from calib8.quantization.qdq import (
    activation_values,
    codes_behind,
    dequantizer,
    float_origin,
    label,
    nodes,
    weight_is_coded,
    weighted_layers,
)
from calib8.scheme import WEIGHTED_OPS

FUSED_BEHIND_LAYER: Final = CLAMPS | {"BatchNormalization"}


def layer_inputs_are_coded(model: ir.Model) -> Iterator[Finding]:
    """Q/DQ stand before data and weight of every convolution, deconvolution and matrix product.

    A layer with only one of them is named by ``layer_is_whole``.
    """
    for layer in weighted_layers(model):
        if codes_behind(layer.input) is None and not weight_is_coded(layer.node):
            yield layer.name, "neither its input nor its weight has Q/DQ: it runs in float", "Quantize both"


def no_codes_inside_fusion(model: ir.Model) -> Iterator[Finding]:
    """No Q/DQ between a layer and the BatchNormalization, Relu or Clip that is fused into it."""
    for node in nodes(model):
        if node.op_type not in FUSED_BEHIND_LAYER:
            continue
        source = dequantizer(node.inputs[0])
        origin = (
            float_origin(node.inputs[0]).producer()
            if source is not None and node.inputs[0] is not None
            else None
        )
        if source is not None and origin is not None and origin.op_type in WEIGHTED_OPS:
            yield (
                label(source),
                f"stands between '{label(origin)}' and '{label(node)}'",
                f"Put Q/DQ behind '{label(node)}' only",
            )


def residual_branch_is_coded(model: ir.Model) -> Iterator[Finding]:
    """Of the two inputs of an Add, a layer's own branch stays float and the skip branch carries Q/DQ.

    Where no layer feeds the Add alone, both inputs carry Q/DQ, or neither.
    """
    for node in nodes(model):
        values = activation_values(node) if adds(node) else []
        if len(values) != 2:
            continue
        coded = [codes_behind(value) is not None for value in values]
        branches = [_layer_of_branch(value, node) for value in values]
        if all(coded):
            layer = branches[1] or branches[0]
            if layer is not None:
                problem = f"both inputs carry Q/DQ, also the one from '{label(layer)}'"
                yield label(node), problem, f"Let the result of '{label(layer)}' enter without Q/DQ"
            continue
        open_side = next((i for i in (1, 0) if not coded[i] and branches[i] is not None), coded.index(False))
        skip = values[1 - open_side]
        if not coded[1 - open_side] and branches[open_side] is not None:
            yield (
                label(node),
                f"its skip input '{skip.name}' has no Q/DQ",
                f"Quantize '{skip.name}' for this Add",
            )
        elif coded[1 - open_side] and branches[open_side] is None:
            name = values[open_side].name
            yield (
                label(node),
                f"its input '{name}' has no Q/DQ and comes from no layer",
                f"Quantize '{name}' for this Add",
            )


def _layer_of_branch(value: ir.Value, add: ir.Node) -> ir.Node | None:
    """The layer whose result, BatchNormalization included, goes to this Add alone."""
    node = dequantizer(value)
    if sole_consumer(value) is not add:
        return None
    if node is not None:
        origin = float_origin(value)
        if origin is value or len(list(node.inputs[0].uses() if node.inputs[0] is not None else ())) != 1:
            return None
        value = origin
    while value.producer() is not None and sole_consumer(value) is not None:
        producer = value.producer()
        if producer is None or producer.op_type in WEIGHTED_OPS:
            return producer
        if not normalizes(producer) or producer.inputs[0] is None:
            return None
        value = producer.inputs[0]
    return None


def average_pool_input_is_coded(model: ir.Model) -> Iterator[Finding]:
    """An average pool has Q/DQ on its input; unlike MaxPool it does not pass codes on."""
    for node in nodes(model):
        if node.op_type in AVERAGE_POOLS and codes_behind(node.inputs[0]) is None:
            name = node.inputs[0].name if node.inputs[0] is not None else ""
            yield label(node), f"its input '{name}' has no Q/DQ", "Quantize its input"
