"""Random models of one pool or reduction."""

from __future__ import annotations

import numpy as np
from cases_layers import activation, image, out_size
from single_op import Net, quantized, random_scale, random_zero_point

from calib8.tflite.graph import Graph, Quantization


def _pool(rng: np.random.Generator, op: str, dtype: str) -> Graph:
    net, padding = Net(), str(rng.choice(["SAME", "VALID"]))
    kernel, stride = rng.integers(1, 7, 2), rng.integers(1, 5, 2)
    size = rng.integers(1, 12, 2) if padding == "SAME" else kernel + rng.integers(0, 9, 2)
    depth = int(rng.integers(1, 70))
    x = image(rng, net, size, depth, dtype)
    hw = [out_size(int(n), int(k), int(s), 1, padding) for n, k, s in zip(size, kernel, stride, strict=True)]
    y = net.output((net.tensors[x].shape[0], *hw, depth), dtype, net.tensors[x].quantization)
    return net.graph(
        op, [x], [y], 2,
        padding=padding, stride_h=int(stride[0]), stride_w=int(stride[1]),
        filter_height=int(kernel[0]), filter_width=int(kernel[1]), fused_activation_function=activation(rng),
    )  # fmt: skip


def average_pool_2d(rng: np.random.Generator, dtype: str) -> Graph:
    return _pool(rng, "AVERAGE_POOL_2D", dtype)


def max_pool_2d(rng: np.random.Generator, dtype: str) -> Graph:
    return _pool(rng, "MAX_POOL_2D", dtype)


def _reduction(rng: np.random.Generator, op: str, dtype: str) -> Graph:
    net, rank = Net(), int(rng.integers(1, 6))
    shape = tuple(int(n) for n in rng.integers(1, 10, rank))
    axes = rng.choice(rank, int(rng.integers(1, rank + 1)), replace=False)
    if rank == 4 and rng.random() < 0.5:
        axes = np.array([1, 2])
    if rng.random() < 0.1:
        axes = np.append(axes, axes[0])
    count = int(np.prod([shape[axis] for axis in set(axes.tolist())]))
    keeps = bool(rng.random() < 0.5)
    kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
    left = [size for axis, size in enumerate(shape) if axis not in axes]
    x_kind = quantized(random_scale(rng), random_zero_point(rng, dtype))
    x = net.codes(shape, dtype, float(x_kind.scales[0]), int(x_kind.zero_points[0]))
    y_kind = _result_kind(rng, op, dtype, x_kind, count)
    signed = np.where(rng.random(axes.size) < 0.3, axes - rank, axes)
    inputs = [x, net.constant(signed.astype(np.int32))]
    return net.graph(op, inputs, [net.output(kept if keeps else left, dtype, y_kind)], 2, keep_dims=keeps)


def _result_kind(
    rng: np.random.Generator, op: str, dtype: str, kind: Quantization, count: int
) -> Quantization:
    """That of the input for extremes and sometimes for means; a sum has a coarser one."""
    if op not in ("MEAN", "SUM") or rng.random() < 0.2:
        return kind
    scale = float(kind.scales[0]) * float(np.exp(rng.uniform(-1.5, 1.5)))
    scale *= float(np.sqrt(count)) if op == "SUM" else 1.0
    return quantized(float(np.float32(scale)), random_zero_point(rng, dtype))


def mean(rng: np.random.Generator, dtype: str) -> Graph:
    return _reduction(rng, "MEAN", dtype)


def sum_over(rng: np.random.Generator, dtype: str) -> Graph:
    return _reduction(rng, "SUM", dtype)


def reduce_max(rng: np.random.Generator, dtype: str) -> Graph:
    return _reduction(rng, "REDUCE_MAX", dtype)


def reduce_min(rng: np.random.Generator, dtype: str) -> Graph:
    return _reduction(rng, "REDUCE_MIN", dtype)
