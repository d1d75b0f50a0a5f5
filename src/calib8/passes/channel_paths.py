"""Where the channels of a layer go: through which ops, to which only layer that reads them.

    layer ─► t₁ ─ op ─► t₂ ─ op ─► … tₙ ─► reader

The ops treat every channel by itself and turn a positive factor on it into the same factor behind them:
f(s·x) = s·f(x). A Clip from 0 does so as long as nothing reaches its upper limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from calib8.model.graph import sole_consumer
from calib8.ops.groups import CLAMPS, FUNCTIONS, POOL_OPS, REDUCTIONS, RESHAPING, SCALING
from calib8.ops.questions import clips, is_standard
from calib8.passes.layer_channels import LayerChannels, layer_channels
from calib8.passes.place import clip_limits

ELEMENTWISE: Final = CLAMPS | ((FUNCTIONS & SCALING) - {"Abs", "Neg"}) | {"Identity"}
"""Ops that do so value by value; Abs and Neg would do as well."""

POOLS: Final = POOL_OPS - REDUCTIONS
RESHAPES: Final = RESHAPING - {"Unsqueeze"}
"""Ops that can drop axes."""

LAST: Final = -1
"""The channel axis of what Gemm and MatMul read and yield; that of convolutions is 1."""


@dataclass(frozen=True)
class ChannelPath:
    """The way from one layer to the next.

    Attributes:
        source: the layer whose output channels are meant.
        reader: the only layer that reads them, each as the input channel of its own number.
        nodes: the ops between.
        tensors: all tensors between, from the output of ``source`` to the input of ``reader``.
        limit: lowest upper limit of a Clip between, inf without one.
    """

    source: LayerChannels
    reader: LayerChannels
    nodes: tuple[ir.Node, ...]
    tensors: tuple[ir.Value, ...]
    limit: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tensors."""
        return tuple(value.name or "" for value in self.tensors)


def channel_paths(model: ir.Model) -> list[ChannelPath]:
    """The paths of a graph, in the order of their sources."""
    paths = (channel_path(node) for node in model.graph)
    return [path for path in paths if path is not None]


def channel_path(layer: ir.Node) -> ChannelPath | None:
    """The path that begins at a layer.

    None where there is none: several readers (the graph's outputs are some), an op that mixes channels or
    shifts them, a layer whose constants are computed.
    """
    source = layer_channels(layer)
    if source is None:
        return None
    axis = _axis_of(source)
    nodes: list[ir.Node] = []
    tensors = [layer.outputs[0]]
    while (consumer := sole_consumer(tensors[-1])) is not None and consumer.inputs[0] is tensors[-1]:
        reader = layer_channels(consumer)
        if reader is not None:
            if _axis_of(reader) != axis or reader.inputs != source.outputs:
                return None
            limits = (clip_limits(node)[1] for node in nodes if clips(node))
            return ChannelPath(source, reader, tuple(nodes), tuple(tensors), min(limits, default=math.inf))
        following = _axis_behind(consumer, axis, source.outputs)
        if following is None:
            return None
        axis = following
        nodes.append(consumer)
        tensors.append(consumer.outputs[0])
    return None


def _axis_of(layer: LayerChannels) -> int:
    return 1 if layer.layer.windows else LAST


def _axis_behind(node: ir.Node, axis: int, channels: int) -> int | None:
    """The channel axis of a node's only output, None where channels do not go through one by one."""
    if not is_standard(node) or any(value.name for value in node.outputs[1:]):
        return None
    if node.op_type in ELEMENTWISE:
        return axis if not clips(node) or _clips_from_zero(node) else None
    if node.op_type in POOLS:
        return axis if axis == 1 else None
    if node.op_type in RESHAPES and axis == 1 and _only_drops_ones(node, channels):
        return LAST
    return None


def _clips_from_zero(node: ir.Node) -> bool:
    low, high = clip_limits(node)
    return low == 0.0 and high > 0.0


def _only_drops_ones(node: ir.Node, channels: int) -> bool:
    """``[N, C, 1, 1] → [N, C]``, by sizes that are known beforehand."""
    before, after = node.inputs[0], node.outputs[0]
    if before is None or before.shape is None or after.shape is None or after.shape.rank() != 2:
        return False
    spatial = list(before.shape)[2:]
    return all(size == 1 for size in spatial) and before.shape[1] == channels == after.shape[1]
