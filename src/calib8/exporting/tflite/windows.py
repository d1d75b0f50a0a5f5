"""Windows over rows and columns: SAME or VALID where that is what the pads are, else a border before.

VALID   no padding
SAME    total = max((out − 1)·stride + (size − 1)·dilation + 1 − in, 0),   before = total div 2
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calib8.exporting.tflite.builder import Builder


def padding(
    have: Sequence[int],
    out: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> str | None:
    """``SAME``, ``VALID``, or None where neither means these pads.

    Args:
        have, out, kernel, strides, dilations: rows and columns.
        pads: top, left, bottom, right.
    """
    if not any(border(have, out, kernel, strides, dilations, pads)):
        return "VALID"
    for axis in (0, 1):
        total = _total(have[axis], out[axis], kernel[axis], strides[axis], dilations[axis])
        if out[axis] != -(-have[axis] // strides[axis]) or pads[axis] != total // 2:
            return None
    return "SAME"


def border(
    have: Sequence[int],
    out: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> tuple[int, int, int, int]:
    """Rows and columns that must be added so that VALID windows are those of the pads: top, left, bottom,
    right; what no window reaches is left out."""
    after = []
    for axis in (0, 1):
        end = (out[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        after.append(max(end - have[axis] - pads[axis], 0))
    return pads[0], pads[1], after[0], after[1]


def _total(have: int, out: int, kernel: int, stride: int, dilation: int) -> int:
    return max((out - 1) * stride + (kernel - 1) * dilation + 1 - have, 0)


def bordered(builder: Builder, place: int, widths: Sequence[int], code: int | None = None) -> int:
    """An image with a border.

    Args:
        builder: gets the operator.
        place: the tensor, NHWC.
        widths: top, left, bottom, right.
        code: of the border; None: what means 0.
    """
    top, left, bottom, right = widths
    if not any(widths):
        return place
    old = builder.tensors[place].shape
    shape = (old[0], old[1] + top + bottom, old[2] + left + right, old[3])
    result = builder.like(place, "padded", shape)
    padded(builder, place, result, [(0, 0), (top, bottom), (left, right), (0, 0)], code)
    return result


def padded(
    builder: Builder, place: int, result: int, widths: Sequence[tuple[int, int]], code: int | None = None
) -> None:
    """PAD where the border means 0, else PADV2."""
    table = builder.constant("paddings", np.array(widths, np.int32))
    codes = builder.tensors[place].quantization
    if code is None or codes is None or code == codes.zero_points[0]:
        builder.operator("PAD", [place, table], [result])
    else:
        value = builder.constant("border", np.array([code], builder.tensors[place].dtype), codes)
        builder.operator("PADV2", [place, table, value], [result])
