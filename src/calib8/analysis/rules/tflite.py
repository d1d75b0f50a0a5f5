"""What TensorFlow Lite's int8 kernels demand of scales; Tengine's fixed softmax scale beside it.

    same scale in and out    AveragePool, Concat, MaxPool, Pad, Reshape, Resize, Slice, Transpose, …
    fixed output             Softmax, Sigmoid: 1/256, −128      Tanh: 1/128, 0

Source: TensorFlow Lite "8-bit quantization specification" and the converter's operator property table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.analysis.rules import Finding
from calib8.analysis.rules.symmetric import codes_of_no_bias
from calib8.ops.groups import JOINING, MOVES
from calib8.ops.questions import quantizes
from calib8.passes.resolve_ranges import overshoots
from calib8.quantization.qdq import (
    activation_values,
    codes_behind,
    codes_of,
    float_inputs,
    label,
    nodes,
    result_quantizers,
    weight_is_coded,
    weighted_layers,
)

UNNAMED: Final = frozenset({"Expand", "GatherElements", "GatherND"})
"""Moves that the specification does not list."""

SAME_SCALE_OPS: Final = (MOVES - UNNAMED) | {"AveragePool"}

TFLITE_FIXED: Final = {"Softmax": (1 / 256, -128), "Sigmoid": (1 / 256, -128), "Tanh": (1 / 128, 0)}
TENGINE_FIXED: Final = {"Softmax": (1 / 127, 0)}
FIXED_TOLERANCE: Final = 1e-6
"""Relative; 1/127 as float32 is off by less than 6e-8."""


def codes_are_int8_or_int16(model: ir.Model) -> Iterator[Finding]:
    """Weights and constants are int8; activations are int8, or int16 with zero point 0 (16x8 kernels)."""
    for codes in codes_of_no_bias(model):
        wide = quantizes(codes.node) and codes.dtype == ir.DataType.INT16
        if wide and codes.zero_point is not None and np.any(codes.zero_point):
            problem = f"its zero point is {codes.zero_point.reshape(-1)[0]}"
            yield label(codes.node), problem, "Give int16 codes the zero point 0"
        elif not wide and codes.dtype not in (None, ir.DataType.INT8):
            cure = "Use int8 codes, or for activations int16"
            yield label(codes.node), f"its codes are {codes.dtype}", cure


def scale_stays_the_same(model: ir.Model) -> Iterator[Finding]:
    """Inputs and output of the ops that copy or compare codes have one scale and zero point."""
    for node in nodes(model):
        if node.op_type not in SAME_SCALE_OPS or overshoots(node):
            continue
        values = float_inputs(node) if node.op_type in JOINING else activation_values(node)[:2]
        found = [codes_behind(value) for value in values]
        sides = [codes for codes in found if codes is not None]
        if not sides or len(sides) < len(found):
            continue
        sides += [codes_of(quantizer) for quantizer in result_quantizers(node)[0]]
        other = next((codes for codes in sides if not codes.same_parameters(sides[0])), None)
        if other is not None:
            yield (
                label(node),
                f"has {sides[0]} on one side and {other} on another",
                "Give all sides one scale",
            )


def fixed_outputs(model: ir.Model) -> Iterator[Finding]:
    """Softmax and Sigmoid give codes of scale 1/256 and zero point −128, Tanh of 1/128 and 0.

    16-bit codes come from tables, which serve any scale.
    """
    yield from _fixed(model, TFLITE_FIXED)


def softmax_scale_is_fixed(model: ir.Model) -> Iterator[Finding]:
    """Tengine's int8 softmax gives codes of scale 1/127."""
    yield from _fixed(model, TENGINE_FIXED)


def _fixed(model: ir.Model, wanted: Mapping[str, tuple[float, int]]) -> Iterator[Finding]:
    for node in nodes(model):
        if node.op_type not in wanted:
            continue
        scale, point = wanted[node.op_type]
        for quantizer in result_quantizers(node)[0]:
            codes = codes_of(quantizer)
            wide = codes.dtype == ir.DataType.INT16
            if wide or codes.scale is None or codes.zero_point is None or not codes.per_tensor:
                continue
            if abs(codes.scale.item() / scale - 1) > FIXED_TOLERANCE or codes.zero_point.item() != point:
                cure = f"Give its output scale 1/{round(1 / scale)} and zero point {point}"
                yield label(node), f"its output has {codes}", cure


def layer_results_are_coded(model: ir.Model) -> Iterator[Finding]:
    """The result of an integer layer is quantized again: there is no kernel from int8 to float."""
    for layer in (found.node for found in weighted_layers(model)):
        if not weight_is_coded(layer) or codes_behind(layer.inputs[0]) is None:
            continue
        if not result_quantizers(layer)[0]:
            yield label(layer), f"its result '{layer.outputs[0].name}' stays float", "Quantize its result"
