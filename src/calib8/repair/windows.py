"""What each output of a layer is summed over, as columns; weights as rows that multiply them.

y[o, p] = Σ_d  rows[o, d] · columns[d, p] + b[o]           within one group

Conv             d = (input channel of the group, tap)     p = position of the output
ConvTranspose    the same, over inputs with stride − 1 zeros put between them and the taps turned round
Gemm, MatMul     d = inner index                           p = row of the left side
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.model.graph import ints_attribute
from calib8.model.layer import Layer
from calib8.model.padding import auto_pad, conv_pads, halves, stated_pads

GOLDEN: Final = 0.6180339887498949
"""Share of a step by which the first position moves from run to run."""

Codes = npt.NDArray[Any]
"""Inputs of layers: codes less their zero point, or real values."""

Columns = npt.NDArray[np.float32]


def to_rows(layer: Layer, weight: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A weight in the layer's own layout as [groups, outputs of a group, d]."""
    found = layer.by_channel(weight)
    return found.reshape(*found.shape[:2], -1)


def from_rows(layer: Layer, rows: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[Any]:
    """The inverse of ``to_rows`` for a weight of this shape, whose memory is in its own order."""
    weight = rows.reshape(*rows.shape[:2], -1, layer.taps(shape))
    return np.ascontiguousarray(layer.in_layout(weight, shape))


def columns(layer: Layer, codes: Codes, most: int, run: int) -> Columns:
    """The columns of one run, float32 [groups, d, positions].

    Args:
        layer: one with constant weights.
        codes: the layer's first input, codes less their zero point or real values.
        most: so many positions at most, evenly spread.
        run: number of the run: it moves the positions.
    """
    if not layer.windows:
        table = codes.reshape(-1, codes.shape[-1])
        chosen = spread(len(table), most, run)
        return np.ascontiguousarray(table[chosen].T, np.float32)[None]
    kernel = layer.array.shape[2:]
    views: npt.NDArray[Any] = _windows(layer, codes, kernel)
    axes = len(kernel)
    sizes = (views.shape[0], *views.shape[2 : 2 + axes])
    first, *rest = np.unravel_index(spread(math.prod(sizes), most, run), sizes)
    index: Any = (first, slice(None), *rest)
    found = views[index]
    split = found.reshape(len(first), layer.groups, -1).transpose(1, 2, 0)
    return np.ascontiguousarray(split, np.float32)


def spread(positions: int, most: int, run: int) -> npt.NDArray[np.int64]:
    """At most ``most`` of the numbers 0 … positions − 1, evenly spread, others in other runs."""
    if positions <= most:
        return np.arange(positions)
    phase = (run * GOLDEN) % 1.0
    numbers: npt.NDArray[np.int64] = np.floor((np.arange(most) + phase) * (positions / most)).astype(np.int64)
    return numbers


def _windows(layer: Layer, codes: Codes, kernel: Sequence[int]) -> Codes:
    """View [N, C, positions …, taps …] of a Conv's or ConvTranspose's input."""
    axes = len(kernel)
    strides, dilations = layer.steps(axes)
    reach = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
    if layer.direct:
        pads = conv_pads(layer.node, codes.shape[2:], strides, reach)
    else:
        pads = _transposed_pads(layer, codes.shape[2:], strides, reach)
        codes, strides = _with_gaps(codes, strides), (1,) * axes
    padded = _padded(codes, pads)
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, 2 + axes)))
    turn = -1 if layer.transposed else 1
    steps = [slice(None, None, step) for step in strides]
    taps = [slice(None, None, turn * step) for step in dilations]
    kept: Codes = views[(slice(None), slice(None), *steps, *taps)]
    return kept


def _transposed_pads(
    layer: Layer, sizes: Sequence[int], strides: Sequence[int], reach: Sequence[int]
) -> list[tuple[int, int]]:
    """Padding of a ConvTranspose's input with gaps; less than 0: cut off."""
    mode, axes = auto_pad(layer.node), len(sizes)
    extra = ints_attribute(layer.node, "output_padding", (0,) * axes)
    pairs = list(zip(sizes, strides, reach, extra, strict=True))
    full = [(size - 1) * step + span + more for size, step, span, more in pairs]
    wanted = ints_attribute(layer.node, "output_shape", ())[-axes:]
    if not wanted and mode.startswith("SAME"):
        wanted = tuple(size * step for size, step in zip(sizes, strides, strict=True))
    if wanted:
        cut = [halves(size - n, mode) for size, n in zip(full, wanted, strict=True)]
    else:
        cut = stated_pads(layer.node, axes)
    return [
        (span - 1 - first, span - 1 - last + more)
        for (first, last), span, more in zip(cut, reach, extra, strict=True)
    ]


def _with_gaps(codes: Codes, strides: Sequence[int]) -> Codes:
    sizes = [(size - 1) * step + 1 for size, step in zip(codes.shape[2:], strides, strict=True)]
    result = np.zeros((*codes.shape[:2], *sizes), codes.dtype)
    result[(slice(None), slice(None), *[slice(None, None, step) for step in strides])] = codes
    return result


def _padded(codes: Codes, pads: Sequence[tuple[int, int]]) -> Codes:
    if any(amount > 0 for pair in pads for amount in pair):
        added = [(max(first, 0), max(last, 0)) for first, last in pads]
        codes = np.pad(codes, [(0, 0), (0, 0), *added])
    kept = [slice(max(-first, 0), min(last, 0) or None) for first, last in pads]
    rest: Codes = codes[(slice(None), slice(None), *kept)]
    return rest
