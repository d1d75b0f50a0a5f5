"""One view of all layers: where operands stand, which axes are channels, how weights are laid out.

    Conv [O, I/g, k…]   ConvTranspose [I, O/g, k…]   Gemm [I, O] or [O, I]   MatMul [I, O]
        ⇄   [groups, outputs of a group, inputs of a group, taps]

Output channel ``o`` of group ``g`` is channel ``g · outputs + o`` of the layer, and so for its inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import constant, float_attribute, input_at, int_attribute, ints_attribute, label
from calib8.model.padding import auto_pad
from calib8.ops.questions import is_convolution, is_transposed_convolution, is_weighted, takes_bias


@dataclass(frozen=True)
class Layer:
    """A Conv, ConvTranspose, Gemm or MatMul, whatever its operands are.

    Attributes:
        node: the layer in its graph; all that is asked is read from there.
    """

    node: ir.Node

    def __post_init__(self) -> None:
        """Refuses other nodes."""
        if not is_weighted(self.node):
            raise ValueError(f"a {self.node.op_type} is not a layer")

    @property
    def name(self) -> str:
        """The node's name, or op and output where it has none."""
        return label(self.node)

    @property
    def input(self) -> ir.Value | None:
        """What it reads; another value than the weight."""
        return self.node.inputs[0]

    @property
    def weight(self) -> ir.Value | None:
        """The weight, constant or not."""
        return self.node.inputs[1]

    @property
    def bias(self) -> ir.Value | None:
        """The bias, None without one; a MatMul has no place for it."""
        return input_at(self.node, 2) if self.takes_bias else None

    @property
    def takes_bias(self) -> bool:
        """There is a place for a bias."""
        return takes_bias(self.node)

    @property
    def array(self) -> npt.NDArray[np.generic]:
        """The weight, which must be constant, in the layer's own layout."""
        array = constant(self.weight)
        assert array is not None
        return array

    @property
    def windows(self) -> bool:
        """A convolution: its channels are axis 1, and its weight has taps."""
        return is_convolution(self.node)

    @property
    def transposed(self) -> bool:
        """A ConvTranspose: its groups share the entries of the weight's output axis."""
        return is_transposed_convolution(self.node)

    @property
    def direct(self) -> bool:
        """A Conv, whose outputs are sums over windows of the input as it is."""
        return self.windows and not self.transposed

    @property
    def stacks(self) -> bool:
        """A MatMul: operands may be stacks of matrices, and its weight an activation."""
        return not (self.windows or self.takes_bias)

    @property
    def groups(self) -> int:
        """Groups of a convolution, 1 for Gemm and MatMul."""
        return int_attribute(self.node, "group", 1) if self.windows else 1

    @property
    def sharing(self) -> int:
        """How many output channels stand behind an entry of the weight's output axis."""
        return self.groups if self.transposed else 1

    @property
    def factors(self) -> tuple[float, float]:
        """``alpha`` of a Gemm's product and ``beta`` of its bias, ones for other layers."""
        if self.windows or self.stacks:
            return 1.0, 1.0
        return float_attribute(self.node, "alpha", 1.0), float_attribute(self.node, "beta", 1.0)

    @property
    def turned(self) -> bool:
        """A Gemm that transposes its input: rows are channels."""
        return self._turns("transA")

    @property
    def plain(self) -> bool:
        """Input and constants are multiplied as they are, not transposed or scaled before."""
        return not self.turned and self.factors == (1.0, 1.0)

    @property
    def pads(self) -> bool:
        """Padding is stated, or what it is depends on the size of the input; False for Gemm and MatMul."""
        if not self.windows:
            return False
        return auto_pad(self.node) not in ("NOTSET", "VALID") or any(ints_attribute(self.node, "pads", ()))

    def fits(self, axes: int) -> bool:
        """A weight with so many axes is one for all samples: a matrix, or any of a convolution."""
        return self.windows or axes == 2

    def steps(self, axes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Strides and dilations of a convolution over so many axes."""
        ones = (1,) * axes
        return ints_attribute(self.node, "strides", ones), ints_attribute(self.node, "dilations", ones)

    def output_axis(self, axes: int) -> int:
        """Output-channel axis of the weight with so many axes."""
        if self.stacks:
            return axes - 1
        return 0 if self.direct or self._turns("transB") else 1

    def channel_axis(self, axes: int) -> int:
        """Axis of the channels in what the layer yields, with so many axes; and in what it reads."""
        return 1 if self.windows else axes - 1

    def channels(self, shape: Sequence[int]) -> int:
        """Number of output channels for a weight of this shape."""
        return shape[self.output_axis(len(shape))] * self.sharing

    def by_channel(self, weight: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A weight in the layer's own layout as [groups, outputs of a group, inputs of a group, taps].

        The inputs of a MatMul with more axes than two are all but its last one.
        """
        if not self.windows:
            matrix = np.moveaxis(weight, self.output_axis(weight.ndim), 0)
            return matrix.reshape(1, len(matrix), -1, 1)
        split = weight.reshape(self.groups, weight.shape[0] // self.groups, weight.shape[1], -1)
        return split.transpose(0, 2, 1, 3) if self.transposed else split

    def in_layout(self, weight: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[Any]:
        """The inverse of ``by_channel`` for a weight of this shape."""
        if self.windows:
            return (weight.transpose(0, 2, 1, 3) if self.transposed else weight).reshape(shape)
        axis = self.output_axis(len(shape))
        others = [size for index, size in enumerate(shape) if index != axis]
        return np.moveaxis(weight.reshape(shape[axis], *others), 0, axis)

    def taps(self, shape: Sequence[int]) -> int:
        """Taps of a weight of this shape."""
        return math.prod(shape[2:]) if self.windows else 1

    def _turns(self, name: str) -> bool:
        """Whether a Gemm transposes an operand."""
        gemm = self.takes_bias and not self.windows
        return gemm and bool(int_attribute(self.node, name, 0))


def layer_of(node: ir.Node | None) -> Layer | None:
    """The layer that a node is, None for others."""
    return None if node is None or not is_weighted(node) else Layer(node)
