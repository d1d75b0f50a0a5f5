"""Weights that x86 without VNNI multiplies two at a time, and scales with which no pair can saturate.

    vpmaddubsw    t = sat16( a₀·w₀ + a₁·w₁ ),    a uint8, w int8, −32768 ≤ t ≤ 32767

A pair of one sign with |w₀| + |w₁| ≤ 128 cannot saturate: 255 · 128 = 32640. One with 129 or more can, where
both activations are 255. Of two signs no more than the larger one counts: 255 · 127 = 32385 is too little.

Which two meet is ONNX Runtime's choice (MLAS, kernels U8S8 of AVX2 and of AVX-512 without VNNI): the products
of an output channel are counted k = position in the window · input channels of the group + input channel, and
a pair is (2j, 2j+1), whether it lies within one position or not. A depthwise Conv (one channel in and one out
per group) is computed in 32 bits, a ConvTranspose in float: they have no pairs. int8 activations become uint8
before (+128), unless the session option ``session.qdqisint8allowed`` is set.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.model.layer import Layer

PAIR_LIMIT: Final = 128
"""Largest |w₀| + |w₁| of one sign that cannot saturate beside uint8 activations."""

Weights = npt.NDArray[Any]


def weight_pairs(layer: Layer, weight: Weights) -> Weights | None:
    """The weights two by two, as the kernel meets them.

    Args:
        layer: whose weight it is.
        weight: the weight or codes of it, in the layer's own layout.

    Returns:
        [output channels, pairs, 2], a 0 behind an odd number; None where the layer has no pairs.
    """
    rows = _rows(layer, weight)
    if rows is None:
        return None
    if rows.shape[1] % 2:
        rows = np.pad(rows, ((0, 0), (0, 1)))
    return rows.reshape(len(rows), -1, 2)


def pair_reach(pairs: Weights) -> Weights:
    """Σ of the positive and Σ of the negative weights of every pair.

    Args:
        pairs: [..., 2], signed.

    Returns:
        [..., 2] in int64 or float64: the sums ≥ 0 and ≤ 0; times 255 they are what the pair can come to.
    """
    wide = pairs.astype(np.float64 if pairs.dtype.kind == "f" else np.int64)
    return np.stack([np.maximum(wide, 0).sum(axis=-1), np.minimum(wide, 0).sum(axis=-1)], axis=-1)


def largest_pair(layer: Layer, weight: Weights) -> Weights | None:
    """max over pairs of |w₀| + |w₁| of one sign, [output channels]; None where the layer has no pairs."""
    pairs = weight_pairs(layer, weight)
    return None if pairs is None else np.max(np.abs(pair_reach(pairs)), axis=(1, 2), initial=0)


def pairs_beyond(layer: Layer, codes: Weights, limit: int) -> npt.NDArray[np.bool_]:
    """Which codes belong to a pair of one sign with |q₀| + |q₁| > limit, in the layer's own layout."""
    beyond = np.zeros(codes.size + 1, np.bool_)
    pairs = weight_pairs(layer, codes)
    places = weight_pairs(layer, np.arange(1, codes.size + 1).reshape(codes.shape))
    if pairs is not None and places is not None:
        beyond[places[np.max(np.abs(pair_reach(pairs)), axis=-1) > limit]] = True
    return beyond[1:].reshape(codes.shape)  # place 0 is what fills up the last pair


def within_limit(layer: Layer, codes: Weights, exact: Weights, limit: int) -> Weights:
    """The codes, those of pairs of one sign with |q₀| + |q₁| > limit moved towards 0 until they fit.

    What a pair has too much is taken from its two codes so that they end as near as can be, by the sum of
    squares, to what they stand for.

    Args:
        layer: whose codes, in its own layout.
        codes: int8.
        exact: the weights in steps of their scales, in the same layout.
        limit: see ``QuantScheme.pair_limit``.
    """
    pairs = weight_pairs(layer, codes)
    if pairs is None:
        return codes
    ahead, behind = (np.maximum(sign * pairs.astype(np.int16), 0).sum(axis=-1) for sign in (1, -1))
    beyond = np.maximum(ahead, behind) > limit
    if not np.any(beyond):
        return codes
    wanted = weight_pairs(layer, exact)
    places = weight_pairs(layer, np.arange(1, codes.size + 1).reshape(codes.shape))
    assert wanted is not None and places is not None
    moved = pairs[beyond].astype(np.int64)
    for sign in (1, -1):
        sizes = np.maximum(sign * moved, 0)
        excess = np.maximum(sizes.sum(axis=-1) - limit, 0)
        over = sign * (moved - wanted[beyond])
        first = np.rint((excess + over[..., 0] - over[..., 1]) / 2.0).astype(np.int64)
        first = np.clip(first, np.maximum(excess - sizes[..., 1], 0), np.minimum(excess, sizes[..., 0]))
        moved -= sign * np.stack([first, excess - first], axis=-1)
    result = np.append(np.zeros(1, codes.dtype), codes)  # place 0 is what fills up the last pair
    result[places[beyond]] = moved
    return result[1:].reshape(codes.shape)


def _rows(layer: Layer, weight: Weights) -> Weights | None:
    """[output channels, products in the kernel's order]."""
    if layer.transposed or not layer.fits(weight.ndim):
        return None
    found = layer.by_channel(weight)
    groups, outputs, inputs, _ = found.shape
    if layer.windows and outputs == inputs == 1:
        return None
    return np.moveaxis(found, 2, 3).reshape(groups * outputs, -1)
