"""Random models of one operator that joins tensors or stands at the border of the codes."""

from __future__ import annotations

import numpy as np
from single_op import Net, quantized, random_codes, random_scale, random_zero_point

from calib8.tflite.graph import Graph


def concatenation(rng: np.random.Generator, dtype: str) -> Graph:
    """uint8: every second model joins different scales; one time of four an input is constant."""
    net, rank, count = Net(), int(rng.integers(1, 5)), int(rng.integers(1, 6))
    axis = int(rng.integers(0, rank))
    shape = [int(n) for n in rng.integers(1, 9, rank)]
    kind = quantized(random_scale(rng), random_zero_point(rng, dtype))
    mixes = dtype == "uint8" and rng.random() < 0.5
    fixed = int(rng.integers(1, count)) if count > 1 and rng.random() < 0.25 else None
    inputs, total = [], 0
    for place in range(count):
        shape[axis] = int(rng.integers(1, 9))
        total += shape[axis]
        own = kind
        if mixes and rng.random() < 0.7:
            scale = float(np.float32(kind.scales[0] * np.exp(rng.uniform(-1, 1))))
            own = quantized(scale, random_zero_point(rng, dtype))
        if place == fixed:
            inputs.append(net.constant(random_codes(rng, shape, dtype), own))
        else:
            inputs.append(net.codes(shape, dtype, float(own.scales[0]), int(own.zero_points[0])))
    shape[axis] = total
    signed = axis - rank if rng.random() < 0.4 else axis
    y = net.output(shape, dtype, kind)
    return net.graph("CONCATENATION", inputs, [y], 2, axis=signed, fused_activation_function="NONE")


def quantize(rng: np.random.Generator, dtype: str) -> Graph:
    """From float32, int8 or uint8."""
    net, shape = Net(), tuple(int(n) for n in rng.integers(1, 12, int(rng.integers(1, 5))))
    source = str(rng.choice(["float32", "int8", "uint8"]))
    y_scale = random_scale(rng)
    if source == "float32":
        x = net.plain(shape, source)
    else:
        x_scale = float(np.float32(y_scale * np.exp(rng.uniform(-2, 2))))
        if rng.random() < 0.3:
            x_scale = y_scale * 2.0 ** int(rng.integers(-2, 2))
        x = net.codes(shape, source, x_scale, random_zero_point(rng, source))
    y = net.output(shape, dtype, quantized(y_scale, random_zero_point(rng, dtype)))
    return net.graph("QUANTIZE", [x], [y], 2)


def dequantize(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), tuple(int(n) for n in rng.integers(1, 12, int(rng.integers(1, 5))))
    x = net.codes(shape, dtype, random_scale(rng, 1e-6, 100.0), random_zero_point(rng, dtype))
    return net.graph("DEQUANTIZE", [x], [net.output(shape, "float32")], 2)
