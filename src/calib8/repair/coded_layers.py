"""The weighted layers of a candidate as they are coded: what their codes stand for, what room a bias has.

They are read from the int8 graph: what stands there is what the file will hold, whatever a correction says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.coded_array import CodedArray
from calib8.model.graph import constant
from calib8.model.layer import Layer, layer_of
from calib8.ops.questions import is_weighted
from calib8.qparams import FLOAT32_MAX, QParams
from calib8.quantization.insert import added_to_sums
from calib8.quantization.qdq import codes_of, dequantizer
from calib8.quantization.quantize import QuantizedGraph
from calib8.quantization.weights import INT32_MAX, MAX_ACTIVATION_STEP, scales_for_bias
from calib8.repair.candidate import Candidate

ROOM: Final = 0.499
"""Share of int32 that a bias may take: just below the half that enlarges the scale of its channel."""

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CodedLayer:
    """A quantized Conv, ConvTranspose, Gemm or MatMul.

    Attributes:
        layer: of the prepared float graph.
        coded: the same layer in the int8 graph.
        weight: int8 codes in the layer's own layout, with a scale per output channel or one for all.
        least: float32, as ``scale`` or [1]: smaller scales have no room for the bias.
        bias: float32 [output channels] as the float model has it, zeros without one.
        bias_scale: float64 [output channels], input scale × weight scale; None where biases stay float.
        room: float64 [output channels]: every |bias| below it keeps the scale of its channel, and the int32
            sums in their range; None where biases stay float.
    """

    layer: Layer
    coded: ir.Node
    weight: CodedArray
    least: Floats
    bias: Floats
    bias_scale: Doubles | None
    room: Doubles | None

    @property
    def node(self) -> ir.Node:
        """The layer in the prepared float graph."""
        return self.layer.node

    @property
    def name(self) -> str:
        """Name of the layer."""
        return self.node.name or ""

    @property
    def exact(self) -> Floats:
        """W, float32 in the layer's own layout."""
        return self.layer.array.astype(np.float32)

    @property
    def codes(self) -> npt.NDArray[np.int8]:
        """Of the weight, in the layer's own layout."""
        return self.weight.values

    @property
    def scale(self) -> Floats:
        """float32, one per entry of the output-channel axis, equal where the target takes one for all."""
        return self.weight.channel_scales(self.layer.output_axis(self.codes.ndim))

    @property
    def weight_error(self) -> Floats:
        """W_q − W in the layer's own layout, float32."""
        return np.asarray(self.weight.real - self.exact.astype(np.float64), np.float32)

    def holds(self, bias: Doubles) -> npt.NDArray[np.bool_]:
        """For every channel whether a bias, float64 [output channels], can be had; not so if it is NaN."""
        limit = FLOAT32_MAX if self.room is None else np.minimum(self.room, FLOAT32_MAX)
        fits: npt.NDArray[np.bool_] = np.abs(bias) < limit
        return fits

    def rounded(self, bias: Floats) -> Doubles:
        """What is left of a bias behind its codes, float64."""
        exact = bias.astype(np.float64)
        return exact if self.bias_scale is None else np.rint(exact / self.bias_scale) * self.bias_scale


def coded_layers(candidate: Candidate, quantized: QuantizedGraph) -> tuple[CodedLayer, ...]:
    """Every weighted layer that the int8 graph computes from codes of its weights, in graph order.

    Args:
        candidate: what was quantized.
        quantized: its int8 form.
    """
    chosen = quantized.placement.quantized_nodes()
    inside = {node.name: node for node in quantized.model.graph if is_weighted(node)}
    return tuple(
        _coded_layer(layer, inside[layer.node.name], candidate, quantized.qparams)
        for layer in map(layer_of, candidate.model.graph)
        if layer is not None and layer.node.name in chosen
    )


def _coded_layer(
    layer: Layer, coded: ir.Node, candidate: Candidate, qparams: Mapping[str, QParams]
) -> CodedLayer:
    source, stored = layer.input, dequantizer(coded.inputs[1])
    assert source is not None and stored is not None
    codes, found = constant(stored.inputs[0]), codes_of(stored).scale
    assert codes is not None and found is not None
    integers, own = np.asarray(codes, np.int8), _own_bias(layer, codes)
    axis = layer.output_axis(integers.ndim)
    weight = CodedArray(integers, found.astype(np.float32), axis=axis if found.ndim else None)
    if not candidate.scheme.quantize_bias:
        least = scales_for_bias(layer, None, 1.0)
        return CodedLayer(layer, coded, weight, least, own, None, None)
    input_scale = np.float32(qparams[source.name or ""].scale)
    corrected = candidate.correction(layer.node.name or "").bias
    has_bias = corrected is not None or layer.bias is not None
    bias = own if corrected is None else corrected
    added = added_to_sums(layer.node, qparams)
    least = scales_for_bias(layer, bias if has_bias else None, float(input_scale), added)
    bias_scale = np.tile(input_scale * weight.channel_scales(axis), layer.sharing).astype(np.float64)
    room = np.tile(_room(integers, axis), layer.sharing) * bias_scale
    return CodedLayer(layer, coded, weight, least, own, bias_scale, room)


def _room(codes: npt.NDArray[np.int8], axis: int) -> Doubles:
    """What is left of int32 for a bias in every entry of the channel axis, float64."""
    others = tuple(index for index in range(codes.ndim) if index != axis)
    sums = np.sum(np.abs(codes.astype(np.int64)), axis=others) * MAX_ACTIVATION_STEP
    return np.asarray(np.minimum(INT32_MAX - sums, ROOM * INT32_MAX))


def _own_bias(layer: Layer, weight: npt.NDArray[np.generic]) -> Floats:
    """float32 [output channels] of a layer of the float graph, zeros where it has no bias."""
    channels, array = layer.channels(weight.shape), constant(layer.bias)
    if array is None:
        return np.zeros(channels, np.float32)
    return np.broadcast_to(array.astype(np.float32).reshape(-1), channels)
