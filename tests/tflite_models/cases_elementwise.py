"""Random models of one operator on two tensors: broadcast, or with a constant on either side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from cases_layers import activation
from single_op import Net, quantized, random_codes, random_scale, random_zero_point

from calib8.tflite.graph import Graph, Option, Quantization


def _shapes(rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Two shapes that broadcast; one time of three they are equal."""
    full = tuple(int(n) for n in rng.integers(1, 12, int(rng.integers(1, 5))))
    if rng.random() < 1 / 3:
        return [full, full]
    shapes = []
    for _ in range(2):
        thin = tuple(1 if rng.random() < 0.35 else size for size in full)
        shapes.append(thin[int(rng.integers(0, len(full))) :] if rng.random() < 0.3 else thin)
    return shapes


def _binary(
    rng: np.random.Generator,
    op: str,
    dtype: str,
    kinds: Sequence[Quantization],
    y_kind: Quantization,
    **options: Option,
) -> Graph:
    """One of the operands is constant one time of three."""
    net, shapes = Net(), _shapes(rng)
    fixed = int(rng.integers(0, 2)) if rng.random() < 1 / 3 else None
    if fixed is not None and rng.random() < 0.2:
        shapes[fixed] = ()
    inputs = []
    for place, (shape, kind) in enumerate(zip(shapes, kinds, strict=True)):
        if place == fixed:
            inputs.append(net.constant(random_codes(rng, shape, dtype), kind))
        else:
            inputs.append(net.codes(shape, dtype, float(kind.scales[0]), int(kind.zero_points[0])))
    y = net.output(np.broadcast_shapes(*shapes), dtype, y_kind)
    return net.graph(op, inputs, [y], 2, **options)


def _kind(rng: np.random.Generator, dtype: str, scale: float) -> Quantization:
    return quantized(float(np.float32(scale)), random_zero_point(rng, dtype))


def _sum(rng: np.random.Generator, op: str, dtype: str) -> Graph:
    scales = [random_scale(rng), random_scale(rng)]
    if rng.random() < 0.2:
        scales[1] = scales[0]
    y_scale = max(scales) * float(np.exp(rng.uniform(-1.5, 1.5)))
    if rng.random() < 0.2:
        y_scale = scales[0] * 2.0 ** int(rng.integers(-1, 3))  # many ties
    kinds = [_kind(rng, dtype, scale) for scale in scales]
    fused = activation(rng)
    return _binary(rng, op, dtype, kinds, _kind(rng, dtype, y_scale), fused_activation_function=fused)


def add(rng: np.random.Generator, dtype: str) -> Graph:
    return _sum(rng, "ADD", dtype)


def sub(rng: np.random.Generator, dtype: str) -> Graph:
    return _sum(rng, "SUB", dtype)


def mul(rng: np.random.Generator, dtype: str) -> Graph:
    scales = [random_scale(rng), random_scale(rng)]
    y_scale = scales[0] * scales[1] * float(np.exp(rng.uniform(0.0, 6.0)))
    if rng.random() < 0.2:
        scales, y_scale = [0.25, 0.5], 2.0 ** int(rng.integers(-3, 4))  # many ties
    kinds = [_kind(rng, dtype, scale) for scale in scales]
    fused = activation(rng)
    return _binary(rng, "MUL", dtype, kinds, _kind(rng, dtype, y_scale), fused_activation_function=fused)


def maximum(rng: np.random.Generator, dtype: str) -> Graph:
    kind = _kind(rng, dtype, random_scale(rng))
    return _binary(rng, "MAXIMUM", dtype, [kind, kind], kind)


def minimum(rng: np.random.Generator, dtype: str) -> Graph:
    kind = _kind(rng, dtype, random_scale(rng))
    return _binary(rng, "MINIMUM", dtype, [kind, kind], kind)


def absolute(rng: np.random.Generator, dtype: str) -> Graph:
    """Of int8 only: LiteRT has no other."""
    net, shape = Net(), tuple(int(n) for n in rng.integers(1, 12, int(rng.integers(1, 5))))
    kind = _kind(rng, dtype, random_scale(rng))
    x = net.codes(shape, dtype, float(kind.scales[0]), int(kind.zero_points[0]))
    y_scale = float(kind.scales[0]) * float(np.exp(rng.uniform(-1.5, 1.5)))
    y_kind = kind if rng.random() < 0.2 else _kind(rng, dtype, y_scale)
    return net.graph("ABS", [x], [net.output(shape, dtype, y_kind)], 2)


def squared_difference(rng: np.random.Generator, dtype: str) -> Graph:
    """Of int8 only; the output's scale is at least so large that LiteRT takes it."""
    scales = [random_scale(rng), random_scale(rng)]
    if rng.random() < 0.3:
        scales[1] = scales[0]
    y_scale = max(scales) ** 2 * float(np.exp(rng.uniform(-4.0, 9.0)))
    kinds = [_kind(rng, dtype, scale) for scale in scales]
    return _binary(rng, "SQUARED_DIFFERENCE", dtype, kinds, _kind(rng, dtype, y_scale))
