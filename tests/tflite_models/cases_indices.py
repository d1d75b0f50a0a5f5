"""Random models of what picks elements, of ARG_MAX, ARG_MIN and CAST."""

from __future__ import annotations

import numpy as np
from cases_functions import random_input, random_shape
from cases_places import meaning, whole
from single_op import Net

from calib8.tflite.graph import Graph


def take_slice(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng)
    begins = [int(rng.integers(0, size)) for size in shape]
    sizes = [int(rng.integers(1, size - begin + 1)) for size, begin in zip(shape, begins, strict=True)]
    x = random_input(rng, net, shape, dtype)
    y = net.output(sizes, dtype, meaning(net, x))
    given = [
        -1 if begin + size == all_ and rng.random() < 0.5 else size
        for begin, size, all_ in zip(begins, sizes, shape, strict=True)
    ]
    return net.graph("SLICE", [x, net.constant(whole(begins)), net.constant(whole(given))], [y], 2)


def strided_slice(rng: np.random.Generator, dtype: str) -> Graph:
    """All masks; begins and ends inside the axis, beyond it and counted from its end."""
    net, shape = Net(), random_shape(rng, 1, 4)
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    entries: list[tuple[int, int, int]] = []
    result: list[int] = []
    named = int(rng.integers(1, len(shape) + 1))
    free = len(shape) - named  # axes that an ellipsis stands for, or that follow
    ellipsis = int(rng.integers(0, named)) if free and rng.random() < 0.5 else None
    axis, new_axes = 0, 0
    for place in range(named):
        if place == ellipsis:
            masks["ellipsis_mask"] |= 1 << len(entries)
            entries.append((0, 0, 1))
            result += shape[axis : axis + free]
            axis += free
        if rng.random() < 0.15 and new_axes + len(shape) < 5:
            masks["new_axis_mask"] |= 1 << len(entries)
            entries.append((0, 1, 1))
            result.append(1)
            new_axes += 1
        entries.append(_entry(rng, shape[axis], masks, len(entries), result))
        axis += 1
    result += shape[axis:]
    x = random_input(rng, net, shape, dtype)
    begins, ends, strides = (net.constant(whole(column)) for column in zip(*entries, strict=True))
    y = net.output(result, dtype, meaning(net, x))
    return net.graph("STRIDED_SLICE", [x, begins, ends, strides], [y], 2, **masks)


def _entry(
    rng: np.random.Generator, size: int, masks: dict[str, int], bit: int, result: list[int]
) -> tuple[int, int, int]:
    """Begin, end and stride for an axis, with at least one element."""
    if rng.random() < 0.2:
        masks["shrink_axis_mask"] |= 1 << bit
        begin = int(rng.integers(-size, size))
        return begin, begin + 1, 1
    while True:
        begin, end = (int(n) for n in rng.integers(-size - 2, size + 3, 2))
        stride = int(rng.choice([-3, -2, -1, 1, 1, 2, 3]))
        free_begin, free_end = rng.random() < 0.3, rng.random() < 0.3
        picked = range(size)[None if free_begin else begin : None if free_end else end : stride]
        if picked:
            masks["begin_mask"] |= int(free_begin) << bit
            masks["end_mask"] |= int(free_end) << bit
            result.append(len(picked))
            return begin, end, stride


def split(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape, count = Net(), list(random_shape(rng, 1, 5, 5)), int(rng.integers(1, 5))
    axis = int(rng.integers(-len(shape), len(shape)))
    part = list(shape)
    shape[axis] *= count
    along = net.constant(whole([axis]).reshape(()))
    x = random_input(rng, net, tuple(shape), dtype)
    outputs = [net.output(part, dtype, meaning(net, x)) for _ in range(count)]
    return net.graph("SPLIT", [along, x], outputs, 2, num_splits=count)


def split_v(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape, count = Net(), list(random_shape(rng, 1, 5, 5)), int(rng.integers(1, 5))
    axis = int(rng.integers(-len(shape), len(shape)))
    sizes = [int(n) for n in rng.integers(1, 5, count)]
    shape[axis] = sum(sizes)
    x = random_input(rng, net, tuple(shape), dtype)
    outputs = []
    for size in sizes:
        part = list(shape)
        part[axis] = size
        outputs.append(net.output(part, dtype, meaning(net, x)))
    if rng.random() < 0.5:
        sizes[int(rng.integers(0, count))] = -1
    inputs = [x, net.constant(whole(sizes)), net.constant(whole([axis]).reshape(()))]
    return net.graph("SPLIT_V", inputs, outputs, 2, num_splits=count)


def gather(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng, 1, 4)
    axis = int(rng.integers(-len(shape), len(shape)))
    place = axis % len(shape)
    inner = random_shape(rng, 0, 2)
    indices = np.asarray(rng.integers(0, shape[place], inner), rng.choice(["int32", "int64"]))
    x = random_input(rng, net, shape, dtype)
    y = net.output((*shape[:place], *inner, *shape[place + 1 :]), dtype, meaning(net, x))
    return net.graph("GATHER", [x, net.constant(indices)], [y], 2, axis=axis, batch_dims=0)


def gather_nd(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng, 1, 5, 5)
    depth = int(rng.integers(1, len(shape) + 1))
    rows = random_shape(rng, 0, 2)
    kind = str(rng.choice(["int16", "int32", "int64"]))
    indices = rng.integers(0, shape[:depth], (*rows, depth)).astype(kind)
    x = random_input(rng, net, shape, dtype)
    y = net.output((*rows, *shape[depth:]), dtype, meaning(net, x))
    return net.graph("GATHER_ND", [x, net.constant(indices)], [y], 4 if kind == "int16" else 2)


def reverse_v2(rng: np.random.Generator, dtype: str) -> Graph:
    """Neighbouring axes, as LiteRT asks for."""
    net, shape = Net(), random_shape(rng)
    first = int(rng.integers(0, len(shape)))
    axes = np.arange(first, int(rng.integers(first, len(shape))) + 1, dtype=np.int32)
    x = random_input(rng, net, shape, dtype)
    y = net.output(shape, dtype, meaning(net, x))
    return net.graph("REVERSE_V2", [x, net.constant(axes)], [y], 3)


def arg_max(rng: np.random.Generator, dtype: str) -> Graph:
    return _arg(rng, dtype, "ARG_MAX")


def arg_min(rng: np.random.Generator, dtype: str) -> Graph:
    return _arg(rng, dtype, "ARG_MIN")


def _arg(rng: np.random.Generator, dtype: str, op: str) -> Graph:
    """Axes long enough for equal codes among them."""
    net, shape, result = Net(), list(random_shape(rng, 1, 4)), str(rng.choice(["int32", "int64"]))
    axis = int(rng.integers(-len(shape), len(shape)))
    place = axis % len(shape)
    shape[place] = int(rng.choice([1, 3, 40, 600]))
    x = random_input(rng, net, tuple(shape), dtype)
    y = net.output([size for at, size in enumerate(shape) if at != place], result)
    along = net.constant(whole([axis]))
    return net.graph(op, [x, along], [y], 2, output_type=result.upper())


def cast(rng: np.random.Generator, dtype: str) -> Graph:
    net, shape = Net(), random_shape(rng)
    result = str(rng.choice(["float32", "int32", "int64", "int8", "uint8"]))
    x = random_input(rng, net, shape, dtype)
    y = net.output(shape, result, meaning(net, x) if result == dtype else None)
    return net.graph("CAST", [x], [y], 1, in_data_type=dtype.upper(), out_data_type=result.upper())
