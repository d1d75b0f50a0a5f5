"""Cross-layer equalization: factors moved from layer to layer until their channels have ranges alike.

    y = W₂ f(W₁ x + b₁),   f(s·x) = s·f(x) for s > 0      r₁ = max |W₁| of an output channel,
                                                          r₂ = max |W₂| of the input channel of its number
    S = √(r₁ / r₂):   W₁ / S,  b₁ / S,  W₂ · S            both ranges become √(r₁ r₂)

Depthwise layers between hand factors on. Layers 0 … n, the inner ones depthwise, per channel:

    p = (r₀ r₁ … rₙ)^(1 / (n+1)),   S₀ = r₀ / p,   Sᵢ = Sᵢ₋₁ · rᵢ / p
    W₀ / S₀,   Wᵢ · Sᵢ₋₁ / Sᵢ,   Wₙ · Sₙ₋₁                every range becomes p

A layer may end one chain and begin another, so all chains are gone through again until nothing moves. The
function of the model stays the same. (M. Nagel et al., Data-Free Quantization Through Weight Equalization
and Bias Correction, 2019.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.passes.channel_paths import ChannelPath, channel_paths
from calib8.passes.fold_affine import Vector
from calib8.passes.layer_channels import LayerChannels

MOST_SWEEPS: Final = 20
STILL: Final = 1e-3
"""Mean |ln S| of a sweep below which nothing moves any more."""

LARGEST_FACTOR: Final = 1e3
"""A channel is divided by 1/1000 … 1000, over all sweeps together."""


@dataclass(frozen=True)
class Equalization:
    """What was done.

    Attributes:
        chains: names of the layers of each chain, in graph order.
        factors: tensor between two layers → what its channels were divided by, float64 [channels].
        sweeps: how often all chains were gone through.
        dead: layer → number of channels left alone because their weights, or those that read them, are zero.
        clipped: layers passed over because a Clip with an upper limit follows.
    """

    chains: tuple[tuple[str, ...], ...] = ()
    factors: Mapping[str, Vector] = field(default_factory=dict)
    sweeps: int = 0
    dead: Mapping[str, int] = field(default_factory=dict)
    clipped: tuple[str, ...] = ()

    @property
    def layers(self) -> frozenset[str]:
        """Names of the layers whose constants changed."""
        return frozenset(name for chain in self.chains for name in chain)


@dataclass
class _Chain:
    """Layers whose channels are equalized together, and the running total of their factors.

    Attributes:
        paths: from each layer to the next; all readers but the last are depthwise.
        totals: per path, what its channels have been divided by.
    """

    paths: tuple[ChannelPath, ...]
    totals: list[Vector]
    dead: int = 0

    @property
    def layers(self) -> list[ir.Node]:
        """First to last."""
        return [self.paths[0].source.node, *(path.reader.node for path in self.paths)]


def equalize_layers(model: ir.Model, *, kept: Collection[str] = ()) -> Equalization:
    """Equalizes all chains of a prepared model, in place.

    ``Conv(W₁, b₁) → Relu → Conv(W₂)``   becomes   ``Conv(W₁/S, b₁/S) → Relu → Conv(W₂·S)``

    Chains go through Relu, LeakyRelu, PRelu, pools and plain reshapes, where every tensor has one reader. A
    Clip with an upper limit does not allow it: its layer is passed over. Channels of zeros keep factor 1.

    Args:
        model: a prepared float graph.
        kept: names of tensors that must stay as they are: what lies around them is passed over.
    """
    paths = channel_paths(model)
    clipped = tuple(path.source.node.name or "" for path in paths if path.limit < np.inf)
    chains = _chains([path for path in paths if path.limit == np.inf and not set(kept) & set(path.names)])
    if not chains:
        return Equalization(clipped=clipped)
    layers = {layer.node: layer for chain in chains for path in chain.paths for layer in _ends(path)}
    sweeps = 0
    moving = True
    while moving and sweeps < MOST_SWEEPS:
        moves = np.concatenate([move for chain in chains for move in _sweep(chain, layers)])
        moving = float(np.mean(np.abs(np.log(moves)))) > STILL
        sweeps += 1
    for layer in layers.values():
        layer.write(model.graph)
    return _told(chains, sweeps, clipped)


def equalizing_factors(ranges: Sequence[Vector]) -> tuple[list[Vector], npt.NDArray[np.bool_]]:
    """What the channels between the layers of a chain are to be divided by.

    Args:
        ranges: r₀ … rₙ, float64 [channels] each.

    Returns:
        S₀ … Sₙ₋₁, and which channels are alive, bool [channels]; one with a zero anywhere gets factor 1.
    """
    table = np.stack(ranges)
    alive = np.all(table > 0.0, axis=0)
    logarithms = np.log(np.where(alive, table, 1.0))
    common = np.mean(logarithms, axis=0)
    factors = np.exp(np.cumsum(logarithms[:-1] - common, axis=0))
    return list(factors), alive


def _ends(path: ChannelPath) -> Iterable[LayerChannels]:
    return path.source, path.reader


def _chains(paths: Sequence[ChannelPath]) -> list[_Chain]:
    """Chains of paths, as long as depthwise layers join them; each path belongs to one."""
    by_source = {path.source.node: path for path in paths}
    inner = {path.reader.node for path in paths if path.reader.depthwise}
    found = []
    for path in paths:
        if path.source.node in inner and path.source.depthwise:
            continue
        members = [path]
        while members[-1].reader.depthwise and members[-1].reader.node in by_source:
            members.append(by_source[members[-1].reader.node])
        found.append(_Chain(tuple(members), [np.ones(member.source.outputs) for member in members]))
    return found


def _sweep(chain: _Chain, layers: dict[ir.Node, LayerChannels]) -> list[Vector]:
    """Moves factors along one chain; returns by how much each changed."""
    members = [layers[node] for node in chain.layers]
    ranges = [members[0].output_magnitudes(), *(layer.input_magnitudes() for layer in members[1:])]
    factors, alive = equalizing_factors(ranges)
    chain.dead = int(alive.size - np.count_nonzero(alive))
    moves = []
    for index, factor in enumerate(factors):
        total = np.clip(chain.totals[index] * factor, 1.0 / LARGEST_FACTOR, LARGEST_FACTOR)
        moves.append(total / chain.totals[index])
        chain.totals[index] = total
    for index, node in enumerate(chain.layers):
        incoming = moves[index - 1] if index > 0 else None
        outgoing = 1.0 / moves[index] if index < len(moves) else None
        layers[node] = layers[node].scaled(inputs=incoming, outputs=outgoing)
    return moves


def _told(chains: Sequence[_Chain], sweeps: int, clipped: tuple[str, ...]) -> Equalization:
    factors = {
        name: total
        for chain in chains
        for path, total in zip(chain.paths, chain.totals, strict=True)
        for name in path.names
    }
    names = tuple(tuple(node.name or "" for node in chain.layers) for chain in chains)
    dead = {chain[0]: found.dead for chain, found in zip(names, chains, strict=True) if found.dead}
    return Equalization(names, factors, sweeps, dead, clipped)
