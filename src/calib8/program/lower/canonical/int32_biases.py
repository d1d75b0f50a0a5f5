"""Biases of layers that work on codes become int32 codes in steps of the layer's sums.

Conv(DQ(x, s_x), DQ(W, s_w), b) → Conv(DQ(x, s_x), DQ(W, s_w), DQ(b_q, s_x·s_w))
b_q = rint(b / (s_x·s_w))
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.coded_array import CodedArray, channel_blocks
from calib8.fixedpoint import INT32_MAX
from calib8.model.graph import Names, input_at, int_attribute
from calib8.ops.questions import is_transposed_convolution, takes_bias
from calib8.passes.fold_affine import output_channels
from calib8.program.lower.canonical.codings import (
    BYTE_TYPES,
    constant_codes,
    real_constant,
    source_coding,
)
from calib8.program.lower.canonical.edits import dequantized_constant
from calib8.quantization.qdq import output_axis
from calib8.quantization.weights import room_for_bias

SAME_STEPS: Final = 2.0**-21
"""Relative difference up to which a scale is s_x·s_w: what a few float32 roundings make."""


def rewrite(model: ir.Model) -> int:
    """Every constant bias gets the scale ``fl(s_x·s_w[c])``, [] or [C], and one int32 code per channel.

    Codes whose scale differs by float32 rounding only keep their numbers; others, and floats, are rounded
    to the nearest step, ties to even. A channel whose weights are all zero gets a larger scale if its bias
    needs it. A bias that needs more than int32 stays as it is: its layer has no integer form.

    Returns:
        Biases that changed.
    """
    names = Names(model.graph)
    return sum(
        _code_bias(names, node)
        for node in list(model.graph)
        if takes_bias(node) and input_at(node, 2) is not None
    )


def _code_bias(names: Names, layer: ir.Node) -> bool:
    coding, weight = source_coding(layer.inputs[0]), constant_codes(layer.inputs[1])
    real = real_constant(input_at(layer, 2))
    if coding is None or weight is None or real is None or not is_plain(layer, weight):
        return False
    channels = output_channels(layer, weight.values)
    if real.size not in (1, channels) or (real.size > 1 and real.shape[-1] != channels):
        return False
    weight = _with_room(names, layer, weight, np.broadcast_to(real.reshape(-1), channels), coding.scale)
    steps = bias_steps(layer, weight, coding.scale)
    codes = _codes(input_at(layer, 2), real, steps, channels)
    if codes is None or _is_done(input_at(layer, 2), codes, steps):
        return False
    axis = 0 if steps.ndim else None
    coded = CodedArray(codes, steps, np.zeros(steps.shape, np.int32), axis)
    node = dequantized_constant(names, coded, f"{layer.name}/bias")
    names.graph.insert_before(layer, node)
    layer.replace_input_with(2, node.outputs[0])
    return True


def is_plain(layer: ir.Node, weight: CodedArray) -> bool:
    """8-bit codes with scales along the output channels, and no factors."""
    if any(name in layer.attributes for name in ("alpha", "beta")) and not _factors_are_one(layer):
        return False
    eight_bits = ir.DataType.from_numpy(weight.values.dtype) in BYTE_TYPES
    return eight_bits and weight.axis in (None, output_axis(layer, weight.values.ndim))


def _factors_are_one(layer: ir.Node) -> bool:
    return all(layer.attributes[n].as_float() == 1.0 for n in ("alpha", "beta") if n in layer.attributes)


def bias_steps(layer: ir.Node, weight: CodedArray, input_scale: float) -> npt.NDArray[np.float32]:
    """``fl(s_x·s_w)``, [] or [output channels]; groups of a ConvTranspose share weight scales."""
    groups = int_attribute(layer, "group", 1) if is_transposed_convolution(layer) else 1
    with np.errstate(over="ignore", under="ignore"):
        scale = np.asarray(np.float32(input_scale) * weight.scale, np.float32)
    return np.tile(scale, groups) if scale.ndim else scale


def _codes(
    bias: ir.Value | None, real: npt.NDArray[np.float32], steps: npt.NDArray[np.float32], channels: int
) -> npt.NDArray[np.int32] | None:
    """int32 [channels]; None where they do not fit."""
    stored = constant_codes(bias)
    if stored is not None and _has_steps(stored, steps):
        return np.broadcast_to(stored.values.reshape(-1), channels)
    with np.errstate(all="ignore"):
        codes = np.rint(real.reshape(-1).astype(np.float64) / steps.astype(np.float64))
    if not np.all(np.abs(codes) <= INT32_MAX):
        return None
    return np.broadcast_to(codes.astype(np.int32), channels)


def _has_steps(bias: CodedArray, steps: npt.NDArray[np.float32]) -> bool:
    """The codes are steps of the sums already."""
    if bias.values.dtype != np.int32 or np.any(bias.zero_point):
        return False
    return np.allclose(bias.scale, steps, rtol=SAME_STEPS, atol=0.0)


def _is_done(bias: ir.Value | None, codes: npt.NDArray[np.int32], steps: npt.NDArray[np.float32]) -> bool:
    stored = constant_codes(bias)
    return (
        stored is not None
        and stored.values.dtype == np.int32
        and np.array_equal(stored.values, codes)
        and stored.scale.shape == steps.shape
        and np.array_equal(stored.scale, steps)
    )


def _channels_of_zeros(weight: CodedArray, axis: int) -> npt.NDArray[np.bool_]:
    """bool [channels]: all codes of a channel are its zero point."""
    count = weight.values.shape[axis]
    points = np.broadcast_to(weight.zero_point, count)
    found = np.empty(count, np.bool_)
    for part, block in channel_blocks(weight.values, axis):
        rows = np.moveaxis(block, axis, 0).reshape(block.shape[axis], -1)
        found[part] = np.all(rows == points[part, None], axis=1)
    return found


def _with_room(
    names: Names, layer: ir.Node, weight: CodedArray, bias: npt.NDArray[Any], input_scale: float
) -> CodedArray:
    """Scales of channels of zeros grow as their bias needs; any scale is right for them."""
    axis = output_axis(layer, weight.values.ndim)
    if weight.axis is None:
        return weight
    dead = _channels_of_zeros(weight, axis)
    groups = int_attribute(layer, "group", 1) if is_transposed_convolution(layer) else 1
    try:
        needed = room_for_bias(weight.scale, bias.reshape(groups, -1), input_scale)
    except OverflowError:
        return weight
    if not np.any(dead & (needed > weight.scale)):
        return weight
    scale = np.where(dead, needed, weight.scale)
    node = dequantized_constant(names, replace(weight, scale=scale), f"{layer.name}/weight")
    names.graph.insert_before(layer, node)
    layer.replace_input_with(1, node.outputs[0])
    return constant_codes(node.outputs[0]) or weight
