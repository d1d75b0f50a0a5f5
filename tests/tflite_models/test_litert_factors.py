"""In which precision LiteRT forms its factors: models whose one result depends on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from single_op import Net, assert_same_bits, quantized, random_scale

from calib8.fixedpoint import (
    Ints,
    encode_multiplier,
    multiply_double_rounding,
    multiply_rounding_away,
)
from calib8.tflite.graph import Graph, Option, Quantization

FOUND = 4
"""Models per operator and type."""

WINDOW: dict[str, Option] = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
DILATION: dict[str, Option] = {"dilation_h_factor": 1, "dilation_w_factor": 1}
LAYERS: dict[str, dict[str, Option]] = {
    "CONV_2D": WINDOW | DILATION,
    "DEPTHWISE_CONV_2D": WINDOW | DILATION | {"depth_multiplier": 1},
    "FULLY_CONNECTED": {"keep_num_dims": False},
    "TRANSPOSE_CONV": WINDOW,
}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("op", LAYERS)
def test_layers(op: str, dtype: str) -> None:
    """The bias alone is the sum, one that float32 and float64 factors round to different codes."""
    for scales, acc in _telling_sums(away=op == "FULLY_CONNECTED"):
        rng = np.random.default_rng(acc % (1 << 31))
        assert_same_bits(rng, _layer(op, dtype, scales, acc), runs=1)


def test_mul() -> None:
    """A product that the float32 factor of MUL takes to another code than a float64 factor does."""
    steps = np.arange(-127, 128)
    products = np.unique(np.outer(steps, steps))
    for (a, b, y), product in _telling(
        _product_factors, multiply_double_rounding, products, ratio=(2.0, 5.0)
    ):
        left = next(step for step in range(1, 128) if product % step == 0 and abs(product // step) < 128)
        net = Net()
        x = net.codes((256,), "int8", a, 0)
        k = net.constant(np.full(1, left, np.int8), quantized(b, 0))
        result = net.output((256,), "int8", quantized(y, 0))
        graph = net.graph("MUL", [x, k], [result], 2, fused_activation_function="NONE")
        every = np.arange(256, dtype=np.uint8).view(np.int8)
        assert_same_bits(np.random.default_rng(0), graph, runs=1, inputs=[every])


Scales = tuple[float, float, float]


def _layer_factors(x: np.float32, w: np.float32, y: np.float32) -> tuple[float, float]:
    return float(x * w) / float(y), float(x) * float(w) / float(y)


def _product_factors(x: np.float32, w: np.float32, y: np.float32) -> tuple[float, float]:
    return float(x * w / y), float(x) * float(w) / float(y)


@cache
def _telling_sums(*, away: bool) -> tuple[tuple[Scales, int], ...]:
    rounding = multiply_rounding_away if away else multiply_double_rounding
    sums = np.arange(-1_000_000, 1_000_000)
    return tuple(_telling(_layer_factors, rounding, sums, ratio=(8.0, 9.0)))


def _telling(
    factors: Callable[[np.float32, np.float32, np.float32], tuple[float, float]],
    rounding: Callable[..., Ints],
    sums: npt.NDArray[np.int64],
    ratio: tuple[float, float],
) -> Iterator[tuple[Scales, int]]:
    """Scales, and a sum that both factors take to different codes of int8 and uint8."""
    rng, found = np.random.default_rng(7), 0
    while found < FOUND:
        x, w = np.float32(random_scale(rng)), np.float32(random_scale(rng))
        y = np.float32(float(x) * float(w) * np.exp(rng.uniform(*ratio)))
        pair = [encode_multiplier(factor) for factor in factors(x, w, y)]
        if pair[0] == pair[1]:
            continue
        codes = [rounding(sums, *encoded) for encoded in pair]
        apart = np.flatnonzero((codes[0] != codes[1]) & (np.abs(codes[0]) < 120))
        if apart.size:
            found += 1
            yield (float(x), float(w), float(y)), int(sums[apart[0]])


def _layer(op: str, dtype: str, scales: Scales, acc: int) -> Graph:
    """Weights that are zero."""
    net, zero = Net(), 0 if dtype == "int8" else 128
    shape = (1, 1) if op == "FULLY_CONNECTED" else (1, 1, 1, 1)
    x = net.codes(shape, dtype, scales[0], zero)
    w = net.constant(np.full(shape, zero, dtype), quantized(scales[1], zero))
    sums = Quantization(np.array([np.float32(scales[0] * scales[1])], np.float32), np.zeros(1, np.int64))
    b = net.constant(np.array([acc], np.int32), sums)
    y = net.output(shape, dtype, quantized(scales[2], zero))
    first = [net.constant(np.array(shape, np.int32)), w, x] if op == "TRANSPOSE_CONV" else [x, w]
    return net.graph(op, [*first, b], [y], 3, fused_activation_function="NONE", **LAYERS[op])
