"""Small networks of several operators: a stem, a residual block with a head, and branches that join."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from single_op import Net, quantized, random_codes, random_scale, random_zero_point

from calib8.tflite.graph import Graph, Operator, Option, Quantization

LAYER: Final[dict[str, Option]] = {
    "padding": "SAME",
    "stride_w": 1,
    "stride_h": 1,
    "dilation_w_factor": 1,
    "dilation_h_factor": 1,
    "fused_activation_function": "RELU",
}
VERSIONS: Final = {
    "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "ADD": 2, "AVERAGE_POOL_2D": 2, "MAX_POOL_2D": 2, "RESHAPE": 1,
    "FULLY_CONNECTED": 4, "CONCATENATION": 2, "PAD": 2, "TRANSPOSE": 2,
}  # fmt: skip
POOL: Final[dict[str, Option]] = {
    "padding": "VALID",
    "stride_w": 2,
    "stride_h": 2,
    "filter_width": 2,
    "filter_height": 2,
    "fused_activation_function": "NONE",
}


class Chain:
    """Operators one after another; every activation has the type of the net."""

    def __init__(self, rng: np.random.Generator, dtype: str) -> None:
        self.rng, self.dtype, self.net = rng, dtype, Net()
        self.operators: list[Operator] = []

    def fed(self, shape: tuple[int, ...]) -> int:
        return self.net.codes(shape, self.dtype, *self._parameters())

    def op(
        self, op: str, inputs: list[int], shape: tuple[int, ...], like: int | None = None, **options: Option
    ) -> int:
        """An operator with one output, in its version; ``like`` names a tensor whose scale it keeps."""
        meaning = quantized(*self._parameters()) if like is None else self.net.tensors[like].quantization
        y = self.net.output(shape, self.dtype, meaning)
        self.operators.append(Operator(op, tuple(inputs), (y,), options, VERSIONS[op]))
        return y

    def layer(self, op: str, x: int, weight: tuple[int, ...], channels: int, **options: Option) -> int:
        """A layer with bias; images keep their size."""
        if self.dtype == "int8":
            scales = np.array([random_scale(self.rng, 1e-3, 0.05) for _ in range(channels)], np.float32)
            axis = weight.index(channels) if op != "DEPTHWISE_CONV_2D" else 3
            meaning = Quantization(scales, np.zeros(channels, np.int64), axis)
        else:
            meaning = quantized(random_scale(self.rng, 1e-3, 0.05), random_zero_point(self.rng, self.dtype))
        lowest = -127 if self.dtype == "int8" else 0
        w = self.net.constant(np.maximum(random_codes(self.rng, weight, self.dtype), lowest), meaning)
        have = self.net.tensors[x].quantization
        assert have is not None
        values = self.rng.integers(-500, 500, channels, dtype=np.int32)
        b = self.net.constant(
            values, Quantization(have.scales[0] * meaning.scales, np.zeros(meaning.scales.size, np.int64), 0)
        )
        shape = self.net.tensors[x].shape
        shape = (*shape[:-1], channels)
        return self.op(op, [x, w, b], shape, **options)

    def ints(self, values: Any) -> int:
        data: npt.NDArray[Any] = np.asarray(values, np.int32)
        return self.net.constant(data)

    def graph(self, *outputs: int) -> Graph:
        return Graph(tuple(self.net.tensors), tuple(self.operators), tuple(self.net.inputs), outputs, "net")

    def _parameters(self) -> tuple[float, int]:
        return random_scale(self.rng, 0.01, 0.2), random_zero_point(self.rng, self.dtype)


def stem(rng: np.random.Generator, dtype: str) -> Graph:
    """A convolution, the sum of both its sides, as one row."""
    chain = Chain(rng, dtype)
    depth, size = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    x = chain.fed((1, size, size, depth))
    a = chain.layer("CONV_2D", x, (depth, 3, 3, depth), depth, **LAYER)
    total = chain.op("ADD", [x, a], (1, size, size, depth), fused_activation_function="RELU6")
    count = size * size * depth
    return chain.graph(chain.op("RESHAPE", [total, chain.ints([1, count])], (1, count), like=total))


def residual(rng: np.random.Generator, dtype: str) -> Graph:
    """Convolution, depthwise convolution, a sum, a pool, a fully connected head."""
    chain = Chain(rng, dtype)
    depth, size = int(rng.integers(2, 9)), 2 * int(rng.integers(2, 5))
    x = chain.fed((1, size, size, depth))
    a = chain.layer("CONV_2D", x, (depth + 1, 3, 3, depth), depth + 1, **LAYER)
    b = chain.layer("DEPTHWISE_CONV_2D", a, (1, 3, 3, depth + 1), depth + 1, depth_multiplier=1, **LAYER)
    total = chain.op("ADD", [a, b], (1, size, size, depth + 1), fused_activation_function="RELU")
    half = (1, size // 2, size // 2, depth + 1)
    pooled = chain.op("AVERAGE_POOL_2D", [total], half, like=total, **POOL)
    flat = half[1] * half[2] * half[3]
    row = chain.op("RESHAPE", [pooled, chain.ints([1, flat])], (1, flat), like=pooled)
    options: dict[str, Option] = {"fused_activation_function": "NONE", "keep_num_dims": False}
    head_codes = chain.net.constant(random_codes(rng, (10, flat), dtype), quantized(0.01, 0))
    y = chain.op("FULLY_CONNECTED", [row, head_codes], (1, 10), **options)
    return chain.graph(y, total)


def branches(rng: np.random.Generator, dtype: str) -> Graph:
    """Two pools of one tensor, joined, padded and transposed."""
    chain = Chain(rng, dtype)
    depth, size = int(rng.integers(1, 7)), 2 * int(rng.integers(2, 6))
    x = chain.fed((1, size, size, depth))
    half = (1, size // 2, size // 2, depth)
    a = chain.op("MAX_POOL_2D", [x], half, like=x, **POOL)
    b = chain.op("AVERAGE_POOL_2D", [x], half, like=x, **POOL)
    joined = chain.op(
        "CONCATENATION", [a, b], (*half[:3], 2 * depth), like=x, axis=3, fused_activation_function="NONE"
    )
    wider = (1, half[1] + 1, half[2] + 2, 2 * depth)
    padded = chain.op("PAD", [joined, chain.ints([[0, 0], [1, 0], [0, 2], [0, 0]])], wider, like=x)
    moved = (1, wider[3], wider[1], wider[2])
    y = chain.op("TRANSPOSE", [padded, chain.ints([0, 3, 1, 2])], moved, like=x)
    return chain.graph(y)


CASES_OF: Final[Mapping[str, Callable[[np.random.Generator, str], Graph]]] = {
    "stem": stem,
    "residual": residual,
    "branches": branches,
}
"""Name → a random network."""
