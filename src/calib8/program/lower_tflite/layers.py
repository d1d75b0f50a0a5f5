"""Layers with weights: CONV_2D.

    acc[o] = Σ (x − z_x)(w[o] − z_w) + bias[o],   y = clip(double(acc · s_x·s_w[o]/s_y) + z_y)

The factor of int8 layers is formed in float64 from the float32 scales; uint8 layers multiply the first two in
float32.
"""

from __future__ import annotations

import numpy as np

from calib8.program.instructions import Conv
from calib8.program.lower_tflite.builder import Builder, NoFormError
from calib8.program.lower_tflite.windows import activation_clamp, window
from calib8.program.rounding.linear import layer_rescale
from calib8.program.rules import F32, I32, Codes, Rescale
from calib8.tflite.graph import Operator, Tensor


def conv_2d(builder: Builder, operator: Operator) -> None:
    """2-D convolution, weights OHWI; groups where the filter is less deep than the input."""
    x, y = builder.codes(operator.inputs[0]), builder.codes(operator.outputs[0])
    weight = builder.tensor(operator.inputs[1])
    codes = weight_codes(builder, operator.inputs[1])
    outputs, rows, columns, depth = codes.shape
    place = window(operator, x.shape[1:3], y.shape[1:3], (rows, columns))  # type: ignore[arg-type]
    low, high = activation_clamp(operator, y)
    builder.steps.append(
        Conv(
            builder.name(operator),
            (builder.number(operator.inputs[0]),),
            (builder.number(operator.outputs[0]),),
            codes,
            weight_zero_point(weight),
            bias(builder, operator, outputs),
            rescale(x.scale, weight, y.scale),
            low,
            high,
            place.strides,
            place.pads,
            place.dilations,
            x.shape[3] // depth,
        )
    )


def weight_codes(builder: Builder, place: int) -> Codes:
    """8-bit weights as the file has them.

    Raises:
        NoFormError: computed weights, or none of 8 bits.
    """
    codes = builder.constant(place)
    if codes.dtype not in (np.int8, np.uint8) or builder.tensor(place).quantization is None:
        raise NoFormError(f"its weights are {builder.tensor(place).dtype}")
    return np.ascontiguousarray(codes)


def weight_zero_point(weight: Tensor) -> I32:
    """[1] or [channels]."""
    assert weight.quantization is not None
    zero_points = weight.quantization.zero_points.astype(np.int32)
    return zero_points if zero_points.any() else np.zeros(1, np.int32)


def bias(builder: Builder, operator: Operator, channels: int) -> I32:
    """int32 [channels], zeros where there is none.

    Raises:
        NoFormError: a bias that is computed or of another type.
    """
    if not builder.given(operator, 2):
        return np.zeros(channels, np.int32)
    values = builder.constant(operator.inputs[2])
    if values.dtype != np.int32:
        raise NoFormError(f"its bias is {values.dtype}")
    return np.ascontiguousarray(values.reshape(-1))


def rescale(x_scale: float, weight: Tensor, y_scale: float) -> Rescale:
    """How the sums become codes."""
    assert weight.quantization is not None
    scales: F32 = weight.quantization.scales
    if weight.dtype == "uint8":
        product = np.float32(x_scale) * scales
        return layer_rescale("tflite", 1.0, product, y_scale)
    return layer_rescale("tflite", x_scale, scales, y_scale)
