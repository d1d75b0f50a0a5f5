"""Layers with weights and normalizations.

file                                                  ONNX
Convolution     [cout, cin / g, kh, kw]               Conv, the same; a fused activation behind it
Deconvolution   [cin, cout / g, kh, kw]               ConvTranspose, the same
FullyConnected  [out, in]                             Gemm with transB
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.from_tmfile.builder import Attribute, Builder
from calib8.model.from_tmfile.elementwise import number, whole
from calib8.tmfile.graph import Node, sums_of

NO_ACTIVATION = -1

SAME_LOWER = -2
"""Padding by which the larger half comes first; −1 puts it last."""


def convolution(builder: Builder, node: Node) -> None:
    """Convolution, with the activation that the converter fused into it."""
    x, weight = node.inputs[:2]
    _, channels, rows, columns = builder.image(x)
    kernel = whole(node, "kernel_h", "kernel_w")
    strides, dilations = whole(node, "stride_h", "stride_w"), whole(node, "dilation_h", "dilation_w")
    _refuse_below_one(node)
    if list(builder.tensor(weight).shape[2:]) != kernel:
        raise NoFormError(f"its weights have the shape {list(builder.tensor(weight).shape)}")
    pads = [
        _pads(size, length, stride, dilation, *whole(node, f"pad_{axis}0", f"pad_{axis}1"))
        for size, length, stride, dilation, axis in zip(
            (rows, columns), kernel, strides, dilations, "hw", strict=True
        )
    ]
    (group,) = whole(node, "group")
    outputs, depth = builder.tensor(weight).shape[:2]
    if channels != depth * group or outputs % group or [outputs] != whole(node, "output_channel"):
        told = list(builder.tensor(weight).shape)
        raise NoFormError(f"weights {told} in {group} groups do not fit {channels} channels of input")
    attributes: dict[str, Attribute] = {
        "kernel_shape": kernel, "strides": strides, "dilations": dilations, "group": group,
        "pads": [before for before, _ in pads] + [after for _, after in pads],
    }  # fmt: skip
    _activated(builder, node, "Conv", attributes)


def _refuse_below_one(node: Node) -> None:
    """Steps, distances and groups are 1 or more."""
    for option in ("stride_h", "stride_w", "dilation_h", "dilation_w", "group"):
        (value,) = whole(node, option)
        if value < 1:
            raise NoFormError(f"its option {option} is {value}")


def _pads(size: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> tuple[int, int]:
    """Padding of an axis; numbers below 0 ask for as much as keeps size / stride."""
    if before >= 0:
        return before, after
    if dilation != 1:
        raise NoFormError("it pads a dilated window by itself")
    total = max(((size - 1) // stride) * stride + kernel - size, 0)
    half = total // 2
    return (total - half, half) if before == SAME_LOWER else (half, total - half)


def deconvolution(builder: Builder, node: Node) -> None:
    """Transposed convolution."""
    _refuse_below_one(node)
    attributes: dict[str, Attribute] = {
        "kernel_shape": whole(node, "kernel_h", "kernel_w"),
        "strides": whole(node, "stride_h", "stride_w"),
        "dilations": whole(node, "dilation_h", "dilation_w"),
        "group": whole(node, "group")[0],
        "pads": whole(node, "pad_h0", "pad_w0", "pad_h1", "pad_w1"),
        "output_padding": whole(node, "output_pad_h0", "output_pad_w0"),
    }
    _activated(builder, node, "ConvTranspose", attributes)


def _activated(builder: Builder, node: Node, op: str, attributes: dict[str, Attribute]) -> None:
    """A layer, and behind it what its option ``activation`` says."""
    values = [builder.read(place) for place in node.inputs[:3]]
    (activation,) = whole(node, "activation")
    if activation == NO_ACTIVATION:
        builder.write(node, op, values, **attributes)
        return
    title = builder.name(node.outputs[0])
    sums = builder.emit(sums_of(title), op, values, **attributes)
    if activation == 0:
        builder.write(node, "Relu", [sums])
        return
    if activation != 6:
        raise NoFormError(f"the activation {activation} is fused into it")
    limits = [builder.numbers(f"{title}/limit", limit, "float32") for limit in (0.0, 6.0)]
    builder.write(node, "Clip", [sums, *limits])


def fully_connected(builder: Builder, node: Node) -> None:
    """Every axis of the input but the first one joined, times [out, in]."""
    x, weight = node.inputs[:2]
    shape, sizes = builder.shape(x), builder.tensor(weight).shape
    (outputs,) = whole(node, "num_output")
    depth = math.prod(shape[1:])
    if math.prod(sizes) != outputs * depth or not sizes or sizes[0] != outputs:
        raise NoFormError(f"its weights have the shape {list(sizes)}, its input {list(shape)}")
    title = builder.name(node.outputs[0])
    value = builder.read(x)
    if len(shape) != 2:
        rows = builder.numbers(f"{title}/rows/shape", [shape[0], depth])
        value = builder.emit(f"{title}/rows", "Reshape", [value, rows])
    matrix = builder.read(weight)
    if len(sizes) != 2:
        matrix = builder.fixed(weight, builder.constant(weight).reshape(outputs, depth))
    values = [value, matrix, *_bias(builder, node, outputs)]
    if builder.shape(node.outputs[0]) == (shape[0], outputs):
        builder.write(node, "Gemm", values, transB=1)
    else:
        builder.reshaped(node, builder.emit(f"{title}/product", "Gemm", values, transB=1))


def _bias(builder: Builder, node: Node, size: int) -> list[ir.Value]:
    if len(node.inputs) < 3:
        return []
    place = node.inputs[2]
    if builder.tensor(place).shape == (size,):
        return [builder.read(place)]
    return [builder.fixed(place, builder.constant(place).reshape(size))]


def batch_normalization(builder: Builder, node: Node) -> None:
    """γ (x − f μ) / √(f σ² + ε) + β, f the reciprocal of the option; of Caffe without γ and β."""
    x, gamma, beta, mean, variance = node.inputs[:5]
    channels = builder.shape(x)[1]
    factor = number(node, "rescale_factor")
    factor = 1.0 / factor if factor else 0.0
    moments = [
        builder.fixed(place, (builder.constant(place) * np.float32(factor)).reshape(channels))
        for place in (mean, variance)
    ]
    title = builder.name(node.outputs[0])
    if whole(node, "caffe_flavor")[0]:
        sides = [
            builder.numbers(f"{title}/{name}", np.full(channels, fill), "float32")
            for name, fill in (("gamma", 1.0), ("beta", 0.0))
        ]
    else:
        sides = [builder.read(gamma), builder.read(beta)]
    builder.write(
        node, "BatchNormalization", [builder.read(x), *sides, *moments], epsilon=number(node, "eps")
    )


def instance_norm(builder: Builder, node: Node) -> None:
    """Each channel of each image by itself."""
    values = [builder.read(place) for place in node.inputs[:3]]
    builder.write(node, "InstanceNormalization", values, epsilon=number(node, "eps"))


def scale(builder: Builder, node: Node) -> None:
    """A factor, and perhaps a term, per channel."""
    shape = builder.shape(node.inputs[0])
    if whole(node, "axis")[0] != 1:
        raise NoFormError(f"its factors lie along axis {node.options['axis']}")
    sizes = [1, shape[1], *[1] * (len(shape) - 2)]
    factors = builder.fixed(node.inputs[1], builder.constant(node.inputs[1]).reshape(sizes))
    if len(node.inputs) < 3:
        builder.write(node, "Mul", [builder.read(node.inputs[0]), factors])
        return
    title = builder.name(node.outputs[0])
    product = builder.emit(f"{title}/product", "Mul", [builder.read(node.inputs[0]), factors])
    terms = builder.fixed(node.inputs[2], builder.constant(node.inputs[2]).reshape(sizes))
    builder.write(node, "Add", [product, terms])


def bias(builder: Builder, node: Node) -> None:
    """A term per channel."""
    shape = builder.shape(node.inputs[0])
    sizes = [1, shape[1], *[1] * (len(shape) - 2)]
    terms = builder.fixed(node.inputs[1], builder.constant(node.inputs[1]).reshape(sizes))
    builder.write(node, "Add", [builder.read(node.inputs[0]), terms])


def prelu(builder: Builder, node: Node) -> None:
    """A slope per channel below 0."""
    shape = builder.shape(node.inputs[0])
    slopes = builder.constant(node.inputs[1])
    sizes = [slopes.size, *[1] * (len(shape) - 2)]
    value = builder.fixed(node.inputs[1], slopes.reshape(sizes))
    builder.write(node, "PRelu", [builder.read(node.inputs[0]), value])


def lrn(builder: Builder, node: Node) -> None:
    """Divided by the squares of neighbouring channels."""
    size, region = whole(node, "local_size", "region")
    if region:
        raise NoFormError("it sums over neighbouring pixels")
    builder.write(
        node, "LRN", [builder.read(node.inputs[0])],
        size=size, alpha=number(node, "alpha"), beta=number(node, "beta"), bias=number(node, "k"),
    )  # fmt: skip
