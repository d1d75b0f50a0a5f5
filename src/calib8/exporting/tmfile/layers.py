"""Layers with weights and normalizations, from ONNX to Tengine.

ONNX                                  file
Conv, and the Relu behind it          Convolution     [cout, cin / g, kh, kw]
ConvTranspose                         Deconvolution   [cin, cout / g, kh, kw]
Gemm, MatMul with constant weights    FullyConnected  [out, in]
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.exporting.tmfile.net import MOST_AXES, Net
from calib8.model.graph import float_attribute, input_at, int_attribute, ints_attribute, sole_consumer
from calib8.model.padding import auto_pad, conv_pads, stated_pads
from calib8.ops.questions import clips, rectifies
from calib8.passes.functions import clip_limits
from calib8.tmfile.graph import Option

NO_ACTIVATION, RELU, RELU6 = -1, 0, 6

LIMITS: Final = (0.0, 6.0)
"""Of the Clip that is computed together with a Convolution."""

ONE: Final = (1, 1)

Single = npt.NDArray[np.float32]


def convolution(net: Net, node: ir.Node) -> None:
    """Conv, and the activation behind it as the converter fuses it."""
    x, weight = node.inputs[0], net.floats(node.inputs[1])
    if weight.ndim != MOST_AXES:
        raise NoFormError(f"it moves along {weight.ndim - 2} axes; Tengine's moves along 2")
    _, channels, *sizes = net.image(x)
    kernel = weight.shape[2:]
    strides, dilations = ints_attribute(node, "strides", ONE), ints_attribute(node, "dilations", ONE)
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    top, left = conv_pads(node, sizes, strides, reach)
    activation, result = _activation(net, node)
    options: dict[str, Option] = {
        "kernel_h": kernel[0], "kernel_w": kernel[1], "stride_h": strides[0], "stride_w": strides[1],
        "dilation_h": dilations[0], "dilation_w": dilations[1], "input_channel": channels,
        "output_channel": weight.shape[0], "group": int_attribute(node, "group", 1),
        "activation": activation, "pad_h0": top[0], "pad_w0": left[0], "pad_h1": top[1], "pad_w1": left[1],
    }  # fmt: skip
    net.write_as(node, "Convolution", _inputs(net, node), result, options)


def _activation(net: Net, node: ir.Node) -> tuple[int, ir.Value | None]:
    """Which function behind a Conv is computed together with it, and what that gives."""
    value = node.outputs[0]
    behind = sole_consumer(value)
    if behind is None or value.name in net.coded or not (rectifies(behind) or clips(behind)):
        return NO_ACTIVATION, None
    if clips(behind) and clip_limits(behind) != LIMITS:
        return NO_ACTIVATION, None
    net.done.add(behind)
    return RELU if rectifies(behind) else RELU6, behind.outputs[0]


def _inputs(net: Net, node: ir.Node) -> list[str]:
    """Input, weights and, where there is one, bias."""
    bias = input_at(node, 2)
    return [net.read(value) for value in (*node.inputs[:2], *(() if bias is None else (bias,)))]


def deconvolution(net: Net, node: ir.Node) -> None:
    """ConvTranspose."""
    weight = net.floats(node.inputs[1])
    net.image(node.inputs[0])
    if auto_pad(node).startswith("SAME") or "output_shape" in node.attributes:
        raise NoFormError("its padding follows from the size of its output")
    kernel, group = weight.shape[2:], int_attribute(node, "group", 1)
    strides, dilations = ints_attribute(node, "strides", ONE), ints_attribute(node, "dilations", ONE)
    top, left = stated_pads(node, 2)
    more = ints_attribute(node, "output_padding", (0, 0))
    options: dict[str, Option] = {
        "num_output": weight.shape[1] * group, "kernel_h": kernel[0], "kernel_w": kernel[1],
        "stride_h": strides[0], "stride_w": strides[1],
        "pad_w0": left[0], "pad_h0": top[0], "pad_w1": left[1], "pad_h1": top[1],
        "dilation_h": dilations[0], "dilation_w": dilations[1], "group": group,
        "activation": NO_ACTIVATION, "output_pad_h0": more[0], "output_pad_w0": more[1],
    }  # fmt: skip
    net.write(node, "Deconvolution", _inputs(net, node), **options)


def gemm(net: Net, node: ir.Node) -> None:
    """α x W + β b, the factors taken into the constants."""
    weight, bias = node.inputs[1], input_at(node, 2)
    if int_attribute(node, "transA", 0):
        raise NoFormError("it turns its input")
    alpha, beta = float_attribute(node, "alpha", 1.0), float_attribute(node, "beta", 1.0)
    matrix = net.floats(weight)
    matrix = matrix if int_attribute(node, "transB", 0) else matrix.T
    terms = None if bias is None else (bias, np.float32(beta) * net.floats(bias))
    _fully_connected(net, node, np.float32(alpha) * matrix, terms)


def mat_mul(net: Net, node: ir.Node) -> None:
    """A product with constant weights, or of two tensors."""
    shapes = [net.shape(value) for value in node.inputs]
    if (
        node.inputs[1] is not None
        and node.inputs[1].const_value is not None
        and list(map(len, shapes)) == [2, 2]
    ):
        _fully_connected(net, node, net.floats(node.inputs[1]).T, None)
        return
    if len({len(shape) for shape in shapes}) != 1 or not 2 <= len(shapes[0]) <= MOST_AXES:
        raise NoFormError(f"it multiplies {list(shapes[0])} with {list(shapes[1])}")
    net.write(node, "MatMul", [net.read(value) for value in node.inputs])


def _fully_connected(net: Net, node: ir.Node, matrix: Single, bias: tuple[ir.Value, Single] | None) -> None:
    value = node.inputs[1]
    assert value is not None
    inputs = [net.read(node.inputs[0]), net.const(value, matrix)]
    if bias is not None:
        name, terms = bias
        if terms.size not in (1, len(matrix)):
            raise NoFormError(f"its bias has the shape {list(terms.shape)}")
        inputs.append(net.const(name, np.broadcast_to(terms.reshape(-1), (len(matrix),))))
    net.write(node, "FullyConnected", inputs, num_output=len(matrix))


def batch_normalization(net: Net, node: ir.Node) -> None:
    """γ (x − μ) / √(σ² + ε) + β."""
    eps = float_attribute(node, "epsilon", 1e-5)
    inputs = [net.read(value) for value in node.inputs[:5]]
    net.write(node, "BatchNormalization", inputs, rescale_factor=1.0, eps=eps, caffe_flavor=0)


def instance_norm(net: Net, node: ir.Node) -> None:
    """Each channel of each image by itself."""
    net.image(node.inputs[0])
    inputs = [net.read(value) for value in node.inputs[:3]]
    net.write(node, "InstanceNorm", inputs, eps=float_attribute(node, "epsilon", 1e-5))


def prelu(net: Net, node: ir.Node) -> None:
    """A slope per channel below 0."""
    shape, slopes = net.shape(node.inputs[0]), net.floats(node.inputs[1])
    lengths = (1,) * (len(shape) - slopes.ndim) + slopes.shape
    if slopes.size != 1 and (len(shape) < 2 or lengths[1] != slopes.size):
        raise NoFormError(f"its slopes have the shape {list(slopes.shape)}; Tengine has one per channel")
    value = node.inputs[1]
    assert value is not None
    each = np.broadcast_to(slopes.reshape(-1), (shape[1],))
    net.write(node, "PReLU", [net.read(node.inputs[0]), net.const(value, each)])


def lrn(net: Net, node: ir.Node) -> None:
    """Divided by the squares of neighbouring channels."""
    net.image(node.inputs[0])
    net.write(
        node, "LRN", [net.read(node.inputs[0])], local_size=int_attribute(node, "size", 1),
        alpha=float_attribute(node, "alpha", 1e-4), beta=float_attribute(node, "beta", 0.75), region=0,
        k=float_attribute(node, "bias", 1.0), bias=0.0, is_onnx=True,
    )  # fmt: skip
