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


def pack_weights(taps: npt.NDArray[np.int8], widths: Sequence[int]) -> npt.NDArray[np.int8]:
    """Packed panels of a filter [outputs, taps, depth]; depth is filled up to a multiple of 4.

    Returns:
        int8, flat.
    """
    outputs, count, depth = taps.shape
    full = np.zeros((sum(widths) * LANES, count, -(-depth // 4) * 4), np.int8)
    full[:outputs, :, :depth] = taps
    panels, first = [], 0
    for width in widths:
        panel = full[first : first + width * LANES]
        # [channels, taps, depth / 4, 4] → [taps, depth / 4, channels, 4]
        quads = panel.reshape(width * LANES, count, -1, 4).transpose(1, 2, 0, 3)
        panels.append(np.ascontiguousarray(quads).reshape(-1))
        first += width * LANES
    return np.concatenate(panels)
