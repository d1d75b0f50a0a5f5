"""Random models of functions of one tensor."""

from __future__ import annotations

import numpy as np
from single_op import Net, quantized, random_codes, random_scale, random_zero_point

from calib8.tflite.graph import Graph, Option


def random_shape(rng: np.random.Generator, low: int = 1, high: int = 5, largest: int = 7) -> tuple[int, ...]:
    """A shape of ``low`` to ``high`` axes."""
    return tuple(int(size) for size in rng.integers(1, largest + 1, int(rng.integers(low, high + 1))))


def random_input(rng: np.random.Generator, net: Net, shape: tuple[int, ...], dtype: str) -> int:
    """An input of codes of any scale and zero point."""
    return net.codes(shape, dtype, random_scale(rng), random_zero_point(rng, dtype))


def softmax(rng: np.random.Generator, dtype: str) -> Graph:
    net = Net()
    shape = (*random_shape(rng, 0, 3), int(rng.choice([1, 2, 5, 10, 100, 1001])))
    beta = float(np.float32(rng.choice([1.0, 1.0, 0.1, 0.5, 2.0, 10.0])))
    least = 0.02 / beta if shape[-1] > 500 else 1e-4  # LiteRT ends the process where Σe reaches 512
    x = net.codes(shape, dtype, random_scale(rng, least, 2.0), random_zero_point(rng, dtype))
    y = net.output(shape, dtype, quantized(1 / 256, int(np.iinfo(dtype).min)))
    return net.graph("SOFTMAX", [x], [y], 2, beta=beta)


def logistic(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), (2, 256)
    x = random_input(rng, net, shape, dtype)
    y = net.output(shape, dtype, quantized(1 / 256, int(np.iinfo(dtype).min)))
    return net.graph("LOGISTIC", [x], [y], 2)


def tanh(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), (256, 2)
    x = random_input(rng, net, shape, dtype)
    y = net.output(shape, dtype, quantized(1 / 128, int(np.iinfo(dtype).min) + 128))
    return net.graph("TANH", [x], [y], 2)


def unary(rng: np.random.Generator, dtype: str, op: str, version: int = 2, **options: Option) -> Graph:
    """A function between tensors of independent scales."""
    net = Net()
    shape = (*random_shape(rng, 0, 3, 3), 64)
    x = random_input(rng, net, shape, dtype)
    y = net.output(shape, dtype, quantized(random_scale(rng, 5e-3), random_zero_point(rng, dtype)))
    return net.graph(op, [x], [y], version, **options)


def relu(rng: np.random.Generator, dtype: str) -> Graph:
    return unary(rng, dtype, "RELU")


def relu6(rng: np.random.Generator, dtype: str) -> Graph:
    return unary(rng, dtype, "RELU6")


def relu_n1_to_1(rng: np.random.Generator, dtype: str) -> Graph:
    return unary(rng, dtype, "RELU_N1_TO_1", 1)


def relu_0_to_1(rng: np.random.Generator, dtype: str) -> Graph:
    return unary(rng, dtype, "RELU_0_TO_1", 1)


def leaky_relu(rng: np.random.Generator, dtype: str) -> Graph:
    alpha = float(np.float32(rng.choice([0.0, 0.01, 0.1, 0.2, 1.0, 1.7, -0.3, rng.uniform(-1, 2)])))
    return unary(rng, dtype, "LEAKY_RELU", 2, alpha=alpha)


def prelu(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng, 1, 4, 9)
    slopes = tuple(1 if rng.random() < 0.4 else size for size in shape)
    slopes = slopes[int(rng.integers(0, len(shape))) :]
    x = random_input(rng, net, shape, dtype)
    alpha = net.constant(
        random_codes(rng, slopes, dtype), quantized(random_scale(rng), random_zero_point(rng, dtype))
    )
    y = net.output(shape, dtype, quantized(random_scale(rng, 5e-3), random_zero_point(rng, dtype)))
    return net.graph("PRELU", [x, alpha], [y])


def hard_swish(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), (2, 256)
    x_scale = random_scale(rng)
    x = net.codes(shape, dtype, x_scale, random_zero_point(rng, dtype))
    y_scale = random_scale(rng, max(1e-3, x_scale / 100), 0.5)
    y = net.output(shape, dtype, quantized(y_scale, random_zero_point(rng, dtype)))
    return net.graph("HARD_SWISH", [x], [y])


def gelu(rng: np.random.Generator, dtype: str) -> Graph:
    return unary(rng, dtype, "GELU", 1, approximate=bool(rng.integers(2)))


def exp(rng: np.random.Generator, dtype: str) -> Graph:
    return unary(rng, dtype, "EXP", 1)


def log(rng: np.random.Generator, dtype: str) -> Graph:
    """No numbers below 0."""
    net, shape = Net(), (2, 256)
    x = net.codes(shape, dtype, random_scale(rng), int(np.iinfo(dtype).min))
    y = net.output(shape, dtype, quantized(random_scale(rng, 5e-3), random_zero_point(rng, dtype)))
    return net.graph("LOG", [x], [y])


def rsqrt(rng: np.random.Generator, dtype: str) -> Graph:
    """Of int8 only; no code stands for a number below 0."""
    net, shape = Net(), (2, 256)
    scale = random_scale(rng, 1e-6, 2.0)
    x = net.codes(shape, dtype, scale, int(np.iinfo(dtype).min))
    largest = 1.0 / np.sqrt(scale * float(np.exp(rng.uniform(0.0, 4.0))))
    y = net.output(shape, dtype, quantized(float(np.float32(largest / 255)), random_zero_point(rng, dtype)))
    return net.graph("RSQRT", [x], [y], 2)
