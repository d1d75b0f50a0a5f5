"""Models of int8 codes with 16-bit activations in their place: int8 weights, int64 biases, no zero points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calib8.tflite.graph import Graph, Operator, Quantization, Tensor

LAYERS = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}
"""Layer → place of its bias; its weights are input 1."""
FINER = np.float32(1 / 256)


def widened(graph: Graph, rng: np.random.Generator) -> Graph:
    """The same operators over codes that are 256 times as fine; constants get random lower bytes."""
    kinds = dict.fromkeys(range(len(graph.tensors)), "codes")
    for operator in graph.operators:
        if operator.op in LAYERS:
            kinds[operator.inputs[1]] = "weight"
            kinds.update((place, "bias") for place in operator.inputs[LAYERS[operator.op] :] if place >= 0)
    tensors = tuple(_wide(tensor, kinds[place], rng) for place, tensor in enumerate(graph.tensors))
    operators = tuple(replace(operator, version=_version(operator)) for operator in graph.operators)
    return replace(graph, tensors=tensors, operators=operators)


def _wide(tensor: Tensor, kind: str, rng: np.random.Generator) -> Tensor:
    old = tensor.quantization
    if old is None or kind == "weight":
        return tensor
    if kind == "bias":
        assert tensor.data is not None
        data = tensor.data.astype(np.int64) * 256 + rng.integers(0, 256, tensor.shape)
        return replace(tensor, dtype="int64", data=data, quantization=replace(old, scales=old.scales * FINER))
    if tensor.dtype != "int8":
        return tensor
    finer = Quantization(old.scales * FINER, np.zeros_like(old.zero_points), old.axis)
    data = tensor.data
    if data is not None:
        data = (data.astype(np.int16) * 256 + rng.integers(0, 256, tensor.shape)).astype(np.int16)
    return replace(tensor, dtype="int16", data=data, quantization=finer)


def _version(operator: Operator) -> int:
    """The first that takes int16, of layers."""
    return {"CONV_2D": 4, "DEPTHWISE_CONV_2D": 5, "FULLY_CONNECTED": 7}.get(operator.op, operator.version)
