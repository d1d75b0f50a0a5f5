"""Rules of the targets that know no zero point: TensorRT, ncnn, Tengine (``real = scale · code``)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from calib8.analysis.rules import Finding
from calib8.analysis.rules.codes import quantizers
from calib8.model.graph import constant
from calib8.ops.questions import quantizes
from calib8.quantization.qdq import Codes, dequantizer, label, weighted_layers


def zero_point_is_zero(model: ir.Model) -> Iterator[Finding]:
    """Every zero point is 0 (TensorRT: explicit quantization is symmetric; ncnn and Tengine int8 alike)."""
    for codes in _stored_or_quantized(model):
        if codes.zero_point is not None and np.any(codes.zero_point):
            point = codes.zero_point.reshape(-1)[np.argmax(codes.zero_point.reshape(-1) != 0)]
            yield label(codes.node), f"its zero point is {point}", "Quantize symmetrically (int8-symmetric)"


def codes_are_int8(model: ir.Model) -> Iterator[Finding]:
    """Activations, weights and constants are int8; biases are judged by their own rule.

    TensorRT's Q/DQ take no uint8; ncnn and Tengine neither.
    """
    for codes in codes_of_no_bias(model):
        if codes.dtype not in (None, ir.DataType.INT8):
            yield label(codes.node), f"its codes are {codes.dtype}", "Use int8 codes"


def activations_are_per_tensor(model: ir.Model) -> Iterator[Finding]:
    """An activation has one scale: with one per input channel a sum over channels has no common factor."""
    for codes in quantizers(model):
        if quantizes(codes.node) and not codes.per_tensor and constant(codes.node.inputs[0]) is None:
            yield label(codes.node), f"has {codes} for an activation", "Use one scale per tensor"


def codes_of_no_bias(model: ir.Model) -> Iterator[Codes]:
    """Each set of codes of activations, weights and constants once."""
    biases = {dequantizer(layer.bias) for layer in weighted_layers(model)}
    return (codes for codes in _stored_or_quantized(model) if codes.node not in biases)


def _stored_or_quantized(model: ir.Model) -> Iterator[Codes]:
    """Each set of codes once: QuantizeLinear nodes, and DequantizeLinear nodes of constants."""
    for codes in quantizers(model):
        if quantizes(codes.node) or constant(codes.node.inputs[0]) is not None:
            yield codes
