"""Padding of convolutions and pools.

pad < 0        ("same") total = (ceil(in / stride) − 1)·stride + kernel − in, half of it before, rounded
               down; for convolutions −2 puts the larger half there
pool           behind: what the windows of the stated output need
"""

from __future__ import annotations

from collections.abc import Sequence

from calib8.errors import NoFormError

Pads = tuple[int, int, int, int]


def same_pads(
    size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]
) -> Pads:
    """(top, left, bottom, right) of a convolution.

    Args:
        size, kernel, strides: rows and columns.
        pads: pad_h0, pad_w0, pad_h1, pad_w1.
    """
    sides = [
        _same(have, taps, step, before) if before < 0 else (before, after)
        for have, taps, step, before, after in zip(size, kernel, strides, pads[:2], pads[2:], strict=True)
    ]
    return sides[0][0], sides[1][0], sides[0][1], sides[1][1]


def _same(have: int, taps: int, step: int, which: int) -> tuple[int, int]:
    total = (have - 1) // step * step + taps - have
    smaller, larger = total // 2, total - total // 2
    return (smaller, larger) if which == -1 else (larger, smaller)


def pool_pads(
    size: Sequence[int],
    outputs: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    before: Sequence[int],
    mirrored: bool,
) -> Pads:
    """(top, left, bottom, right) of a pool.

    Args:
        size, outputs, kernel, strides: rows and columns.
        before: pad_h0 and pad_w0 of the file.
        mirrored: Tengine counts as much padding behind as before (averages in the way of Caffe).

    Raises:
        NoFormError: the output has another size than the windows make.
    """
    sides = [_side(*axis, mirrored) for axis in zip(size, outputs, kernel, strides, before, strict=True)]
    return sides[0][0], sides[1][0], sides[0][1], sides[1][1]


def _side(have: int, out: int, taps: int, step: int, before: int, mirrored: bool) -> tuple[int, int]:
    needed = (out - 1) * step + taps - have
    if before < 0:
        before = max(needed, 0) // 2
    after = before if mirrored else max(needed - before, 0)
    if (have + before + max(needed - before, 0) - taps) // step + 1 != out:
        raise NoFormError(f"{out} windows of {taps} in steps of {step} do not fit {have} pixels")
    return before, after
