"""What each product of a layer reads: one column per product, in the order of ONNX Runtime's kernels.

Conv            column k = p·C + c:  input channel c of the group at position p of the window, row by row
Gemm, MatMul    column k:            input k
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calib8.analysis.layer_codes import LayerCodes
from calib8.model.padding import conv_pads

Column = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Columns:
    """The inputs of a layer's products.

    Attributes:
        groups: of the layer.
        group_channels: output channels of each.
        products: of one output.
        read: (group, product) → [N · output positions].
    """

    groups: int
    group_channels: int
    products: int
    read: Callable[[int, int], Column]

    def column(self, group: int, product: int) -> Column:
        """What a product reads at every output position, zeros behind the last product."""
        if product < self.products:
            return self.read(group, product)
        return np.zeros_like(self.read(group, 0))


def columns_of(layer: LayerCodes, codes: Column) -> Columns:
    """The columns of a Conv, Gemm or MatMul.

    Args:
        layer: the layer.
        codes: of its input, ≥ 0: [N, C, …] for Conv, [N, K] for Gemm, [..., K] for MatMul.
    """
    if not layer.layer.windows:
        flat = codes.T if layer.layer.turned else codes.reshape(-1, codes.shape[-1])
        return Columns(1, len(layer.rows), flat.shape[1], lambda group, product: flat[:, product])
    return _convolution(layer, codes)


def _convolution(layer: LayerCodes, codes: Column) -> Columns:
    groups, channels = layer.layer.groups, layer.weight.shape[1]
    kernel = layer.weight.shape[2:]
    strides, dilations = layer.layer.steps(len(kernel))
    reach = [dilation * (size - 1) + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    sides = ((0, 0), (0, 0), *conv_pads(layer.layer.node, codes.shape[2:], strides, reach))
    padded = np.pad(codes, sides, constant_values=layer.zero_point - layer.qmin)
    counts = [
        (length - extent) // stride + 1
        for length, extent, stride in zip(padded.shape[2:], reach, strides, strict=True)
    ]

    def read(group: int, product: int) -> Column:
        position, channel = divmod(product, channels)
        at = np.unravel_index(position, kernel)
        cut = tuple(
            slice(start, start + (count - 1) * stride + 1, stride)
            for start, count, stride in zip(
                (int(index) * dilation for index, dilation in zip(at, dilations, strict=True)),
                counts,
                strides,
                strict=True,
            )
        )
        return np.asarray(padded[(slice(None), group * channels + channel, *cut)]).reshape(-1)

    return Columns(groups, len(layer.rows) // groups, channels * int(np.prod(kernel)), read)
