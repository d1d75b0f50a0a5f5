"""Factors on the channels that layers of any kind read: noise of the codes against that of the weights.

    v·u ─► layer W/u

    R     range of the tensor      max u h + max u l                     h, l: how far a channel reaches
    D_o   step of a weight row     max_c |W_oc| / u_c / 127
    P_o   power of an output       Σ_c W_oc² m_c                         m: mean square of a channel
    J  =  Σ layers mean_o ( (R / 255)² / 12 · Σ_c W_oc² / u_c²  +  D_o² / 12 · taps · Σ_c u_c² m_c ) / P_o

A quiet channel that becomes louder has finer codes, and smaller weights beside the others of their row. Of
the factors with which channels are alike (``equalize_through``), and of those that stop at a power of two
before, the ones of the least J are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from calib8.passes.fold_affine import Vector
from calib8.passes.layer_channels import LayerChannels
from calib8.repair.channel_extremes import ChannelExtremes

QUIET: Final = 1e-3
"""Share of a layer's mean power that every output is taken to have at least."""


def factors_of_least_noise(
    seen: ChannelExtremes,
    readers: Sequence[LayerChannels],
    largest: float,
    worth: float,
    alike: Callable[[ChannelExtremes, float], Vector],
) -> Vector:
    """Factors for a tensor that layers of any kind read, float64 [channels].

    Args:
        seen: of the tensor, with the mean squares of its channels.
        readers: all layers that read it.
        largest: of a factor.
        worth: share of J that may be left; all factors are 1 where more is.
        alike: what makes the channels alike with factors up to a limit.
    """
    plain: Vector = np.ones(seen.maximum.size)
    if seen.power is None or not np.any(seen.power) or any(one.inputs != plain.size for one in readers):
        return plain
    best, least = plain, worth * _noise(seen, readers, plain)
    for limit in _limits(largest):
        found = alike(seen, limit)
        noise = _noise(seen, readers, found)
        if noise < least:
            best, least = found, noise
    return best


def _limits(largest: float) -> Iterator[float]:
    """Powers of two up to the largest one."""
    limit = 2.0
    while limit < largest:
        yield limit
        limit *= 2.0
    yield largest


def _noise(seen: ChannelExtremes, readers: Sequence[LayerChannels], factors: Vector) -> float:
    """J with these factors."""
    assert seen.power is not None
    high, low = np.maximum(seen.maximum, 0.0), np.maximum(-seen.minimum, 0.0)
    step = (float(np.max(factors * high)) + float(np.max(factors * low))) / 255.0
    total = 0.0
    for layer in readers:
        groups, _, inputs, taps = layer.weight.shape
        u, m = (one.reshape(groups, 1, inputs) for one in (factors, seen.power))
        squares = np.sum(layer.weight**2, axis=3)
        power = np.sum(squares * m, axis=2)
        power = np.maximum(power, QUIET * max(float(np.mean(power)), np.finfo(np.float64).tiny))
        codes = step**2 / 12.0 * np.sum(squares / u**2, axis=2)
        rows = np.max(np.max(np.abs(layer.weight), axis=3) / u, axis=2) / 127.0
        total += float(np.mean((codes + rows**2 / 12.0 * taps * np.sum(u**2 * m, axis=2)) / power))
    return total
