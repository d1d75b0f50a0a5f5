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

from calib8.model.graph import constant, input_at
from calib8.passes.fold_affine import output_channels
from calib8.qparams import FLOAT32_MAX, QParams
from calib8.quantization.qdq import codes_of, dequantizer
from calib8.quantization.quantize import QuantizedGraph
from calib8.quantization.weights import INT32_MAX, MAX_ACTIVATION_STEP, channel_axis, scales_for_bias
from calib8.repair.candidate import Candidate
from calib8.scheme import WEIGHTED_OPS

ROOM: Final = 0.499
"""Share of int32 that a bias may take: just below the half that enlarges the scale of its channel."""

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CodedLayer:
    """A quantized Conv, ConvTranspose, Gemm or MatMul.

    Attributes:
        node: the layer in the prepared float graph.
        coded: the same layer in the int8 graph.
        codes: int8, in the layer's own layout.
        scale: float32, one per entry of the output-channel axis, equal where the target takes one for all.
        least: float32, the same shape or [1]: smaller scales have no room for the bias.
        bias: float32 [output channels] as the float model has it, zeros without one.
        bias_scale: float64 [output channels], input scale × weight scale; None where biases stay float.
        room: float64 [output channels]: every |bias| below it keeps the scale of its channel, and the int32
            sums in their range; None where biases stay float.
    """

    node: ir.Node
    coded: ir.Node
    codes: npt.NDArray[np.int8]
    scale: Floats
    least: Floats
    bias: Floats
    bias_scale: Doubles | None
    room: Doubles | None

    @property
    def name(self) -> str:
        """Name of the layer."""
        return self.node.name or ""

    @property
    def exact(self) -> Floats:
        """W, float32 in the layer's own layout."""
        weight = constant(self.node.inputs[1])
        assert weight is not None
        return weight.astype(np.float32)

    @property
    def weight(self) -> Doubles:
        """W_q, what the codes stand for: float64 in the layer's own layout."""
        axis = channel_axis(self.node)
        shape = [-1 if index == axis else 1 for index in range(self.codes.ndim)]
        return np.asarray(self.codes * self.scale.astype(np.float64).reshape(shape))

    @property
    def weight_error(self) -> Floats:
        """W_q − W in the layer's own layout, float32."""
        return np.asarray(self.weight - self.exact.astype(np.float64), np.float32)

    @property
    def takes_bias(self) -> bool:
        """MatMul has no place for one."""
        return self.node.op_type != "MatMul"

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
    inside = {node.name: node for node in quantized.model.graph if node.op_type in WEIGHTED_OPS}
    return tuple(
        _coded_layer(node, inside[node.name], candidate, quantized.qparams)
        for node in candidate.model.graph
        if node.op_type in WEIGHTED_OPS and node.name in chosen
    )


def _coded_layer(
    node: ir.Node, coded: ir.Node, candidate: Candidate, qparams: Mapping[str, QParams]
) -> CodedLayer:
    source, stored = node.inputs[0], dequantizer(coded.inputs[1])
    assert source is not None and stored is not None
    codes, found = constant(stored.inputs[0]), codes_of(stored).scale
    assert codes is not None and found is not None
    integers, own = np.asarray(codes, np.int8), _own_bias(node, codes)
    entries = integers.shape[channel_axis(node)]
    scale = np.ascontiguousarray(np.broadcast_to(found.astype(np.float32).reshape(-1), entries))
    if not candidate.scheme.quantize_bias:
        least = scales_for_bias(node, None, 1.0)
        return CodedLayer(node, coded, integers, scale, least, own, None, None)
    input_scale = np.float32(qparams[source.name or ""].scale)
    corrected = candidate.correction(node.name or "").bias
    has_bias = corrected is not None or (node.op_type != "MatMul" and input_at(node, 2) is not None)
    bias = own if corrected is None else corrected
    least = scales_for_bias(node, bias if has_bias else None, float(input_scale))
    groups = own.size // entries
    bias_scale = np.tile(input_scale * scale, groups).astype(np.float64)
    room = np.tile(_room(node, integers), groups) * bias_scale
    return CodedLayer(node, coded, integers, scale, least, own, bias_scale, room)


def _room(node: ir.Node, codes: npt.NDArray[np.int8]) -> Doubles:
    """What is left of int32 for a bias in every entry of the channel axis, float64."""
    others = tuple(index for index in range(codes.ndim) if index != channel_axis(node))
    sums = np.sum(np.abs(codes.astype(np.int64)), axis=others) * MAX_ACTIVATION_STEP
    return np.asarray(np.minimum(INT32_MAX - sums, ROOM * INT32_MAX))


def _own_bias(node: ir.Node, weight: npt.NDArray[np.generic]) -> Floats:
    """float32 [output channels] of a layer of the float graph, zeros where it has no bias."""
    channels = output_channels(node, weight)
    array = constant(input_at(node, 2)) if node.op_type != "MatMul" else None
    if array is None:
        return np.zeros(channels, np.float32)
    return np.broadcast_to(array.astype(np.float32).reshape(-1), channels)
