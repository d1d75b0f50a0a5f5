"""The constants of a layer seen channel by channel, as ``model/layer`` lays them out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from calib8.model.graph import constant
from calib8.model.layer import Layer, layer_of
from calib8.ops.questions import is_standard
from calib8.passes.fold_affine import Vector, bias_vector, set_constant


@dataclass(frozen=True)
class LayerChannels:
    """Weight and bias of a layer in float64.

    Attributes:
        layer: whose constants.
        weight: [groups, outputs of a group, inputs of a group, taps].
        bias: [output channels], None where there is none.
    """

    layer: Layer
    weight: Vector
    bias: Vector | None

    @property
    def node(self) -> ir.Node:
        """The layer in its graph."""
        return self.layer.node

    @property
    def outputs(self) -> int:
        """Number of output channels."""
        return int(self.weight.shape[0] * self.weight.shape[1])

    @property
    def inputs(self) -> int:
        """Number of input channels."""
        return int(self.weight.shape[0] * self.weight.shape[2])

    @property
    def axes(self) -> int:
        """Number of axes of what a convolution yields; of a matrix product at least so many."""
        return self.layer.array.ndim

    @property
    def depthwise(self) -> bool:
        """Every output channel reads the input channel of its own number, and no other."""
        return self.weight.shape[1:3] == (1, 1)

    def output_magnitudes(self) -> Vector:
        """Largest |weight| of every output channel, float64 [outputs]."""
        largest: Vector = np.max(np.abs(self.weight), axis=(2, 3), initial=0.0)
        return largest.reshape(-1)

    def input_magnitudes(self) -> Vector:
        """Largest |weight| that reads each input channel, float64 [inputs]."""
        largest: Vector = np.max(np.abs(self.weight), axis=(1, 3), initial=0.0)
        return largest.reshape(-1)

    def scaled(self, *, inputs: Vector | None = None, outputs: Vector | None = None) -> LayerChannels:
        """The layer with factors on what reads its input channels and on its output channels, bias included.

        Args:
            inputs: float64 [inputs], None for ones.
            outputs: float64 [outputs], None for ones.
        """
        groups, own, read, _ = self.weight.shape
        weight, bias = self.weight, self.bias
        if inputs is not None:
            weight = weight * inputs.reshape(groups, 1, read, 1)
        if outputs is not None:
            weight = weight * outputs.reshape(groups, own, 1, 1)
            bias = None if bias is None else bias * outputs
        return replace(self, weight=weight, bias=bias)

    def layout(self) -> Vector:
        """The weight in the layer's own layout, float64."""
        return self.layer.in_layout(self.weight, self.layer.array.shape)

    def write(self, graph: ir.Graph) -> None:
        """Puts the constants, as float32, into the layer; shared ones stay for their other readers."""
        set_constant(graph, self.node, 1, self.layout(), "weight")
        if self.bias is not None:
            set_constant(graph, self.node, 2, self.bias, "bias")


def layer_channels(node: ir.Node) -> LayerChannels | None:
    """The constants of a node; None if it is no weighted layer or has computed or unusual ones.

    Unusual are weights that are not finite float32, a MatMul with more than two axes, a bias that is a
    matrix, a Gemm with a transposed or scaled input.
    """
    layer = layer_of(node)
    if layer is None or not is_standard(node):
        return None
    weight, bias = constant(layer.weight), bias_vector(layer)
    if weight is None or bias is None or weight.dtype != np.float32 or not np.all(np.isfinite(weight)):
        return None
    if not layer.plain or weight.ndim < 2 or weight.size == 0 or not layer.fits(weight.ndim):
        return None
    channels = layer.channels(weight.shape)
    if bias.size not in (1, channels):
        return None
    vector = None if layer.bias is None else np.broadcast_to(bias, channels)
    return LayerChannels(layer, layer.by_channel(weight.astype(np.float64)), vector)
