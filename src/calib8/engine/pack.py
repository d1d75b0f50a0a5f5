"""Weights in the order in which the kernels of a matrix product read them.

    panels of 16 … 64 output channels:   [taps][depth / 4][width][4]

Four bytes of one channel side by side make a dot product; depth and channels are filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

LANES = 16
"""Output channels that panels are a multiple of."""


def panel_widths(outputs: int) -> tuple[int, ...]:
    """Widths of the panels in units of 16 channels: 4 as often as can be; a 1 that is left shares with a 4.

    >>> panel_widths(144)
    (4, 3, 2)
    """
    units = -(-outputs // LANES)
    fours, rest = divmod(units, 4)
    if rest == 1 and fours > 0:
        return (*(4,) * (fours - 1), 3, 2)
    return (*(4,) * fours, *((rest,) if rest else ()))


def packed_bytes(count: int, depth: int, widths: Sequence[int]) -> int:
    """Bytes of the packed panels of a filter with so many taps and so many bytes per tap."""
    return sum(widths) * LANES * count * -(-depth // 4) * 4


def pack_weights(taps: npt.NDArray[np.int8], widths: Sequence[int], packed: npt.NDArray[np.int8]) -> None:
    """Packs the panels of a filter [outputs, taps, depth]; depth is filled up to a multiple of 4.

    Args:
        taps: the filter.
        widths: of its panels.
        packed: int8, flat, ``packed_bytes`` of them: where the panels are written.
    """
    outputs, count, depth = taps.shape
    quads = -(-depth // 4)
    first = place = 0
    for width in widths:
        channels = width * LANES
        part = taps[first : min(first + channels, outputs)]
        panel = np.zeros((channels, count, quads * 4), np.int8)
        panel[: len(part), :, :depth] = part
        # [channels, taps, depth / 4] → [taps, depth / 4, channels], each of them four bytes
        target = packed[place : place + panel.size].view(np.int32).reshape(count, quads, channels)
        target[...] = panel.view(np.int32).transpose(1, 2, 0)
        first += channels
        place += panel.size
