"""Random models of what gives codes other places or shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from cases_functions import random_input, random_shape
from single_op import Net

from calib8.tflite.graph import Graph, Quantization


def meaning(net: Net, place: int) -> Quantization:
    """Scale and zero point of a tensor."""
    quantization = net.tensors[place].quantization
    assert quantization is not None
    return quantization


def whole(values: Sequence[int] | np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> np.ndarray:  # type: ignore[type-arg]
    """Whole numbers as operators read them."""
    return np.array(values, np.int32)


def reshape(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng)
    x = random_input(rng, net, shape, dtype)
    sizes = [math.prod(shape)]
    for _ in range(int(rng.integers(0, 4))):
        place = int(rng.integers(0, len(sizes)))
        divisors = [d for d in range(1, sizes[place] + 1) if sizes[place] % d == 0]
        first = int(rng.choice(divisors))
        sizes[place : place + 1] = [first, sizes[place] // first]
    y = net.output(sizes, dtype, meaning(net, x))
    return net.graph("RESHAPE", [x, net.constant(whole(sizes))], [y], new_shape=tuple(sizes))


def squeeze(rng: np.random.Generator, dtype: str) -> Graph:
    net = Net()
    shape = tuple(1 if rng.random() < 0.5 else size for size in random_shape(rng, 2, 5))
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    gone = [axis for axis in ones if rng.random() < 0.5] or ones
    x = random_input(rng, net, shape, dtype)
    y = net.output([size for axis, size in enumerate(shape) if axis not in gone], dtype, meaning(net, x))
    named = () if gone == ones else tuple(axis - len(shape) * int(rng.integers(0, 2)) for axis in gone)
    return net.graph("SQUEEZE", [x], [y], squeeze_dims=named)


def expand_dims(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng, 1, 4)
    axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    x = random_input(rng, net, shape, dtype)
    place = axis % (len(shape) + 1)
    y = net.output((*shape[:place], 1, *shape[place:]), dtype, meaning(net, x))
    return net.graph("EXPAND_DIMS", [x, net.constant(whole([axis]))], [y])


def transpose(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng, 1, 6, 5)
    axes = rng.permutation(len(shape))
    x = random_input(rng, net, shape, dtype)
    y = net.output([shape[axis] for axis in axes], dtype, meaning(net, x))
    return net.graph("TRANSPOSE", [x, net.constant(whole(axes))], [y], 2)


def pack(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng, 1, 4)
    count, axis = int(rng.integers(1, 5)), int(rng.integers(-len(shape) - 1, len(shape) + 1))
    first = random_input(rng, net, shape, dtype)
    scale, zero_point = meaning(net, first).scales[0], meaning(net, first).zero_points[0]
    others = [net.codes(shape, dtype, float(scale), int(zero_point)) for _ in range(count - 1)]
    place = axis % (len(shape) + 1)
    y = net.output((*shape[:place], count, *shape[place:]), dtype, meaning(net, first))
    return net.graph("PACK", [first, *others], [y], 2, values_count=count, axis=axis)


def unpack(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng, 2, 5)
    axis = int(rng.integers(-len(shape), len(shape)))
    place = axis % len(shape)
    x = random_input(rng, net, shape, dtype)
    rest = (*shape[:place], *shape[place + 1 :])
    outputs = [net.output(rest, dtype, meaning(net, x)) for _ in range(shape[place])]
    return net.graph("UNPACK", [x], outputs, 2, num=shape[place], axis=axis)


def image_move(
    rng: np.random.Generator, dtype: str, op: str, shape: tuple[int, ...], result: tuple[int, ...], size: int
) -> Graph:
    net = Net()
    x = random_input(rng, net, shape, dtype)
    y = net.output(result, dtype, meaning(net, x))
    return net.graph(op, [x], [y], 1, block_size=size)


def space_to_depth(rng: np.random.Generator, dtype: str) -> Graph:
    size = int(rng.integers(1, 4))
    batch, rows, columns, depth = (int(n) for n in rng.integers(1, 6, 4))
    image = (batch, rows * size, columns * size, depth)
    return image_move(rng, dtype, "SPACE_TO_DEPTH", image, (batch, rows, columns, depth * size * size), size)


def depth_to_space(rng: np.random.Generator, dtype: str) -> Graph:
    size = int(rng.integers(1, 4))
    batch, rows, columns, depth = (int(n) for n in rng.integers(1, 6, 4))
    image = (batch, rows * size, columns * size, depth)
    return image_move(rng, dtype, "DEPTH_TO_SPACE", (batch, rows, columns, depth * size * size), image, size)


def space_to_batch_nd(rng: np.random.Generator, dtype: str) -> Graph:
    net, axes = Net(), int(rng.integers(1, 3))
    blocks = [int(n) for n in rng.integers(1, 4, axes)]
    outer = [int(n) for n in rng.integers(1, 5, axes)]
    before = [int(rng.integers(0, min(3, b * n))) for b, n in zip(blocks, outer, strict=True)]
    after = [int(rng.integers(0, min(3, b * n - p))) for b, n, p in zip(blocks, outer, before, strict=True)]
    batch, depth = int(rng.integers(1, 4)), int(rng.integers(1, 6))
    sizes = [b * n - p - q for b, n, p, q in zip(blocks, outer, before, after, strict=True)]
    x = random_input(rng, net, (batch, *sizes, depth), dtype)
    borders = net.constant(whole(np.stack([before, after], 1)))
    y = net.output((batch * math.prod(blocks), *outer, depth), dtype, meaning(net, x))
    return net.graph("SPACE_TO_BATCH_ND", [x, net.constant(whole(blocks)), borders], [y], 2)


def batch_to_space_nd(rng: np.random.Generator, dtype: str) -> Graph:
    net, axes = Net(), int(rng.integers(1, 3))
    blocks = [int(n) for n in rng.integers(1, 4, axes)]
    outer = [int(n) for n in rng.integers(1, 5, axes)]
    before = [int(rng.integers(0, min(3, b * n))) for b, n in zip(blocks, outer, strict=True)]
    after = [int(rng.integers(0, min(3, b * n - p))) for b, n, p in zip(blocks, outer, before, strict=True)]
    batch, depth = int(rng.integers(1, 4)), int(rng.integers(1, 6))
    x = random_input(rng, net, (batch * math.prod(blocks), *outer, depth), dtype)
    crops = net.constant(whole(np.stack([before, after], 1)))
    sizes = [b * n - p - q for b, n, p, q in zip(blocks, outer, before, after, strict=True)]
    y = net.output((batch, *sizes, depth), dtype, meaning(net, x))
    return net.graph("BATCH_TO_SPACE_ND", [x, net.constant(whole(blocks)), crops], [y], 2)


def tile(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng, 1, 4, 5)
    times = [int(n) for n in rng.integers(1, 4, len(shape))]
    x = random_input(rng, net, shape, dtype)
    y = net.output([size * n for size, n in zip(shape, times, strict=True)], dtype, meaning(net, x))
    return net.graph("TILE", [x, net.constant(whole(times))], [y], 1)


def broadcast_to(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng, 1, 5, 5)
    source = tuple(1 if rng.random() < 0.5 else size for size in shape)[int(rng.integers(0, len(shape))) :]
    x = random_input(rng, net, source, dtype)
    y = net.output(shape, dtype, meaning(net, x))
    return net.graph("BROADCAST_TO", [x, net.constant(whole(shape))], [y], 3)


def borders(
    rng: np.random.Generator, net: Net, shape: Sequence[int], largest: Sequence[int]
) -> tuple[int, list[int]]:
    """A constant of borders, and the shape with them."""
    widths = np.stack([rng.integers(0, np.array(largest) + 1) for _ in range(2)], 1)
    return net.constant(whole(widths)), [int(n) for n in np.array(shape) + widths.sum(1)]


def pad(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng, 1, 5, 5)
    x = random_input(rng, net, shape, dtype)
    widths, result = borders(rng, net, shape, [3 if rng.random() < 0.6 else 0 for _ in shape])
    return net.graph("PAD", [x, widths], [net.output(result, dtype, meaning(net, x))], 2)


def padv2(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng, 1, 5, 5)
    x = random_input(rng, net, shape, dtype)
    widths, result = borders(rng, net, shape, [3 if rng.random() < 0.6 else 0 for _ in shape])
    info = np.iinfo(dtype)
    value = net.constant(rng.integers(info.min, info.max, 1, dtype, endpoint=True), meaning(net, x))
    return net.graph("PADV2", [x, widths, value], [net.output(result, dtype, meaning(net, x))], 2)


def mirror_pad(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape, mode = Net(), random_shape(rng, 1, 5, 5), str(rng.choice(["REFLECT", "SYMMETRIC"]))
    x = random_input(rng, net, shape, dtype)
    largest = [size - (mode == "REFLECT") if rng.random() < 0.6 else 0 for size in shape]
    widths, result = borders(rng, net, shape, largest)
    return net.graph("MIRROR_PAD", [x, widths], [net.output(result, dtype, meaning(net, x))], 2, mode=mode)
