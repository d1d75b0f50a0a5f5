"""Random float TFLite models of one operator that moves, joins or parts tensors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from float_operators import FloatNet, Rng, image

from calib8.tflite.graph import Graph, Operator, Tensor


def any_shape(rng: Rng, net: FloatNet) -> int:
    rank = int(rng.choice([1, 2, 3, 4, 4, 4]))
    return net.fed(*rng.integers(1, 6, rank).tolist())


def reshape(rng: Rng) -> Graph:
    net = FloatNet(rng)
    x = image(rng, net)
    n, h, w, c = net.tensors[x].shape
    shapes = [(n, h * w * c), (n, h * w, c), (n * h, w, 1, c), (w, h, c, n), (n, c, h, w)]
    shape = shapes[int(rng.integers(0, len(shapes)))]
    return net.graph(net.op("RESHAPE", [x, net.constant(shape, "int32")], new_shape=shape))


def squeeze(rng: Rng) -> Graph:
    net = FloatNet(rng)
    ones = [bool(rng.random() < 0.6) for _ in range(4)]
    x = net.fed(*(1 if one else int(rng.integers(2, 5)) for one in ones))
    dims = tuple(axis for axis, one in enumerate(ones) if one and rng.random() < 0.7)
    return net.graph(net.op("SQUEEZE", [x], squeeze_dims=dims))


def expand_dims(rng: Rng) -> Graph:
    net = FloatNet(rng)
    x = any_shape(rng, net)
    rank = len(net.tensors[x].shape)
    return net.graph(net.op("EXPAND_DIMS", [x, net.constant([int(rng.integers(-rank, rank))], "int32")]))


def transpose(rng: Rng) -> Graph:
    net = FloatNet(rng)
    x = any_shape(rng, net)
    for _ in range(int(rng.integers(1, 3))):
        axes = rng.permutation(len(net.tensors[x].shape))
        shape = tuple(net.tensors[x].shape[axis] for axis in axes)
        x = net.op("TRANSPOSE", [x, net.constant(axes, "int32")], shape=shape)
    return net.graph(x)


def concatenation(rng: Rng) -> Graph:
    net = FloatNet(rng)
    shape = rng.integers(1, 5, int(rng.choice([2, 4, 4]))).tolist()
    axis = int(rng.integers(0, len(shape)))
    parts = []
    for at in range(int(rng.integers(2, 5))):
        shape[axis] = int(rng.integers(1, 5))
        parts.append(net.normal(*shape) if at and rng.random() < 0.3 else net.fed(*shape))
    named = axis - len(shape) if rng.random() < 0.3 else axis
    return net.graph(net.op("CONCATENATION", parts, axis=named))


def pack(rng: Rng) -> Graph:
    net = FloatNet(rng)
    shape, count = rng.integers(1, 5, int(rng.choice([1, 2, 3, 4]))).tolist(), int(rng.integers(1, 4))
    axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    return net.graph(net.op("PACK", [net.fed(*shape) for _ in range(count)], axis=axis, values_count=count))


def unpack(rng: Rng) -> Graph:
    net = FloatNet(rng)
    x = any_shape(rng, net)
    rank = len(net.tensors[x].shape)
    axis = int(rng.integers(-rank, rank))
    count = net.tensors[x].shape[axis]
    return net.graph(*net.ops("UNPACK", [x], count, axis=axis, num=count))


def split(rng: Rng) -> Graph:
    net, count = FloatNet(rng), int(rng.integers(1, 4))
    shape = rng.integers(1, 5, 4).tolist()
    axis = int(rng.integers(-4, 4))
    shape[axis] *= count
    return net.graph(
        *net.ops("SPLIT", [net.constant(axis, "int32"), net.fed(*shape)], count, num_splits=count)
    )


def split_v(rng: Rng) -> Graph:
    net, sizes = FloatNet(rng), rng.integers(1, 5, 3)
    shape = rng.integers(1, 5, 4).tolist()
    axis = int(rng.integers(0, 4))
    shape[axis] = int(sizes.sum())
    inputs = [net.fed(*shape), net.constant(sizes, "int32"), net.constant(axis, "int32")]
    return net.graph(*net.ops("SPLIT_V", inputs, 3, num_splits=3))


def pad(op: str) -> Callable[[Rng], Graph]:
    def build(rng: Rng) -> Graph:
        net = FloatNet(rng)
        x = image(rng, net)
        inputs = [x, net.constant(rng.integers(0, 4, (4, 2)), "int32")]
        return net.graph(
            net.op(op, [*inputs, net.constant(rng.normal(), "float32")] if op == "PADV2" else inputs)
        )

    return build


def mirror_pad(rng: Rng) -> Graph:
    net, mode = FloatNet(rng), str(rng.choice(["REFLECT", "SYMMETRIC"]))
    x = image(rng, net, depth=3, least=3)
    most = np.array(net.tensors[x].shape).clip(max=3)[:, None] - (mode == "REFLECT")
    pads = rng.integers(0, most + 1, (4, 2))
    return net.graph(net.op("MIRROR_PAD", [x, net.constant(pads, "int32")], mode=mode))


def gather(rng: Rng) -> Graph:
    net = FloatNet(rng)
    x = any_shape(rng, net)
    rank = len(net.tensors[x].shape)
    axis = int(rng.integers(-rank, rank))
    shape = rng.integers(1, 4, int(rng.integers(0, 3)))
    indices = rng.integers(0, net.tensors[x].shape[axis], shape)
    return net.graph(net.op("GATHER", [x, net.constant(indices, "int32")], axis=axis, batch_dims=0))


def gather_nd(rng: Rng) -> Graph:
    """Constant rows of indices or fed ones of 0 and 1."""
    net = FloatNet(rng)
    x = net.fed(*rng.integers(2, 6, int(rng.integers(1, 5))).tolist())
    sizes = net.tensors[x].shape
    depth = int(rng.integers(1, len(sizes) + 1))
    rows = rng.integers(1, 4, int(rng.integers(0, 3))).tolist()
    if rng.random() < 0.3:
        return net.graph(net.op("GATHER_ND", [x, net.fed(*rows, depth, dtype="int32")]))
    indices = rng.integers(0, sizes[:depth], (*rows, depth))
    return net.graph(net.op("GATHER_ND", [x, net.constant(indices, str(rng.choice(["int32", "int64"])))]))


def reverse_v2(rng: Rng) -> Graph:
    net = FloatNet(rng)
    x = any_shape(rng, net)
    rank = len(net.tensors[x].shape)
    axes = rng.permutation(rank)[:1]
    return net.graph(net.op("REVERSE_V2", [x, net.constant(axes, "int32")]))


def topk_v2(rng: Rng) -> Graph:
    """Few different numbers, so that many are equal."""
    net = FloatNet(rng)
    rounded = net.op("FLOOR", [any_shape(rng, net)])
    width = net.tensors[net.inputs[0]].shape[-1]
    count = net.constant(int(rng.integers(1, width + 1)), "int32")
    values = net.add(Tensor("y", (), "float32"))
    places = net.add(Tensor("y", (), "int32"))
    net.operators.append(Operator("TOPK_V2", (rounded, count), (values, places)))
    return net.graph(values, places)


def cumsum(rng: Rng) -> Graph:
    net = FloatNet(rng)
    x = any_shape(rng, net)
    rank = len(net.tensors[x].shape)
    axis = net.constant(int(rng.integers(-rank, rank)), "int32")
    exclusive, reverse = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    return net.graph(net.op("CUMSUM", [x, axis], exclusive=exclusive, reverse=reverse))


def add_n(rng: Rng) -> Graph:
    net = FloatNet(rng)
    shape = rng.integers(1, 5, 4).tolist()
    sides = [net.fed(*shape) for _ in range(int(rng.integers(2, 5)))]
    return net.graph(net.op("ADD_N", sides))


def tile(rng: Rng) -> Graph:
    net = FloatNet(rng)
    x = any_shape(rng, net)
    repeats = rng.integers(1, 4, len(net.tensors[x].shape))
    return net.graph(net.op("TILE", [x, net.constant(repeats, "int32")]))


def broadcast_to(rng: Rng) -> Graph:
    net = FloatNet(rng)
    shape = rng.integers(1, 5, int(rng.integers(1, 5))).tolist()
    small = [size if rng.random() < 0.5 else 1 for size in shape][int(rng.integers(0, len(shape))) :]
    return net.graph(net.op("BROADCAST_TO", [net.fed(*small), net.constant(shape, "int32")], version=2))


def cut(rng: Rng) -> Graph:
    net = FloatNet(rng)
    x = any_shape(rng, net)
    shape = np.array(net.tensors[x].shape)
    begin = rng.integers(0, shape)
    size = np.where(rng.random(len(shape)) < 0.3, -1, rng.integers(1, shape - begin + 1))
    return net.graph(net.op("SLICE", [x, net.constant(begin, "int32"), net.constant(size, "int32")]))


def strided_slice(rng: Rng) -> Graph:
    """Every axis keeps at least one element."""
    net = FloatNet(rng)
    x = any_shape(rng, net)
    shape = np.array(net.tensors[x].shape)
    rank = len(shape)
    step = rng.choice([1, 1, 2, -1], rank)
    low = rng.integers(0, shape)
    high = np.array([int(rng.integers(start + 1, size + 1)) for start, size in zip(low, shape, strict=True)])
    begin, end = np.where(step > 0, low, high - 1), np.where(step > 0, high, low - 1 - shape * (low == 0))
    begin = begin - shape * (rng.random(rank) < 0.2)
    masks = {name: int(rng.integers(0, 1 << rank)) for name in ("begin_mask", "end_mask")}
    if rng.random() < 0.4:
        plain = sum(1 << axis for axis in range(rank) if step[axis] == 1)  # what LiteRT defines
        masks["shrink_axis_mask"] = int(rng.integers(0, 1 << rank)) & plain & ~masks["begin_mask"]
    entries = rank if rng.random() < 0.7 else int(rng.integers(1, rank + 1))
    bounds = [net.constant(values[:entries], "int32") for values in (begin, end, step)]
    return net.graph(net.op("STRIDED_SLICE", [x, *bounds], **masks))


def blocks(op: str) -> Callable[[Rng], Graph]:
    def build(rng: Rng) -> Graph:
        net, size = FloatNet(rng), int(rng.integers(1, 4))
        n, h, w, c = rng.integers(1, 4, 4).tolist()
        shape = (n, h * size, w * size, c) if op == "SPACE_TO_DEPTH" else (n, h, w, c * size * size)
        return net.graph(net.op(op, [net.fed(*shape)], block_size=size))

    return build


def space_to_batch_nd(rng: Rng) -> Graph:
    net, size = FloatNet(rng), rng.integers(1, 4, 2)
    n, h, w, c = rng.integers(1, 4, 4).tolist()
    before = rng.integers(0, 2, 2)
    whole = np.array([h, w]) * size + rng.integers(0, 2, 2) * size
    after = np.array([h, w]) * size - before - whole
    whole, after = whole + np.minimum(after, 0), np.maximum(after, 0)
    whole += (-(whole + before + after)) % size
    whole = np.maximum(whole, size)
    after = (-(whole + before)) % size
    pads = np.stack([before, after], 1)
    inputs = [net.fed(n, *whole.tolist(), c), net.constant(size, "int32"), net.constant(pads, "int32")]
    return net.graph(net.op("SPACE_TO_BATCH_ND", inputs))


def batch_to_space_nd(rng: Rng) -> Graph:
    net, size = FloatNet(rng), rng.integers(1, 4, 2)
    n, h, w, c = rng.integers(2, 5, 4).tolist()
    crops = rng.integers(0, 2, (2, 2))
    inputs = [
        net.fed(n * int(size.prod()), h, w, c),
        net.constant(size, "int32"),
        net.constant(crops, "int32"),
    ]
    return net.graph(net.op("BATCH_TO_SPACE_ND", inputs))


def cast(rng: Rng) -> Graph:
    net, kind = FloatNet(rng), str(rng.choice(["INT32", "INT64"]))
    whole = net.op(
        "CAST", [any_shape(rng, net)], dtype=kind.lower(), in_data_type="FLOAT32", out_data_type=kind
    )
    return net.graph(net.op("CAST", [whole], in_data_type=kind, out_data_type="FLOAT32"))


def select(rng: Rng) -> Graph:
    net = FloatNet(rng)
    shape = rng.integers(1, 5, 4).tolist()
    a, b = net.fed(*shape), net.fed(*shape)
    which = net.op("GREATER", [a, b], dtype="bool", shape=tuple(shape))
    return net.graph(net.op("SELECT", [which, b, net.normal(*shape)]))


def select_v2(rng: Rng) -> Graph:
    net = FloatNet(rng)
    shape = rng.integers(1, 5, 4).tolist()
    a, b = net.fed(*shape), net.fed(*shape)
    which = net.op("GREATER", [a, b], dtype="bool", shape=tuple(shape))
    return net.graph(net.op("SELECT_V2", [which, a, net.normal(1, 1, 1, shape[3])]))
