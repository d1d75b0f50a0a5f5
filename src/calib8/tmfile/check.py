"""Does a graph make sense? Asked once after reading, so that what comes after need not ask again.

tensors   sizes ≥ 0, at most 8 axes, fewer than 2³¹ elements; scales finite and ≥ 0; where the tensor holds
          codes, one scale or one per index of axis 0, and zero points that the type has, but for constants
          in uint8
          (the tool gives a bias of Deconvolution as many scales as its weights have input channels)
nodes     name tensors that exist; each tensor is written once, before it is read; constants by Const alone
ports     name nodes that exist
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calib8.errors import ModelError
from calib8.tmfile.graph import CONST, INPUT, Graph, Node, Tensor

CURE: Final = "Convert or download the model again"

MOST_AXES: Final = 8
"""Axes of a tensor in Tengine."""

MOST_ELEMENTS: Final = 1 << 31

CODES: Final = ("int8", "uint8", "int16")
"""Types of activations and weights that scales speak of."""


def check(graph: Graph, name: str = "model") -> None:
    """Refuses a graph that contradicts itself.

    Args:
        graph: as it was read.
        name: of the model, for messages.

    Raises:
        ModelError: names the tensor or node and what is wrong with it.
    """
    for place, tensor in enumerate(graph.tensors):
        problem = shape_problem(tensor.shape) or _scale_problem(tensor)
        if problem is not None:
            raise ModelError(name, f"tensor {place} '{tensor.name}' has {problem}", CURE)
    problem = _order_problem(graph) or _ports_problem(graph)
    if problem is not None:
        raise ModelError(name, problem, CURE)


def shape_problem(shape: tuple[int, ...]) -> str | None:
    """What is wrong with the sizes of a tensor, None for nothing."""
    if len(shape) > MOST_AXES:
        return f"{len(shape)} axes; the most are {MOST_AXES}"
    if min(shape, default=0) < 0:
        return f"the shape {list(shape)}: a size is below 0"
    if math.prod(max(size, 1) for size in shape) >= MOST_ELEMENTS:
        return f"the shape {list(shape)}, more than 2^31 - 1 elements"
    return None


def _scale_problem(tensor: Tensor) -> str | None:
    quantization = tensor.quantization
    if quantization is None:
        return None
    scales, points = quantization.scales, quantization.zero_points
    bad = scales[~(np.isfinite(scales) & (scales >= 0))]
    if bad.size:
        return f"the scale {bad[0]}; scales are finite and not below 0"
    if tensor.dtype in CODES:
        if scales.size > 1 and (not tensor.shape or quantization.of_rows(tensor.shape[0]) is None):
            return f"{scales.size} scales, and the shape {list(tensor.shape)}"
        limits = np.iinfo(np.int32 if _may_lie_apart(tensor) else tensor.dtype)
        outside = points[(points < limits.min) | (points > limits.max)]
        if outside.size:
            return f"the zero point {outside[0]}; {tensor.dtype} needs {limits.min} … {limits.max}"
    return None


def _may_lie_apart(tensor: Tensor) -> bool:
    """Weights in uint8 on one side of 0: the tool's range of them, and so that of the codes, is without 0."""
    return tensor.dtype == "uint8" and tensor.role == "const"


def _order_problem(graph: Graph) -> str | None:
    """Who writes and reads what, in the order of execution."""
    written: set[int] = set()
    for number, node in enumerate(graph.nodes):
        title = f"node {number} '{node.name}' ({node.op})"
        for place in (*node.inputs, *node.outputs):
            if place >= len(graph.tensors):
                return f"{title} names tensor {place} of {len(graph.tensors)}"
        problem = _reads_problem(graph, node, written) or _writes_problem(graph, node, written)
        if problem is not None:
            return f"{title} {problem}"
        written.update(node.outputs)
    return None


def _reads_problem(graph: Graph, node: Node, written: set[int]) -> str | None:
    for place in node.inputs:
        if place not in written:
            return f"reads tensor {place} '{graph.tensors[place].name}' before it is computed"
    if node.op in (CONST, INPUT) and node.inputs:
        return "reads tensors"
    return None


def _writes_problem(graph: Graph, node: Node, written: set[int]) -> str | None:
    if not node.outputs:
        return "writes nothing"
    if len(set(node.outputs)) != len(node.outputs):
        return "writes a tensor twice"
    for place in node.outputs:
        tensor = graph.tensors[place]
        if place in written:
            return f"writes tensor {place} '{tensor.name}', which is written already"
        if (tensor.role == "const") != (node.op == CONST):
            return f"writes tensor {place} '{tensor.name}', which is a {tensor.role} tensor"
    return None


def _ports_problem(graph: Graph) -> str | None:
    """Inputs and outputs of the model."""
    for what, places in (("input", graph.inputs), ("output", graph.outputs)):
        for place in places:
            if place >= len(graph.nodes):
                return f"its {what} is node {place} of {len(graph.nodes)}"
        if len(set(places)) != len(places):
            return f"a node is its {what} twice"
    for place in graph.inputs:
        if graph.nodes[place].op != INPUT:
            return f"its input is node {place} '{graph.nodes[place].name}' ({graph.nodes[place].op})"
    return None if graph.outputs else "it has no outputs"
