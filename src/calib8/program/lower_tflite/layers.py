"""Layers with weights: CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV, FULLY_CONNECTED; and BATCH_MATMUL.

    acc[o] = Σ (x − z_x)(w[o] − z_w) + bias[o],   y = clip(double(acc · s_x·s_w[o]/s_y) + z_y)

A FULLY_CONNECTED rounds once, ties away from zero. The factor is formed in float64 from the float32 scales;
but s_x·s_w of convolutions with uint8 weights, and of BATCH_MATMUL, is a product of float32. Layers of 16-bit
activations have int8 weights and int64 biases (rounding/sixteen_by_eight.py).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from calib8.errors import NoFormError
from calib8.fixedpoint import INT32_MAX
from calib8.program.instructions import Conv, ConvTranspose, DepthwiseConv, FullyConnected, MatMul, Reshape
from calib8.program.lower_tflite.builder import Builder
from calib8.program.lower_tflite.chain import chain_from, write
from calib8.program.lower_tflite.constants import written
from calib8.program.lower_tflite.windows import activation_clamp, image_size, strides_of, window
from calib8.program.ops.weighted import largest_wide_sum
from calib8.program.program import Slot
from calib8.program.rounding.linear import layer_rescale, sums_rescale
from calib8.program.rounding.sixteen_by_eight import reduced_rescale
from calib8.program.rules import F32, I32, Codes, Rescale
from calib8.tflite.graph import Operator, Tensor

Common: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...], Codes, I32, I32, Rescale, int, int]
"""Fields of all instructions with weights."""


def conv_2d(builder: Builder, operator: Operator) -> None:
    """2-D convolution, weights OHWI; groups where the filter is less deep than the input."""
    x, y = builder.codes(operator.inputs[0]), builder.codes(operator.outputs[0])
    codes = weight_codes(builder, operator.inputs[1], 4)
    outputs, rows, columns, depth = codes.shape
    size, target = image_size(x), image_size(y)
    if x.shape[3] % depth:
        raise NoFormError(f"its filters are {depth} deep, its input {x.shape[3]}")
    place = window(operator, size, target, (rows, columns))
    common = _common(builder, operator, codes, outputs)
    builder.steps.append(Conv(*common, place.strides, place.pads, place.dilations, x.shape[3] // depth))


def depthwise_conv_2d(builder: Builder, operator: Operator) -> None:
    """One filter per output channel, weights [1, rows, columns, output channels]."""
    x, y = builder.codes(operator.inputs[0]), builder.codes(operator.outputs[0])
    codes = weight_codes(builder, operator.inputs[1], 4, channels=-1)
    first, rows, columns, outputs = codes.shape
    if first != 1:
        raise NoFormError(f"its weights have the shape {list(codes.shape)}")
    place = window(operator, image_size(x), image_size(y), (rows, columns))
    common = _common(builder, operator, np.ascontiguousarray(codes[0]), outputs)
    builder.steps.append(DepthwiseConv(*common, place.strides, place.pads, place.dilations))


def transpose_conv(builder: Builder, operator: Operator) -> None:
    """Transposed convolution, weights OHWI; its inputs are the shape of the output, weights, image and bias.

    The padding is that of a convolution from the output back to the input.
    """
    y = builder.codes(operator.outputs[0])
    codes = weight_codes(builder, operator.inputs[1], 4)
    outputs, rows, columns, _ = codes.shape
    height, width = image_size(y)
    down, across = strides_of(operator)
    back = (-(-height // down), -(-width // across))
    place = window(operator, (height, width), back, (rows, columns))
    common = _common(builder, operator, codes, outputs, data=2)
    builder.steps.append(ConvTranspose(*common, place.strides, place.pads, (1, 1), 1))


def fully_connected(builder: Builder, operator: Operator) -> None:
    """Rows of as many values as the weights [outputs, inputs] take, as they lie in memory."""
    weights_format = operator.options.get("weights_format", "DEFAULT")
    if weights_format != "DEFAULT":
        raise NoFormError(f"its weights have the format {weights_format}")
    x, y = builder.codes(operator.inputs[0]), builder.codes(operator.outputs[0])
    codes = weight_codes(builder, operator.inputs[1], 2)
    outputs, inputs = codes.shape
    count = math.prod(x.shape)
    if count % inputs:
        raise NoFormError(f"its weights take {inputs} values, its input has {count}")
    layer = FullyConnected(*_common(builder, operator, codes, outputs))
    largest = largest_wide_sum(layer, x) or 0
    if largest > INT32_MAX:
        raise NoFormError(f"its sums of 16-bit codes may reach {largest}, beyond int32")
    if x.shape[-1:] == (inputs,) and y.shape == (*x.shape[:-1], outputs):
        builder.steps.append(layer)
        return
    rows = builder.between(x, (count // inputs, inputs), "rows")
    result = builder.between(y, (count // inputs, outputs), "rows")
    builder.steps.append(Reshape(layer.name, layer.inputs, (rows,)))
    builder.steps.append(replace(layer, inputs=(rows,), outputs=(result,)))
    builder.steps.append(Reshape(layer.name, (result,), layer.outputs))


def batch_matmul(builder: Builder, operator: Operator) -> None:
    """Products of two matrices, the last two axes, one of which may be constant; ``adj_…`` exchange those."""
    if all(builder.is_constant(place) for place in operator.inputs):
        raise NoFormError("both of its inputs are constant")
    y = builder.codes(operator.outputs[0])
    for place in operator.inputs:
        written(builder, place)
    a, b = (builder.slots[builder.numbers[place]] for place in operator.inputs)
    if not a.dtype == b.dtype == y.dtype == "int8":
        raise NoFormError(f"it multiplies {a.dtype} by {b.dtype} and writes {y.dtype}")
    inputs = tuple(
        _turned(builder, operator, place) if operator.options.get(option, False) else builder.number(place)
        for place, option in zip(operator.inputs, ("adj_x", "adj_y"), strict=True)
    )
    rule = sums_rescale("tflite", a.scales * b.scales, y.scale)
    target = (builder.number(operator.outputs[0]),)
    builder.steps.append(MatMul(builder.name(operator), inputs, target, rule, -128, 127))


def _turned(builder: Builder, operator: Operator, place: int) -> int:
    """A slot with the codes of a tensor, its last two axes exchanged."""
    chain = chain_from(builder, place)
    slot = builder.slots[builder.number(place)]
    rank = len(slot.shape)
    turned = chain.transpose([*range(rank - 2), rank - 1, rank - 2])
    target = builder.between(slot, turned.shape, f"turned{len(builder.slots)}")
    write(builder, operator, builder.number(place), turned, target)
    return target


def _common(builder: Builder, operator: Operator, codes: Codes, outputs: int, data: int = 0) -> Common:
    """The fields of every layer.

    Args:
        builder: the program.
        operator: of the model; its second input holds the weights.
        codes: the weights as the instruction has them.
        outputs: output channels.
        data: place of the input that is no weight; a bias follows it or the weights.
    """
    x, y = builder.codes(operator.inputs[data]), builder.codes(operator.outputs[0])
    weight = builder.tensor(operator.inputs[1])
    if not (x.dtype == y.dtype and weight.dtype == ("int8" if x.is_wide else x.dtype)):
        raise NoFormError(f"it reads {x.dtype}, weighs with {weight.dtype} and writes {y.dtype}")
    low, high = activation_clamp(operator, y)
    dense = operator.op == "FULLY_CONNECTED"
    return (
        builder.name(operator),
        (builder.number(operator.inputs[data]),),
        (builder.number(operator.outputs[0]),),
        codes,
        weight_zero_point(weight, symmetric=weight.dtype == "int8" and not dense),
        bias(builder, operator, max(data, 1) + 1, outputs, wide=x.is_wide),
        rescale(x, weight, y.scale, fully_connected=dense),
        low,
        high,
    )


def weight_codes(builder: Builder, place: int, rank: int, channels: int = 0) -> Codes:
    """8-bit weights as the file has them; several scales belong to the axis ``channels``.

    Raises:
        NoFormError: computed weights, none of 8 bits, of another rank or with scales along another axis.
    """
    codes, tensor = builder.constant(place), builder.tensor(place)
    if codes.dtype not in (np.int8, np.uint8) or tensor.quantization is None:
        raise NoFormError(f"its weights are {tensor.dtype}")
    if codes.ndim != rank or not codes.size:
        raise NoFormError(f"its weights have the shape {list(codes.shape)}")
    several = tensor.quantization.scales.size > 1
    if several and (codes.dtype == np.uint8 or tensor.quantization.axis != channels % rank):
        raise NoFormError(f"its {codes.dtype} weights have scales along axis {tensor.quantization.axis}")
    return np.ascontiguousarray(codes)


def weight_zero_point(weight: Tensor, *, symmetric: bool) -> I32:
    """[1] or [channels].

    Raises:
        NoFormError: it is not 0, where that is required.
    """
    assert weight.quantization is not None
    zero_points = weight.quantization.zero_points.astype(np.int32)
    if not zero_points.any():
        return np.zeros(1, np.int32)
    if symmetric:
        raise NoFormError(f"its int8 weights have the zero point {zero_points[zero_points != 0][0]}, not 0")
    return zero_points


def bias(builder: Builder, operator: Operator, place: int, channels: int, *, wide: bool) -> I32:
    """int32 [channels], zeros where there is none; that beside 16-bit codes (``wide``) is int64 in the file.

    Raises:
        NoFormError: a bias that is computed, of another type or beyond int32.
    """
    if not builder.given(operator, place):
        return np.zeros(channels, np.int32)
    values = builder.constant(operator.inputs[place])
    if values.dtype != (np.int64 if wide else np.int32):
        raise NoFormError(f"its bias is {values.dtype}" + (", where 16-bit codes need int64" if wide else ""))
    largest = int(np.abs(values.astype(np.float64)).max(initial=0))
    if largest > INT32_MAX:
        raise NoFormError(f"its bias reaches {largest}, beyond int32")
    return np.ascontiguousarray(values.reshape(-1).astype(np.int32))


def rescale(x: Slot, weight: Tensor, y_scale: float, *, fully_connected: bool) -> Rescale:
    """How the sums become codes."""
    assert weight.quantization is not None
    scales: F32 = weight.quantization.scales
    x_scale = x.scale
    if x.is_wide and not fully_connected:
        return reduced_rescale(x_scale, scales, y_scale)
    if weight.dtype == "uint8" and not fully_connected:
        x_scale, scales = 1.0, np.float32(x_scale) * scales
    return layer_rescale("tflite", x_scale, scales, y_scale, fully_connected=fully_connected)
