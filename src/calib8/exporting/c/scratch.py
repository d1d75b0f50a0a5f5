"""Scratch memory that functions of CMSIS-NN ask for, in bytes: on Cortex-M with and without vectors (MVE).

    convolution   im2col: two columns of int16, or four of int8 in vectors of 16
    depthwise     nothing for 3×3 with padding up to 1; the window of all channels in int16; with vectors four
                  windows of a block of channels
    average       a row of int32 sums; with vectors nothing

Upper bounds of what its ``…_get_buffer_size`` answers; the C code asks, and stops where that is more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

CHANNEL_BLOCK: Final = 124
"""Channels that its depthwise convolution takes together with vectors."""

WINDOW: Final = (3, 3)
"""For which it has a depthwise convolution that needs nothing."""


class Scratch(NamedTuple):
    """Bytes on a processor without and with vectors."""

    scalar: int
    vector: int


def conv_scratch(window: tuple[int, int], channels: int, *, padded: bool) -> Scratch:
    """Of a convolution.

    Args:
        window: rows and columns of the filters.
        channels: that a filter reads.
        padded: some pixels lie outside of the image.
    """
    if window == (1, 1) and not padded:
        return Scratch(4 * channels, 4 * channels)
    column = window[0] * window[1] * channels
    return Scratch(4 * (-(-column // 4) * 4), 4 * (-(-column // 16) * 16))


def depthwise_scratch(
    window: tuple[int, int], channels: int, outputs: int, *, images: int, dilated: bool, margin: int
) -> Scratch:
    """Of a depthwise convolution.

    Args:
        window: rows and columns of the filters.
        channels, outputs: of the input and of the result.
        images: how many are taken at once.
        dilated: taps lie apart.
        margin: the larger one of the padding above and to the left.
    """
    taps = window[0] * window[1]
    if channels == 1 and outputs > 1:
        as_conv = conv_scratch(window, 1, padded=True)
        return Scratch(0, as_conv.vector + taps * outputs)
    if channels != outputs or images != 1 or dilated:
        return Scratch(0, 0)
    scalar = 0 if window == WINDOW and margin <= 1 else 2 * taps * channels
    return Scratch(scalar, 4 * CHANNEL_BLOCK * taps)


def average_scratch(channels: int) -> Scratch:
    """Of an average pool."""
    return Scratch(4 * channels, 0)
