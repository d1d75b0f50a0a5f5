"""What moves 16-bit codes and functions of them, bit for bit as LiteRT's reference kernels have them."""

from __future__ import annotations

import numpy as np
import pytest
from cases_moves import FUNCTIONS, MOVES
from single_op import CASES, Net, assert_same_bits, quantized, random_scale
from widened import widened

from calib8.program.lower_tflite.wide import MOVES as WIDE_MOVES
from calib8.tflite.graph import Graph

MOVED = sorted(WIDE_MOVES & set(MOVES))


@pytest.mark.parametrize("op", MOVED)
def test_move(op: str) -> None:
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        assert_same_bits(rng, widened(MOVES[op](rng, "int8"), rng))


@pytest.mark.parametrize("op", ["LEAKY_RELU", "RELU", "RELU6"])
def test_piecewise_linear(op: str) -> None:
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        assert_same_bits(rng, widened(FUNCTIONS[op](rng, "int8"), rng))


def _every_code(op: str, x: float, y: float, source: str = "int16", target: str = "int16") -> Graph:
    net = Net()
    count = 1 << (8 * np.dtype(source).itemsize)
    place = net.codes((count,), source, x, 0 if source == "int16" else -7 + 128 * (source == "uint8"))
    kind = quantized(y, 0 if target == "int16" else 11)
    return net.graph(op, [place], [net.output((count,), target, kind)], 3)


def _in_order(dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1).astype(dtype)


@pytest.mark.parametrize("op", ["LOGISTIC", "TANH"])
def test_every_code_of_curves(op: str) -> None:
    """Powers of two and others; 2^-12 and 2^-11 are multiplied by a whole number."""
    rng = np.random.default_rng(3)
    scales = [2.0**-power for power in (3, 10, 11, 12, 13, 15, 18)]
    for scale in [*scales, *(random_scale(rng, 1e-7, 1.0) for _ in range(CASES))]:
        graph = _every_code(op, scale, 2.0**-15)
        assert_same_bits(rng, graph, runs=1, inputs=[_in_order("int16")])


@pytest.mark.parametrize(
    ("source", "target"), [("int16", "int16"), ("int16", "int8"), ("int8", "int16"), ("uint8", "int16")]
)
def test_every_code_requantized(source: str, target: str) -> None:
    rng = np.random.default_rng(5)
    for number in range(CASES):
        x = random_scale(rng, 1e-4, 1e-1)
        steps = 2.0 ** (np.dtype(source).itemsize * 8 - np.dtype(target).itemsize * 8)
        ratio = 2.0 ** int(rng.integers(-1, 2)) if number % 3 == 0 else float(np.exp(rng.uniform(-1, 1)))
        graph = _every_code("QUANTIZE", x, float(np.float32(x * steps * ratio)), source, target)
        assert_same_bits(rng, graph, runs=1, inputs=[_in_order(source)])


def test_quantized_reals() -> None:
    rng = np.random.default_rng(7)
    for _ in range(CASES):
        net = Net()
        x = net.plain((3, 50), "float32")
        y = net.output((3, 50), "int16", quantized(random_scale(rng, 1e-4, 0.1), 0))
        assert_same_bits(rng, net.graph("QUANTIZE", [x], [y], 3))
