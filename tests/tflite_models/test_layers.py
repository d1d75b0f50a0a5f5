"""Layers with weights, bit for bit as LiteRT's reference kernels have them."""

from __future__ import annotations

import numpy as np
import pytest
from single_op import (
    CASES,
    Net,
    assert_same_bits,
    quantized,
    random_codes,
    random_scale,
    random_zero_point,
)

from calib8.tflite.graph import Graph, Quantization

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def out_size(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    if padding == "SAME":
        return -(-size // stride)
    return (size - (kernel - 1) * dilation - 1) // stride + 1


def conv_2d(rng: np.random.Generator, dtype: str) -> Graph:
    net, padding = Net(), str(rng.choice(["SAME", "VALID"]))
    kernel, stride, dilation = rng.integers(1, 5, 2), rng.integers(1, 4, 2), rng.integers(1, 3, 2)
    size = (kernel - 1) * dilation + 1 + rng.integers(0, 9, 2)
    depth, outputs = int(rng.integers(1, 20)), int(rng.integers(1, 20))
    groups = 1
    if dtype == "int8" and rng.random() < 0.3:
        groups = int(rng.integers(1, 4))
        depth, outputs = depth * groups, outputs * groups
    x_scale, y_scale = random_scale(rng), random_scale(rng, 0.01, 1.0)
    x = net.codes(
        (int(rng.integers(1, 3)), *size.tolist(), depth), dtype, x_scale, random_zero_point(rng, dtype)
    )
    shape = (outputs, *kernel.tolist(), depth // groups)
    if dtype == "int8":
        scales = np.array([random_scale(rng, 1e-3, 0.05) for _ in range(outputs)], np.float32)
        weights = np.maximum(random_codes(rng, shape, "int8"), -127)
        w = net.constant(weights, Quantization(scales, np.zeros(outputs, np.int64), 0))
    else:
        scales = np.array([random_scale(rng, 1e-3, 0.05)], np.float32)
        w = net.constant(
            random_codes(rng, shape, dtype), quantized(float(scales[0]), random_zero_point(rng, dtype))
        )
    bias_scales = (np.float32(x_scale) * scales).astype(np.float32)
    values = rng.integers(-5000, 5000, outputs, dtype=np.int32)
    b = net.constant(values, Quantization(bias_scales, np.zeros(scales.size, np.int64), 0))
    hw = [
        out_size(int(n), int(k), int(s), int(d), padding)
        for n, k, s, d in zip(size, kernel, stride, dilation, strict=True)
    ]
    y = net.output(
        (net.tensors[x].shape[0], *hw, outputs), dtype, quantized(y_scale, random_zero_point(rng, dtype))
    )
    return net.graph(
        "CONV_2D", [x, w, b], [y], 3,
        padding=padding, stride_h=int(stride[0]), stride_w=int(stride[1]),
        dilation_h_factor=int(dilation[0]), dilation_w_factor=int(dilation[1]),
        fused_activation_function=str(rng.choice(ACTIVATIONS)),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_conv_2d(dtype: str) -> None:
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        assert_same_bits(rng, conv_2d(rng, dtype))
