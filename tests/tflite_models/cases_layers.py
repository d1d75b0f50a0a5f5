"""Random models of one layer: int8 weights with a scale per channel or one, legacy uint8, or none at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from single_op import Net, quantized, random_codes, random_zero_point

from calib8.tflite.graph import Graph, Quantization

ACTIVATIONS: Final = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def any_net(rng: np.random.Generator) -> Net:
    return Net(powers=bool(rng.random() < 0.2))


def activation(rng: np.random.Generator) -> str:
    return str(rng.choice(ACTIVATIONS))


def out_size(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    if padding == "SAME":
        return -(-size // stride)
    return (size - (kernel - 1) * dilation - 1) // stride + 1


def image(rng: np.random.Generator, net: Net, size: Sequence[int], depth: int, dtype: str) -> int:
    shape = (int(rng.integers(1, 3)), *(int(n) for n in size), depth)
    return net.codes(shape, dtype, net.scale(rng), random_zero_point(rng, dtype))


def weights(rng: np.random.Generator, net: Net, shape: Sequence[int], axis: int, dtype: str) -> int:
    """Symmetric int8, three times of four with a scale per channel; uint8 with a zero point."""
    if dtype == "uint8":
        return net.constant(random_codes(rng, shape, dtype), _any_kind(rng, net, dtype))
    count = shape[axis] if rng.random() < 0.75 else 1
    scales = np.array([net.scale(rng, 1e-3, 0.05) for _ in range(count)], np.float32)
    codes = np.maximum(random_codes(rng, shape, "int8"), -127)
    return net.constant(codes, Quantization(scales, np.zeros(count, np.int64), axis if count > 1 else 0))


def _any_kind(rng: np.random.Generator, net: Net, dtype: str) -> Quantization:
    return quantized(net.scale(rng, 1e-3, 0.05), random_zero_point(rng, dtype))


def bias(rng: np.random.Generator, net: Net, x: int, w: int, channels: int) -> int:
    x_kind, w_kind = net.tensors[x].quantization, net.tensors[w].quantization
    assert x_kind is not None and w_kind is not None
    scales = (x_kind.scales * w_kind.scales).astype(np.float32)
    values = rng.integers(-5000, 5000, channels, dtype=np.int32)
    return net.constant(values, Quantization(scales, np.zeros(scales.size, np.int64), 0))


def perhaps_bias(rng: np.random.Generator, net: Net, x: int, w: int, channels: int) -> list[int]:
    """None one time of four."""
    return [] if rng.random() < 0.25 else [bias(rng, net, x, w, channels)]


def result(rng: np.random.Generator, net: Net, shape: Sequence[int], dtype: str) -> int:
    kind = quantized(net.scale(rng, 0.01, 1.0), random_zero_point(rng, dtype))
    return net.output(shape, dtype, kind)


def windowed(rng: np.random.Generator) -> tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Padding, window, strides, dilations and a size of the image that the window fits in."""
    kernel, stride, dilation = rng.integers(1, 5, 2), rng.integers(1, 4, 2), rng.integers(1, 3, 2)
    size = (kernel - 1) * dilation + 1 + rng.integers(0, 9, 2)
    return str(rng.choice(["SAME", "VALID"])), kernel, stride, dilation, size


def _sizes(*axes: np.ndarray, padding: str) -> list[int]:
    return [out_size(*(int(n) for n in numbers), padding) for numbers in zip(*axes, strict=True)]


def conv_2d(rng: np.random.Generator, dtype: str) -> Graph:
    net, (padding, kernel, stride, dilation, size) = any_net(rng), windowed(rng)
    depth, outputs = (int(n) for n in rng.integers(1, 20, 2))
    groups = int(rng.integers(2, 4)) if dtype == "int8" and rng.random() < 0.3 else 1
    x = image(rng, net, size, depth * groups, dtype)
    w = weights(rng, net, (outputs * groups, *kernel.tolist(), depth), 0, dtype)
    b = bias(rng, net, x, w, outputs * groups)
    hw = _sizes(size, kernel, stride, dilation, padding=padding)
    y = result(rng, net, (net.tensors[x].shape[0], *hw, outputs * groups), dtype)
    return net.graph(
        "CONV_2D", [x, w, b], [y], 3,
        padding=padding, stride_h=int(stride[0]), stride_w=int(stride[1]),
        dilation_h_factor=int(dilation[0]), dilation_w_factor=int(dilation[1]),
        fused_activation_function=activation(rng),
    )  # fmt: skip


def depthwise_conv_2d(rng: np.random.Generator, dtype: str) -> Graph:
    net, (padding, kernel, stride, dilation, size) = any_net(rng), windowed(rng)
    depth = int(rng.integers(1, 40))
    multiplier = int(rng.integers(2, 5)) if rng.random() < 0.4 else 1
    x = image(rng, net, size, depth, dtype)
    w = weights(rng, net, (1, *kernel.tolist(), depth * multiplier), 3, dtype)
    b = perhaps_bias(rng, net, x, w, depth * multiplier)
    hw = _sizes(size, kernel, stride, dilation, padding=padding)
    y = result(rng, net, (net.tensors[x].shape[0], *hw, depth * multiplier), dtype)
    return net.graph(
        "DEPTHWISE_CONV_2D", [x, w, *b], [y], 3,
        padding=padding, stride_h=int(stride[0]), stride_w=int(stride[1]), depth_multiplier=multiplier,
        dilation_h_factor=int(dilation[0]), dilation_w_factor=int(dilation[1]),
        fused_activation_function=activation(rng),
    )  # fmt: skip


def transpose_conv(rng: np.random.Generator, dtype: str) -> Graph:
    net, padding = any_net(rng), str(rng.choice(["SAME", "VALID"]))
    kernel, stride, size = rng.integers(1, 6, 2), rng.integers(1, 4, 2), rng.integers(1, 7, 2)
    depth, outputs = (int(n) for n in rng.integers(1, 20, 2))
    extra = rng.integers(0, stride)
    full = size * stride - extra if padding == "SAME" else (size - 1) * stride + kernel + extra
    x = image(rng, net, size, depth, dtype)
    shape = (net.tensors[x].shape[0], *full.tolist(), outputs)
    w = weights(rng, net, (outputs, *kernel.tolist(), depth), 0, dtype)
    b = perhaps_bias(rng, net, x, w, outputs)
    inputs = [net.constant(np.array(shape, np.int32)), w, x, *b]
    fused = activation(rng) if b else "NONE"
    version = 1 if not b else 3 if fused == "NONE" else 4
    return net.graph(
        "TRANSPOSE_CONV", inputs, [result(rng, net, shape, dtype)], version,
        padding=padding, stride_h=int(stride[0]), stride_w=int(stride[1]), fused_activation_function=fused,
    )  # fmt: skip


def fully_connected(rng: np.random.Generator, dtype: str) -> Graph:
    net, outputs = any_net(rng), int(rng.integers(1, 40))
    shape = tuple(int(n) for n in rng.integers(1, 8, int(rng.integers(1, 5))))
    keeps = len(shape) > 1 and rng.random() < 0.4
    joined = 1 if keeps else int(rng.integers(1, len(shape) + 1))
    inputs = int(np.prod(shape[-joined:]))
    x = net.codes(shape, dtype, net.scale(rng), random_zero_point(rng, dtype))
    w = weights(rng, net, (outputs, inputs), 0, dtype)
    if rng.random() < 0.15:
        w = net.constant(random_codes(rng, (outputs, inputs), dtype), _any_kind(rng, net, dtype))
    b = perhaps_bias(rng, net, x, w, outputs)
    rows = shape[:-1] if keeps else (int(np.prod(shape)) // inputs,)
    y = result(rng, net, (*rows, outputs), dtype)
    return net.graph(
        "FULLY_CONNECTED", [x, w, *(b or [-1])], [y], 5,
        keep_num_dims=keeps, fused_activation_function=activation(rng),
    )  # fmt: skip


def batch_matmul(rng: np.random.Generator, dtype: str) -> Graph:
    """Either side may be transposed, constant, or have fewer or shorter batch axes."""
    net, rank = any_net(rng), int(rng.integers(2, 5))
    rows, joined, columns = (int(n) for n in rng.integers(1, 12, 3))
    batch = tuple(int(n) for n in rng.integers(1, 4, rank - 2))
    adj_x, adj_y = (bool(rng.random() < 0.4) for _ in range(2))
    few = tuple(1 if rng.random() < 0.3 else n for n in batch)
    sides = [batch, few] if rng.random() < 0.5 else [few, batch]
    shapes = [
        (*sides[0], *((joined, rows) if adj_x else (rows, joined))),
        (*sides[1], *((columns, joined) if adj_y else (joined, columns))),
    ]
    fixed = int(rng.integers(0, 2)) if rng.random() < 0.25 else None
    x = [
        net.constant(random_codes(rng, shape, dtype), _any_kind(rng, net, dtype))
        if place == fixed
        else net.codes(shape, dtype, net.scale(rng), random_zero_point(rng, dtype))
        for place, shape in enumerate(shapes)
    ]
    y = result(rng, net, (*batch, rows, columns), dtype)
    return net.graph("BATCH_MATMUL", x, [y], 3, adj_x=adj_x, adj_y=adj_y)
