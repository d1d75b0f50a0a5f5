"""Zeros around what a Conv reads: as stated, or as ``auto_pad`` has them.

SAME_UPPER, SAME_LOWER    outputs n = ⌈size / stride⌉,  total = max((n − 1) · stride + reach − size, 0)
                          half of it on either side; an odd one behind (UPPER) or before (LOWER)
VALID                     none
NOTSET                    ``pads``
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from calib8.model.graph import ints_attribute


def auto_pad(layer: ir.Node) -> str:
    """``auto_pad`` of a Conv, ConvTranspose or pool."""
    attribute = layer.attributes.get("auto_pad")
    return "NOTSET" if attribute is None else attribute.as_string()


def conv_pads(
    layer: ir.Node, sizes: Sequence[int], strides: Sequence[int], reach: Sequence[int]
) -> list[tuple[int, int]]:
    """Padding of a Conv before and after each axis.

    Args:
        layer: the Conv.
        sizes: of the axes of its input, batch and channels left out.
        strides: per axis.
        reach: (kernel − 1) · dilation + 1 per axis.
    """
    mode = auto_pad(layer)
    if not mode.startswith("SAME"):
        return stated_pads(layer, len(sizes))
    axes = zip(sizes, strides, reach, strict=True)
    totals = [max((-(-size // stride) - 1) * stride + span - size, 0) for size, stride, span in axes]
    return [halves(total, mode) for total in totals]


def stated_pads(layer: ir.Node, axes: int) -> list[tuple[int, int]]:
    """``pads`` before and after each axis, zeros where there are none or ``auto_pad`` is VALID."""
    none = (0,) * (2 * axes)
    flat = none if auto_pad(layer) == "VALID" else ints_attribute(layer, "pads", none)
    return list(zip(flat[:axes], flat[axes:], strict=True))


def halves(total: int, mode: str) -> tuple[int, int]:
    """Padding before and after: the odd one is after with SAME_UPPER, else before."""
    less = total // 2
    return (less, total - less) if mode == "SAME_UPPER" else (total - less, less)
