"""A float Tengine model in uint8 codes, field for field as Tengine's quant_tool_uint8 makes it.

    real = s (code − z)
    activations    s and z that the table gives
    weights        s = (max − min) / 255 over all, z = ⌊−min / s⌋; code = w / s + z, rounded, ties away
    biases         s = s_w · s_x; code likewise, in int32, without zero point
    PReLU slopes   float16

Before that some operators hand scale and zero point back (``hand_back``). The zero point of weights that lie
on one side of 0 is no uint8, as there. What differs from the tool: weights that are all one number have a
range with 0, and those of zeros codes of zeros, where the tool divides by 0.
Source: OAID Tengine, quant_tool (``quant_save_graph.cpp``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from calib8.errors import UnsupportedModelError
from calib8.exporting.tmfile.codes import (
    MADE_BY_TENGINE,
    Coded,
    CodedLayer,
    Single,
    floats_of,
    halve,
    refuse_missing,
    rounded,
    without_codes,
)
from calib8.exporting.tmfile.hand_back import scale_sources
from calib8.exporting.tmfile.unshared import unshared
from calib8.tmfile.graph import Graph, Node, Quantization, Tensor
from calib8.tmfile.kinds import LAYERS, kind

LARGEST: Final = 255

MOST_POINT: Final = 2.0**31
"""Zero points of weights lie below it."""

Code = tuple[float, int]
"""Scale and zero point."""


def in_uint8(graph: Graph, codes: Mapping[str, Code], name: str = "model") -> Coded:
    """The model in codes.

    Args:
        graph: a float one.
        codes: scale (above 0) and zero point of every tensor that is an input or computed, by name.
        name: of the model, for messages.

    Raises:
        UnsupportedModelError: no float model, or one without weights.
        TableError: tensors without a scale above 0, all of them.
    """
    if kind(graph) != "float":
        raise UnsupportedModelError(name, f"is a {kind(graph)} Tengine model", "Give the float one")
    graph, _ = unshared(graph)
    sources = scale_sources(graph)
    scales = {tensor: scale for tensor, (scale, _) in codes.items()}
    refuse_missing(graph, sources, scales, name, "(max − min) / 255")
    tensors = list(map(without_codes, graph.tensors))
    for place, source in sources.items():
        tensors[place] = replace(tensors[place], dtype="uint8", quantization=_of(*codes[source]))
    layers = [_layer(graph, node, tensors, name) for node in graph.nodes if node.op in LAYERS]
    for node in graph.nodes:
        if node.op == "PReLU":
            halve(node, tensors, name)
    return Coded(replace(graph, tensors=tuple(tensors), made_from=MADE_BY_TENGINE), tuple(layers))


def _of(scale: float | np.float32, zero_point: int) -> Quantization:
    return Quantization(np.asarray([scale], np.float32), np.asarray([zero_point], np.int32))


def _weight_code(data: Single) -> tuple[np.float32, int]:
    """Scale and zero point of weights: of their own range, or of that with 0 where it is too narrow."""
    low, high = data.min(initial=np.inf), data.max(initial=-np.inf)
    step = np.float32((high - low) / np.float32(LARGEST))
    if step > 0 and abs(float(low) / float(step)) < MOST_POINT:
        return step, int(-low / step)
    low, high = min(low, np.float32(0)), max(high, np.float32(0))
    step = np.float32((high - low) / np.float32(LARGEST))
    return step, int(-low / step) if step else 0


def _layer(graph: Graph, node: Node, tensors: list[Tensor], name: str) -> CodedLayer:
    """Puts weights and bias of a layer into codes."""
    x, weight = tensors[node.inputs[0]], graph.tensors[node.inputs[1]]
    data = floats_of(weight, name)
    step, point = _weight_code(data)
    shifted = data / (step or np.float32(1)) + np.float32(point)
    whole = np.clip(np.sign(shifted) * rounded(np.abs(shifted)), 0, LARGEST).astype(np.uint8)
    tensors[node.inputs[1]] = replace(weight, dtype="uint8", data=whole, quantization=_of(step, point))
    assert x.quantization is not None
    sums = np.float32(x.quantization.scales[0] * step)
    steps, bias_steps = np.asarray([step]), np.asarray([sums])
    if len(node.inputs) < 3:
        return CodedLayer(weight.name, "", steps, bias_steps)
    bias = graph.tensors[node.inputs[2]]
    ratio = floats_of(bias, name) / (sums or np.float32(np.inf))
    limits = np.iinfo(np.int32)
    codes = (np.sign(ratio) * rounded(np.abs(ratio))).astype(np.float64)
    clipped = np.clip(codes, limits.min, limits.max).astype(np.int32)
    tensors[node.inputs[2]] = replace(bias, dtype="int32", data=clipped, quantization=_of(sums, 0))
    return CodedLayer(weight.name, bias.name, steps, bias_steps)
