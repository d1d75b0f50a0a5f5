"""Layers with weights: CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV, FULLY_CONNECTED, BATCH_MATMUL.

    multiplier · 2^(shift − 31) = s_x·s_w[o] / s_y,    so    s_w[o] = multiplier · 2^(shift − 31) · s_y / s_x

A multiplier has 31 bits and a scale 24, so the scales of the weights come out as they went in. Of layers that
read 16-bit codes it may have 22: the scales are then nearer to those of the model than LiteRT's 15 bits are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from calib8.errors import NoFormError
from calib8.exporting.tflite.builder import Builder, LayerSums, Make
from calib8.exporting.tflite.signed import signed_weight
from calib8.exporting.tflite.wide import any_wide, limited, operand
from calib8.exporting.tflite.windows import border as border_of
from calib8.exporting.tflite.windows import bordered, padding
from calib8.program.instructions import (
    Conv,
    ConvTranspose,
    DepthwiseConv,
    FullyConnected,
    IntegerGru,
    MatMul,
    Recurrent,
    TimeFilter,
    Weighted,
)
from calib8.program.program import WIDE_TYPE, Slot
from calib8.program.rules import F32, Codes, CurveRescale, FixedRescale, TwoSidedRescale
from calib8.tflite.graph import Option, Quantization

Options = dict[str, Option]
SMALLEST_FACTOR: Final = 2.0**-34
"""Stands for the factors that TFLite's encoding makes 0."""


def layer(builder: Builder, step: Weighted) -> None:
    """A layer that makes codes; one that makes sums waits for whoever reads them."""
    if step.rescale is None:
        builder.sums[step.outputs[0]] = LayerSums(step)
        return
    y = builder.slot(step.outputs[0])
    scales = weight_scales(step.rescale, builder.slot(step.inputs[0]).scale, y.scale)
    coded_layer(builder, step, builder.tensor(step.outputs[0]), y, scales, (step.low, step.high))


def coded_layer(
    builder: Builder, step: Weighted, output: int, y: Slot, scales: F32, limits: tuple[int, int]
) -> None:
    """The layer as an operator of int8, or of int16 where it reads or writes 16-bit codes.

    Args:
        builder: gets the operator.
        step: input, weight, bias and window.
        output: the tensor of its result.
        y: codes of the result.
        scales: of the weight, [1] or [output channels].
        limits: lowest and highest code.
    """
    wide = any_wide(builder.slot(step.inputs[0]), y)
    tensors = (
        operand(builder, step.inputs[0], wide),
        weight(builder, step, scales),
        bias(builder, step, scales, wide),
    )

    def finish(make: Make) -> None:
        limited(builder, output, y, limits, make, wide)

    FORMS[type(step)](builder, step, tensors, builder.tensors[output].shape, finish)


def weight_scales(rescale: object, x_scale: float, y_scale: float) -> F32:
    """The scales of the weights of a layer, float32 [1] or [channels].

    Raises:
        NoFormError: rounding of another profile.
    """
    if isinstance(rescale, TwoSidedRescale | CurveRescale):
        raise NoFormError("a function follows it without codes between them")
    if not isinstance(rescale, FixedRescale):
        raise NoFormError("its rounding is not that of the profile tflite")
    factors = np.ldexp(rescale.multiplier.astype(np.float64), rescale.shift.astype(np.int64) - 31)
    exact = np.maximum(factors, SMALLEST_FACTOR) * (y_scale / x_scale)
    return np.clip(exact, np.finfo(np.float32).tiny, np.finfo(np.float32).max).astype(np.float32)


def sums_weight_scales(sums: Slot, x_scale: float) -> F32:
    """The scales of the weights of a layer of sums: ``sums.scales = fl(s_x·s_w)``."""
    return (sums.scales.astype(np.float64) / x_scale).astype(np.float32)


CHANNEL_AXIS: Final[Mapping[type[Weighted], int]] = {
    Conv: 0,
    ConvTranspose: 0,
    FullyConnected: 0,
    DepthwiseConv: 2,
}
"""Layer → axis of its weight that the output channels run along."""


def int8_weight(builder: Builder, step: Weighted) -> Codes:
    """The weight with zero point 0, laid out as in the program.

    Raises:
        NoFormError: its zero point leaves no room for that.
    """
    signed = signed_weight(step, CHANNEL_AXIS[type(step)])
    if signed is None:
        raise NoFormError("its weights are not symmetric: less their zero point they need more than 8 bits")
    codes, lowest = signed
    if lowest:
        builder.notes.append(f"{step.name}: {lowest} weight codes of -128 became -127")
    return codes


def weight(builder: Builder, step: Weighted, scales: F32) -> int:
    """The constant, laid out and quantized along the axis that the operator wants."""
    codes, axis = int8_weight(builder, step), 0
    if isinstance(step, DepthwiseConv):
        codes, axis = codes[np.newaxis], 3
    elif isinstance(step, ConvTranspose):
        codes = _dense(codes, step)
    points = np.zeros(scales.size, np.int64)
    quantization = Quantization(scales, points, axis if scales.size > 1 else 0)
    return builder.constant(f"{step.name}/weight", codes, quantization)


def bias(builder: Builder, step: Weighted, scales: F32, wide: bool = False) -> int:
    """The constant: int32 in steps of s_x·s_w[o], int64 beside 16-bit codes."""
    steps = (np.float32(builder.slot(step.inputs[0]).scale) * scales).astype(np.float32)
    steps = np.maximum(steps, np.finfo(np.float32).tiny)
    quantization = Quantization(steps, np.zeros(steps.size, np.int64), 0)
    values = step.bias.astype(np.int64) if wide else step.bias
    return builder.constant(f"{step.name}/bias", values, quantization)


Tensors = tuple[int, int, int]
"""Input, weight and bias of an operator."""

Finish = Callable[[Make], None]
"""Calls what adds an operator, and limits its result."""


def _convolution(
    builder: Builder, step: Weighted, tensors: Tensors, out: tuple[int, ...], finish: Finish
) -> None:
    assert isinstance(step, Conv | DepthwiseConv)
    x = builder.slot(step.inputs[0])
    sizes = step.weight.shape[1:3] if isinstance(step, Conv) else step.weight.shape[:2]
    window = (x.shape[1:3], out[1:3], sizes, step.strides, step.dilations, step.pads)
    kind = padding(*window)
    image = tensors[0]
    if kind is None:
        image, kind = bordered(builder, image, border_of(*window)), "VALID"
    options: Options = {
        "padding": kind,
        "stride_h": step.strides[0],
        "stride_w": step.strides[1],
        "dilation_h_factor": step.dilations[0],
        "dilation_w_factor": step.dilations[1],
    }
    op = "CONV_2D"
    if isinstance(step, DepthwiseConv):
        op = "DEPTHWISE_CONV_2D"
        options["depth_multiplier"] = step.weight.shape[2] // x.shape[3]

    def make(target: int, activation: str) -> None:
        builder.operator(op, [image, *tensors[1:]], [target], fused_activation_function=activation, **options)

    finish(make)


def _dense(codes: Codes, step: ConvTranspose) -> Codes:
    """TRANSPOSE_CONV knows neither groups nor dilations: zeros between blocks and taps."""
    outputs, rows, columns, depth = codes.shape
    down, across = step.dilations
    wide = np.zeros(
        (outputs, (rows - 1) * down + 1, (columns - 1) * across + 1, depth * step.groups), np.int8
    )
    each = outputs // step.groups
    for group in range(step.groups):
        own = slice(group * each, (group + 1) * each)
        wide[own, ::down, ::across, group * depth : (group + 1) * depth] = codes[own]
    return wide


def _transposed(
    builder: Builder, step: Weighted, tensors: Tensors, out: tuple[int, ...], finish: Finish
) -> None:
    """Written without padding, then cut: output pixel 0 of the operator lies ``pads`` before that of ours."""
    assert isinstance(step, ConvTranspose)
    x = builder.slot(step.inputs[0])
    kernel = builder.tensors[tensors[1]].shape[1:3]
    reach = [
        (have - 1) * stride + size
        for have, stride, size in zip(x.shape[1:3], step.strides, kernel, strict=True)
    ]
    whole = [max(most, pad + size) for most, pad, size in zip(reach, step.pads[:2], out[1:3], strict=True)]
    if any(size - most >= stride for size, most, stride in zip(whole, reach, step.strides, strict=True)):
        raise NoFormError("its output padding is not less than its stride")
    shape = (out[0], *whole, out[3])
    kind, full = "VALID", shape
    if padding(out[1:3], x.shape[1:3], kernel, step.strides, (1, 1), step.pads) == "SAME":
        kind, full = "SAME", out
    sizes = builder.ints("output_shape", full)

    def make(target: int, activation: str) -> None:
        written = target if full == out else builder.like(target, "uncut", full)
        builder.operator(
            "TRANSPOSE_CONV", [sizes, tensors[1], tensors[0], tensors[2]], [written],
            3 if activation == "NONE" else 4,
            padding=kind, stride_h=step.strides[0], stride_w=step.strides[1],
            fused_activation_function=activation,
        )  # fmt: skip
        if written != target:
            begin = builder.ints("begin", (0, *step.pads[:2], 0))
            builder.operator("SLICE", [written, begin, builder.ints("size", out)], [target])

    finish(make)


def _fully_connected(
    builder: Builder, step: Weighted, tensors: Tensors, out: tuple[int, ...], finish: Finish
) -> None:
    keeps, codes = len(out) != 2, builder.tensors[tensors[1]].quantization
    per_channel = codes is not None and codes.scales.size > 1
    version: int | None = 12 if per_channel else 5 if keeps else 1 if codes is None else 4
    if version != 12 and builder.tensors[tensors[0]].dtype == WIDE_TYPE:
        version = None

    def make(target: int, activation: str) -> None:
        builder.operator(
            "FULLY_CONNECTED", tensors, [target], version,
            fused_activation_function=activation, keep_num_dims=keeps,
        )  # fmt: skip

    finish(make)


FORMS: Final[Mapping[type[Weighted], Callable[..., None]]] = {
    Conv: _convolution,
    DepthwiseConv: _convolution,
    ConvTranspose: _transposed,
    FullyConnected: _fully_connected,
}
"""Layer → what adds its operator."""


def mat_mul(builder: Builder, step: MatMul) -> None:
    """The product of two tensors of codes."""
    if step.rescale is None:
        raise NoFormError("its result has no scale: nothing quantizes it")
    inputs = [builder.tensor(number) for number in step.inputs]
    broadcast = len({builder.slot(number).shape[:-2] for number in step.inputs}) > 1

    def make(target: int, activation: str) -> None:
        builder.operator("BATCH_MATMUL", inputs, [target], 3 if broadcast else 2, adj_x=False, adj_y=False)

    y = builder.slot(step.outputs[0])
    builder.clamped(builder.tensor(step.outputs[0]), y, step.low, step.high, make, fused=False)


def recurrent(builder: Builder, step: Recurrent) -> None:
    """LSTM, GRU and RNN.

    Raises:
        NoFormError: their gates and states are float32.
    """
    raise NoFormError("its gates and states are float32")


def time_filter(builder: Builder, step: TimeFilter) -> None:
    """Filters over time.

    Raises:
        NoFormError: always: files hold the scales that its factor was made of.
    """
    raise NoFormError("its factor is no scale any more: keep the TFLite file that it was read from")


def integer_gru(builder: Builder, step: IntegerGru) -> None:
    """A GRU of integers.

    Raises:
        NoFormError: always.
    """
    raise NoFormError("TFLite has no GRU of integers")
