"""The weighted layers of a candidate as they are coded: what their codes stand for, what room a bias has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import constant, input_at, int_attribute
from calib8.passes.fold_affine import output_channels
from calib8.qparams import FLOAT32_MAX, QParams
from calib8.quantization.qdq import codes_of, dequantizer
from calib8.quantization.quantize import QuantizedGraph
from calib8.quantization.weights import INT32_MAX, MAX_ACTIVATION_STEP, channel_axis
from calib8.repair.candidate import Candidate
from calib8.scheme import WEIGHTED_OPS, QuantScheme

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
        weight: float64, in the layer's own layout: what the codes stand for.
        bias: float32 [output channels] as the float model has it, zeros without one.
        bias_scale: float64 [output channels], input scale × weight scale; None where biases stay float.
        room: float64 [output channels]: every |bias| below it keeps the scale of its channel, and the int32
            sums in their range; None where biases stay float.
    """

    node: ir.Node
    coded: ir.Node
    weight: Doubles
    bias: Floats
    bias_scale: Doubles | None
    room: Doubles | None

    @property
    def name(self) -> str:
        """Name of the layer."""
        return self.node.name or ""

    @property
    def weight_error(self) -> Floats:
        """W_q − W in the layer's own layout, float32."""
        exact = constant(self.node.inputs[1])
        assert exact is not None
        return np.asarray(self.weight - exact.astype(np.float64), np.float32)

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
    """Every weighted layer that the int8 graph computes from codes, in graph order.

    Args:
        candidate: what was quantized.
        quantized: its int8 form.
    """
    inside = {node.name: node for node in quantized.model.graph if node.op_type in WEIGHTED_OPS}
    found = []
    for node in candidate.model.graph:
        coded = inside.get(node.name) if node.op_type in WEIGHTED_OPS else None
        codes = None if coded is None else dequantizer(coded.inputs[1])
        if coded is not None and codes is not None:
            found.append(_coded_layer(node, coded, codes, quantized.qparams, candidate.scheme))
    return tuple(found)


def _coded_layer(
    node: ir.Node, coded: ir.Node, codes: ir.Node, qparams: Mapping[str, QParams], scheme: QuantScheme
) -> CodedLayer:
    stored, scale, source = constant(codes.inputs[0]), codes_of(codes).scale, node.inputs[0]
    assert stored is not None and scale is not None and source is not None
    axis = channel_axis(node)
    groups = int_attribute(node, "group", 1) if node.op_type == "ConvTranspose" else 1
    shape = [-1 if index == axis else 1 for index in range(stored.ndim)]
    weight = stored.astype(np.float64) * scale.reshape(shape)
    if not scheme.quantize_bias:
        return CodedLayer(node, coded, weight, _own_bias(node, stored), None, None)
    input_scale = np.float32(qparams[source.name or ""].scale)
    bias_scale = np.tile(input_scale * scale.astype(np.float32), groups).astype(np.float64)
    others = tuple(index for index in range(stored.ndim) if index != axis)
    sums = np.sum(np.abs(stored.astype(np.int64)), axis=others) * MAX_ACTIVATION_STEP
    room = np.tile(np.minimum(INT32_MAX - sums, ROOM * INT32_MAX), groups) * bias_scale
    return CodedLayer(node, coded, weight, _own_bias(node, stored), bias_scale, room)


def _own_bias(node: ir.Node, weight: npt.NDArray[np.generic]) -> Floats:
    """float32 [output channels] of a layer of the float graph, zeros where it has no bias."""
    channels = output_channels(node, weight)
    array = constant(input_at(node, 2)) if node.op_type != "MatMul" else None
    if array is None:
        return np.zeros(channels, np.float32)
    return np.broadcast_to(array.astype(np.float32).reshape(-1), channels)
