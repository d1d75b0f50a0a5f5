"""High-bias absorption: what every value of a channel has in common moves into the next layer's bias.

    t = Relu(W₁ z + b₁),  y = W₂ t + b₂       c ≤ W₁ z + b₁ per channel, c ≥ 0
    b₁ − c,   b₂ + W₂ c                       Relu(x − c) = Relu(x) − c where x ≥ c

W₂ c sums over the taps of the kernel: exact where the layer pads with no zeros. The range of t becomes
smaller by c. From the batch normalization that was folded into layer 1, with mean β and deviation |γ|:

    c = max(0, β − 3 |γ|)                     x ≥ c for 99.865 % of a normal distribution
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.ops.groups import MOVES
from calib8.passes.channel_paths import POOLS, RESHAPES, ChannelPath, channel_paths
from calib8.passes.fold_affine import Vector
from calib8.passes.layer_channels import LayerChannels

SHIFTING: Final = RESHAPES | (POOLS & MOVES) | {"Identity", "GlobalAveragePool"}
"""Ops behind the Relu for which f(x − c) = f(x) − c; an AveragePool may count zeros of its borders."""


@dataclass(frozen=True)
class Absorption:
    """What was done.

    Attributes:
        layers: names of the layers whose biases changed.
        tensors: names of the tensors that became smaller.
        padded: layers that were passed over because they pad with zeros or overlap.
    """

    layers: frozenset[str] = frozenset()
    tensors: frozenset[str] = frozenset()
    padded: tuple[str, ...] = ()


def high_bias(mean: Vector, deviation: Vector) -> Vector:
    """``max(0, mean − 3 deviation)``, float64 [channels]: what may be absorbed of a normal distribution."""
    return np.maximum(0.0, mean - 3.0 * np.abs(deviation))


def absorb_high_biases(model: ir.Model, amounts: Mapping[str, Vector]) -> Absorption:
    """Moves biases on to the next layer, in place.

    ``Conv(W₁, b₁) → Relu → Conv(W₂, b₂)``   becomes   ``Conv(W₁, b₁ − c) → Relu → Conv(W₂, b₂ + W₂ c)``

    Args:
        model: a prepared float graph.
        amounts: name of the tensor before a Relu → c of its channels, ≥ 0, float64 [channels].
    """
    layers: dict[ir.Node, LayerChannels] = {}
    tensors: set[str] = set()
    padded = []
    for path in channel_paths(model):
        amount = amounts.get(path.names[0])
        if amount is None or not np.any(amount > 0.0) or not _can_shift(path):
            continue
        if not _same_taps_everywhere(path.reader):
            padded.append(path.reader.node.name or "")
            continue
        source = layers.get(path.source.node, path.source)
        reader = layers.get(path.reader.node, path.reader)
        layers[source.node] = _shifted(source, -amount)
        layers[reader.node] = _shifted(reader, _through(reader, amount))
        tensors.update(path.names)
    for layer in layers.values():
        layer.write(model.graph)
    return Absorption(frozenset(node.name or "" for node in layers), frozenset(tensors), tuple(padded))


def _can_shift(path: ChannelPath) -> bool:
    """One Relu, then nothing that a shift does not pass through; both layers have a place for a bias."""
    ops = [node.op_type for node in path.nodes]
    with_bias = path.source.layer.takes_bias and path.reader.layer.takes_bias
    return ops[:1] == ["Relu"] and SHIFTING.issuperset(ops[1:]) and with_bias


def _same_taps_everywhere(reader: LayerChannels) -> bool:
    """Every output reads all taps of the kernel."""
    return not (reader.layer.transposed or reader.layer.pads)


def _through(reader: LayerChannels, amount: Vector) -> Vector:
    """W₂ c, float64 [outputs]."""
    groups, _, read, _ = reader.weight.shape
    sums = np.sum(reader.weight, axis=3)
    return np.asarray(np.einsum("goi,gi->go", sums, amount.reshape(groups, read))).reshape(-1)


def _shifted(layer: LayerChannels, shift: Vector) -> LayerChannels:
    return replace(layer, bias=shift if layer.bias is None else layer.bias + shift)
