"""Small networks of which a signature leaves rows and columns free, at any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from cases_nets import LAYER, POOL, Chain
from single_op import quantized, random_codes

from calib8.tflite.graph import Graph, Operator, Option, Tensor

FREE: Final = (-1, -1, -1, 3)
STRIDED: Final[dict[str, Option]] = {**LAYER, "stride_w": 2, "stride_h": 2}
MASKS: Final[dict[str, Option]] = {
    "begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 1,
}  # fmt: skip


def freed(graph: Graph) -> Graph:
    """As converters write it: 1 in place of what is free, and nothing known of what is computed."""
    [first] = graph.inputs
    tensors = [_unknown(tensor) if tensor.data is None else tensor for tensor in graph.tensors]
    tensors[first] = replace(tensors[first], shape=(1, 1, 1, 3), signature=FREE)
    return replace(graph, tensors=tuple(tensors))


def _unknown(tensor: Tensor) -> Tensor:
    rank = len(tensor.shape)
    return replace(tensor, shape=(1,) * rank, signature=(-1,) * rank)


def with_op(chain: Chain, op: str, inputs: list[int], rank: int, like: int | None, **options: Option) -> int:
    """An operator whose output has a number of axes."""
    version = {"MEAN": 2, "RESIZE_BILINEAR": 3, "RESIZE_NEAREST_NEIGHBOR": 3}.get(op, 2)
    meaning = quantized(0.05, 3) if like is None else chain.net.tensors[like].quantization
    y = chain.net.output((1,) * rank, chain.dtype, meaning)
    chain.operators.append(Operator(op, tuple(inputs), (y,), options, version))
    return y


def sizes_of(chain: Chain, op: str, inputs: list[int], shape: tuple[int, ...], **options: Option) -> int:
    """An operator on whole numbers."""
    y = chain.net.output(shape, "int32")
    chain.operators.append(Operator(op, tuple(inputs), (y,), options))
    return y


def pyramid(rng: np.random.Generator, dtype: str) -> Graph:
    """Convolutions of both paddings, pools of two branches, joined."""
    chain = Chain(rng, dtype)
    x = chain.fed((1, 1, 1, 3))
    a = chain.layer("CONV_2D", x, (4, 3, 3, 3), 4, **STRIDED)
    b = chain.layer(
        "DEPTHWISE_CONV_2D", a, (1, 2, 2, 4), 4, depth_multiplier=1, **{**LAYER, "padding": "VALID"}
    )
    parts = [chain.op(op, [b], (1, 1, 1, 4), like=b, **POOL) for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D")]
    y = chain.op("CONCATENATION", parts, (1, 1, 1, 8), like=b, axis=3, fused_activation_function="NONE")
    padded = chain.op("PAD", [y, chain.ints([[0, 0], [1, 0], [0, 2], [0, 0]])], (1, 1, 1, 8), like=y)
    return chain.graph(padded)


def pooled(rng: np.random.Generator, dtype: str) -> Graph:
    """A global mean with a fully connected head behind it, as classifiers have it."""
    chain = Chain(rng, dtype)
    a = chain.layer("CONV_2D", chain.fed((1, 1, 1, 3)), (6, 3, 3, 3), 6, **STRIDED)
    mean = with_op(chain, "MEAN", [a, chain.ints([1, 2])], 2, a, keep_dims=False)
    head = chain.net.constant(np.maximum(random_codes(rng, (5, 6), dtype), 1), quantized(0.01, 0))
    options: dict[str, Option] = {"fused_activation_function": "NONE", "keep_num_dims": False}
    return chain.graph(chain.op("FULLY_CONNECTED", [mean, head], (1, 5), **options))


def rows(rng: np.random.Generator, dtype: str) -> Graph:
    """A RESHAPE whose −1 takes the pixels, a TRANSPOSE and a constant slice of them."""
    chain = Chain(rng, dtype)
    x = chain.fed((1, 1, 1, 3))
    a = chain.layer("CONV_2D", x, (4, 1, 1, 3), 4, **LAYER)
    flat = chain.op("RESHAPE", [a, chain.ints([1, -1, 4])], (1, 1, 4), like=a)
    return chain.graph(chain.op("TRANSPOSE", [flat, chain.ints([0, 2, 1])], (1, 1, 1), like=a))


def doubled(rng: np.random.Generator, dtype: str) -> Graph:
    """An image resized to twice its size, which SHAPE, STRIDED_SLICE and MUL compute; then by constants."""
    chain = Chain(rng, dtype)
    x = chain.fed((1, 1, 1, 3))
    shape = sizes_of(chain, "SHAPE", [x], (4,), out_type="INT32")
    bounds = [chain.ints([place]) for place in (1, 3, 1)]
    size = sizes_of(chain, "STRIDED_SLICE", [shape, *bounds], (2,), **{**MASKS, "shrink_axis_mask": 0})
    twice = sizes_of(chain, "MUL", [size, chain.ints([2, 2])], (2,), fused_activation_function="NONE")
    options: dict[str, Option] = {"align_corners": False, "half_pixel_centers": True}
    big = with_op(chain, "RESIZE_NEAREST_NEIGHBOR", [x, twice], 4, x, **options)
    small = with_op(chain, "RESIZE_BILINEAR", [x, chain.ints([5, 4])], 4, x, **options)
    return chain.graph(big, small)


def computed_rows(rng: np.random.Generator, dtype: str) -> Graph:
    """A RESHAPE to what SHAPE → STRIDED_SLICE → PACK compute, as Keras writes it for a free batch."""
    chain = Chain(rng, dtype)
    a = chain.layer("CONV_2D", chain.fed((1, 1, 1, 3)), (4, 3, 3, 3), 4, **STRIDED)
    shape = sizes_of(chain, "SHAPE", [a], (4,), out_type="INT32")
    picked = [
        sizes_of(
            chain,
            "STRIDED_SLICE",
            [shape, chain.ints([at]), chain.ints([at + 1]), chain.ints([1])],
            (),
            **MASKS,
        )
        for at in (0, 1)
    ]
    parts = [*picked, chain.ints(-1)]
    target = sizes_of(chain, "PACK", parts, (3,), values_count=3, axis=0)
    return chain.graph(chain.op("RESHAPE", [a, target], (1, 1, 1), like=a))


def scaled(rng: np.random.Generator, dtype: str) -> Graph:
    """An image resized by a factor of float32, and its pixels as rows whose number is a product of sizes."""
    chain = Chain(rng, dtype)
    x = chain.fed((1, 1, 1, 3))
    shape = sizes_of(chain, "SHAPE", [x], (4,), out_type="INT32")
    size = sizes_of(chain, "GATHER", [shape, chain.ints([1, 2])], (2,), axis=0, batch_dims=0)
    real = chain.net.output((2,), "float32")
    chain.operators.append(
        Operator("CAST", (size,), (real,), {"in_data_type": "INT32", "out_data_type": "FLOAT32"})
    )
    larger = chain.net.output((2,), "float32")
    factor = chain.net.constant(np.array([1.3, 1.7], np.float32))
    chain.operators.append(Operator("MUL", (real, factor), (larger,), {"fused_activation_function": "NONE"}))
    wanted = sizes_of(chain, "CAST", [larger], (2,), in_data_type="FLOAT32", out_data_type="INT32")
    options: dict[str, Option] = {"align_corners": False, "half_pixel_centers": False}
    big = with_op(chain, "RESIZE_NEAREST_NEIGHBOR", [x, wanted], 4, x, **options)
    count = sizes_of(chain, "REDUCE_PROD", [size, chain.ints([0])], (1,), keep_dims=True)
    none: dict[str, Option] = {"fused_activation_function": "NONE"}
    more = sizes_of(
        chain,
        "SUB",
        [sizes_of(chain, "ADD", [count, chain.ints([2])], (1,), **none), chain.ints([2])],
        (1,),
        **none,
    )
    same = sizes_of(
        chain,
        "FLOOR_DIV",
        [sizes_of(chain, "MUL", [more, chain.ints([2])], (1,), **none), chain.ints([2])],
        (1,),
    )
    target = sizes_of(chain, "CONCATENATION", [chain.ints([-1]), same, chain.ints([3])], (3,), axis=0, **none)
    return chain.graph(big, chain.op("RESHAPE", [x, target], (1, 1, 1), like=x))


FREE_NETS: Final[Mapping[str, Callable[[np.random.Generator, str], Graph]]] = {
    "pyramid": pyramid,
    "pooled": pooled,
    "rows": rows,
    "doubled": doubled,
    "computed_rows": computed_rows,
    "scaled": scaled,
}
"""Name → a random network of one image, 1 in place of its sizes."""
