"""Pairs of weights with which ONNX Runtime saturates on x86 without VNNI: worst case, and what data come to.

    t = a₀·w₀ + a₁·w₁        uint8 codes a as they are, zero point not subtracted; int16 cuts t beyond ±2¹⁵

    worst case    255 · (positive w of the pair),  255 · (negative w of the pair)
    observed      t for the codes that the model's own input quantizers give, at every output position

Which weights meet is told in ``calib8.quantization.pairs``. Only pairs that can saturate are looked at: what
the others come to is harmless. int8 activations are taken as ONNX Runtime takes them: uint8 with 128 added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.layer_codes import LayerCodes, layer_codes
from calib8.analysis.windows import Columns, columns_of
from calib8.quantization.pairs import PAIR_LIMIT, pair_reach, weight_pairs

INT16_MIN: Final = -(2**15)
INT16_MAX: Final = 2**15 - 1
LARGEST_CODE: Final = 255

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class UnsafeChannel:
    """An output channel with a pair that can saturate.

    Attributes:
        channel: the output channel.
        pair: which of its pairs is the worst: products 2·pair and 2·pair + 1 in the kernel's order.
        weights: codes of those two.
        low, high: worst case of any of its pairs, unsaturated.
        observed: smallest and largest sum seen in the pairs that can saturate; None without data.
        saturated: share of the sums seen in those pairs that int16 cuts, 0 … 1; None without data.
    """

    channel: int
    pair: int
    weights: tuple[int, int]
    low: int
    high: int
    observed: tuple[int, int] | None = None
    saturated: float | None = None


@dataclass(frozen=True)
class LayerPairs:
    """The pairs of one layer.

    Attributes:
        layer: the node.
        channels: output channels it has.
        pairs: pairs in each of them.
        unsafe: the channels that can saturate, in ascending order.
    """

    layer: str
    channels: int
    pairs: int
    unsafe: tuple[UnsafeChannel, ...]


def layer_pairs(model: ir.Model) -> tuple[LayerPairs, ...]:
    """The layers that have pairs, in graph order, by their worst case.

    Layers with uint8 weights are computed without pairs; so are those that ``weight_pairs`` tells.

    Args:
        model: a QDQ graph as ``readable_copy`` gives it.
    """
    return tuple(
        _layer_pairs(layer, pairs) for layer in layer_codes(model) if (pairs := _pairs(layer)) is not None
    )


def _pairs(layer: LayerCodes) -> Codes | None:
    return weight_pairs(layer.layer, layer.weight) if layer.signed_weights else None


def _layer_pairs(layer: LayerCodes, pairs: Codes) -> LayerPairs:
    reach = pair_reach(pairs)
    sums = np.max(np.abs(reach), axis=2)
    worst = np.argmax(sums, axis=1)
    unsafe = []
    for channel in np.flatnonzero(sums.max(axis=1) > PAIR_LIMIT):
        pair = int(worst[channel])
        first, second = (int(weight) for weight in pairs[channel, pair])
        low, high = int(reach[channel, :, 1].min()), int(reach[channel, :, 0].max())
        unsafe.append(
            UnsafeChannel(int(channel), pair, (first, second), low * LARGEST_CODE, high * LARGEST_CODE)
        )
    return LayerPairs(layer.name, len(pairs), pairs.shape[1], tuple(unsafe))


@dataclass
class _Seen:
    """What the unsafe pairs of every unsafe channel came to."""

    low: Codes
    high: Codes
    cut: Codes
    sums: Codes


def _nothing_seen(channels: int) -> _Seen:
    beyond = 2 * INT16_MAX + 2
    low, high = np.full(channels, beyond, np.int64), np.full(channels, -beyond, np.int64)
    return _Seen(low, high, np.zeros(channels, np.int64), np.zeros(channels, np.int64))


class PairObserver:
    """Adds up what the unsafe pairs of a model come to, run by run."""

    def __init__(self, model: ir.Model) -> None:
        """Takes a QDQ graph as ``readable_copy`` gives it."""
        self.layers = layer_pairs(model)
        wanted = {layer.layer for layer in self.layers if layer.unsafe}
        self._codes = {layer.name: layer for layer in layer_codes(model) if layer.name in wanted}
        self._seen = {
            layer.layer: _nothing_seen(layer.channels) for layer in self.layers if layer.layer in wanted
        }

    @property
    def inputs(self) -> dict[str, str]:
        """Layer → the value that it reads, which ``add`` wants as float."""
        return {name: layer.layer.input.name or "" for name, layer in self._codes.items()
                if layer.layer.input is not None}  # fmt: skip

    def add(self, values: Mapping[str, npt.NDArray[Any]]) -> None:
        """Adds one run: layer → the real values behind its input's codes."""
        for name, layer in self._codes.items():
            codes = np.rint(values[name].astype(np.float64) / layer.scale) + (layer.zero_point - layer.qmin)
            _observe(layer, columns_of(layer, codes.astype(np.int32)), self._seen[name])

    def found(self) -> tuple[LayerPairs, ...]:
        """The layers with what was seen, as ``layer_pairs`` gives them."""
        return tuple(
            replace(layer, unsafe=_with_seen(layer.unsafe, self._seen[layer.layer]))
            if layer.unsafe
            else layer
            for layer in self.layers
        )


def _observe(layer: LayerCodes, columns: Columns, seen: _Seen) -> None:
    """Every pair that can saturate in some channel, for all those channels at once."""
    pairs = weight_pairs(layer.layer, layer.weight)
    assert pairs is not None
    unsafe = np.max(np.abs(pair_reach(pairs)), axis=2) > PAIR_LIMIT
    for index in map(int, np.flatnonzero(unsafe.any(axis=0))):
        for group in range(columns.groups):
            first = group * columns.group_channels
            chosen = np.flatnonzero(unsafe[first : first + columns.group_channels, index]) + first
            if not chosen.size:
                continue
            left, right = columns.column(group, 2 * index), columns.column(group, 2 * index + 1)
            weights = pairs[chosen, index].astype(np.int32)
            sums = np.multiply.outer(weights[:, 0], left) + np.multiply.outer(weights[:, 1], right)
            seen.low[chosen] = np.minimum(seen.low[chosen], sums.min(axis=1))
            seen.high[chosen] = np.maximum(seen.high[chosen], sums.max(axis=1))
            seen.cut[chosen] += np.count_nonzero((sums < INT16_MIN) | (sums > INT16_MAX), axis=1)
            seen.sums[chosen] += sums.shape[1]


def _with_seen(unsafe: Sequence[UnsafeChannel], seen: _Seen) -> tuple[UnsafeChannel, ...]:
    result = []
    for item in unsafe:
        at = item.channel
        if seen.sums[at]:
            share = int(seen.cut[at]) / int(seen.sums[at])
            item = replace(item, observed=(int(seen.low[at]), int(seen.high[at])), saturated=share)
        result.append(item)
    return tuple(result)
