"""The small float networks that every quantizer is given; batch normalizations are left unfolded."""

from __future__ import annotations

import numpy as np
import onnx
from graph import CLASSES, SIZE, Graph


def resnet() -> onnx.ModelProto:
    """Residual blocks, a strided shortcut, MaxPool, GlobalAveragePool, Gemm; batch axis of any size."""
    g = Graph(seed=1)
    x = g.input("image", ["batch", 3, SIZE, SIZE])
    x = g.node("Relu", g.batch_norm(g.conv(x, (3, 8)), 8))
    x = g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    y = g.node("Relu", g.batch_norm(g.conv(x, (8, 8)), 8))
    x = g.node("Relu", g.node("Add", g.batch_norm(g.conv(y, (8, 8)), 8), x))
    y = g.node("Relu", g.batch_norm(g.conv(x, (8, 16), stride=2), 16))
    shortcut = g.conv(x, (8, 16), kernel=1, stride=2)
    x = g.node("Relu", g.node("Add", g.batch_norm(g.conv(y, (16, 16)), 16), shortcut))
    x = g.node("Flatten", g.node("GlobalAveragePool", x))
    g.output(g.gemm(x, 16, CLASSES), "logits")
    return g.model("resnet")


def _inverted_residual(g: Graph, source: str, channels: int, outputs: int, stride: int) -> str:
    x = g.batch_norm(g.conv(source, (channels, 2 * channels), kernel=1), 2 * channels)
    x = g.node("Clip", x, g.constant(np.float32(0)), g.constant(np.float32(6)))
    x = g.batch_norm(g.conv(x, (2 * channels,) * 2, stride=stride, groups=2 * channels), 2 * channels)
    x = g.node("HardSwish", x)
    x = g.batch_norm(g.conv(x, (2 * channels, outputs), kernel=1), outputs)
    return g.node("Add", x, source) if stride == 1 and channels == outputs else x


def _squeeze_and_excite(g: Graph, source: str, channels: int) -> str:
    x = g.node("GlobalAveragePool", source)
    x = g.node("Relu", g.conv(x, (channels, 4), kernel=1))
    x = g.node("HardSigmoid", g.conv(x, (4, channels), kernel=1), alpha=1 / 6, beta=0.5)
    return g.node("Mul", source, x)


def mobilenet() -> onnx.ModelProto:
    """Depthwise convolutions, ReLU6, HardSwish, squeeze and excitation, ReduceMean, Softmax."""
    g = Graph(seed=2)
    x = g.input("image", [1, 3, SIZE, SIZE])
    x = g.node("HardSwish", g.batch_norm(g.conv(x, (3, 8), stride=2), 8))
    x = _inverted_residual(g, x, 8, 8, stride=1)
    x = _squeeze_and_excite(g, x, 8)
    x = _inverted_residual(g, x, 8, 16, stride=2)
    x = g.node("HardSwish", g.conv(x, (16, 24), kernel=1))
    x = g.gemm(g.node("ReduceMean", x, axes=[2, 3], keepdims=0), 24, CLASSES, gain=6)
    g.output(g.node("Softmax", x, axis=-1), "shares")
    return g.model("mobilenet")


def _silu(g: Graph, source: str) -> str:
    return g.node("Mul", source, g.node("Sigmoid", source))


def detector() -> onnx.ModelProto:
    """SiLU, LeakyRelu, pyramid of MaxPools, Resize ×2 and Concat, two heads joined as [1, boxes, 6]."""
    g = Graph(seed=3)
    x = g.input("image", [1, 3, SIZE, SIZE])
    fine = _silu(g, g.conv(x, (3, 8), stride=2))
    coarse = g.node("LeakyRelu", g.conv(fine, (8, 12), stride=2), alpha=0.1)
    pools = [coarse]
    for _ in range(2):
        pools.append(g.node("MaxPool", pools[-1], kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4))
    coarse = _silu(g, g.conv(g.node("Concat", *pools, axis=1), (36, 12), kernel=1))
    scales = g.constant(np.float32([1, 1, 2, 2]))
    x = g.node("Resize", coarse, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric",
               nearest_mode="floor")  # fmt: skip
    fine = _silu(g, g.conv(g.node("Concat", x, fine, axis=1), (20, 12)))
    heads = []
    for features in (fine, coarse):
        head = g.node("Sigmoid", g.conv(features, (12, 6), kernel=1))
        flat = g.node("Reshape", head, g.constant(np.int64([1, 6, -1])))
        heads.append(g.node("Transpose", flat, perm=[0, 2, 1]))
    g.output(g.node("Concat", *heads, axis=1), "boxes")
    return g.model("detector")


def pools_and_products() -> onnx.ModelProto:
    """AveragePool of both kinds, PRelu, ConvTranspose, Tanh, linear Resize, Pad, Slice, Sub, MatMul + Add."""
    g = Graph(seed=4)
    image = g.input("image", [1, 3, SIZE, SIZE])
    x = g.node("PRelu", g.conv(image, (3, 8)), g.constant(g.uniform(0.05, 0.4, 8, 1, 1)))
    a = g.node("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=1)
    b = g.node("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = g.node("Tanh", g.node("Sub", g.conv(a, (8, 8), kernel=1), b))
    weight, bias = g.constant(g.weights(8, 8, 2, 2)), g.constant(g.uniform(-0.2, 0.2, 8))
    x = g.node("ConvTranspose", x, weight, bias, kernel_shape=[2, 2], strides=[2, 2])
    x = g.node("Pad", g.node("Relu", x), g.constant(np.int64([0, 0, 1, 1, 0, 0, 1, 1])))
    x = g.conv(x, (8, 8), stride=2, padded=False)
    x = g.node("Resize", x, "", g.constant(np.float32([1, 1, 2, 2])), mode="linear")
    x = g.node("Slice", x, *(g.constant(np.int64(v)) for v in ([0, 0], [8, 8], [2, 3], [1, 1])))
    x = g.node("Mul", x, g.constant(np.float32(0.5)))
    x = g.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g.node("Reshape", x, g.constant(np.int64([1, -1])))
    x = g.node("MatMul", x, g.constant(g.weights(128, CLASSES) * np.float32(0.2)))
    g.output(g.node("Add", x, g.constant(g.uniform(-0.3, 0.3, CLASSES))), "logits")
    return g.model("pools_and_products")
