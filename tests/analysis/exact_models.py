"""A network of two layers that integers compute exactly, its int8 form, and what both have to give.

Scales are powers of two and weights multiples of 1/64: every sum is exact in float32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from small_models import onnx_model

Array = npt.NDArray[Any]


SX, SR, SY = 1 / 16, 1 / 4, 1 / 2
ZX, ZY = 128, 100
W1, B1 = np.array([[3, -20, 7], [-40, 25, 11]]), np.array([33, -70])
W2, B2 = np.array([[13, -27], [50, 9], [-31, 44]]), np.array([5, 0, -64])
S1, S2 = np.array([1 / 64, 1 / 32]), np.array([1 / 64, 1 / 16, 1 / 32])
LAYERS = "c = Conv(x, w1, b1) r = Relu(c) y = Conv(r, w2, b2)"
QDQ = """
xq = QuantizeLinear(x, sx, zx)  xd = DequantizeLinear(xq, sx, zx)
w1d = DequantizeLinear<axis=0>(w1q, s1)  b1d = DequantizeLinear<axis=0>(b1q, sb1)
c = Conv(xd, w1d, b1d)  r = Relu(c)
rq = QuantizeLinear(r, sr, zr)  rd = DequantizeLinear(rq, sr, zr)
w2d = DequantizeLinear<axis=0>(w2q, s2)  b2d = DequantizeLinear<axis=0>(b2q, sb2)
before = Conv(rd, w2d, b2d)
yq = QuantizeLinear(before, sy, zy)  y = DequantizeLinear(yq, sy, zy)
"""
ENDS = ("float[N,3,4,4] x", "float[N,3,4,4] y")


def exact_float() -> onnx.ModelProto:
    """Weights that the codes miss by up to a step."""
    rng = np.random.default_rng(3)
    constants = {
        "w1": kernel(W1 * S1[:, None] + rng.integers(-1, 2, W1.shape) / 64),
        "b1": (B1 * S1 * SX).astype(np.float32),
        "w2": kernel(W2 * S2[:, None] + rng.integers(-2, 3, W2.shape) / 64),
        "b2": (B2 * S2 * SR).astype(np.float32),
    }
    return onnx_model(*ENDS, LAYERS, constants)


def exact_int8() -> onnx.ModelProto:
    scales = {"sx": SX, "sr": SR, "sy": SY, "s1": S1, "s2": S2, "sb1": S1 * SX, "sb2": S2 * SR}
    codes = {"w1q": kernel(W1, np.int8), "w2q": kernel(W2, np.int8), "b1q": np.int32(B1), "b2q": np.int32(B2)}
    points = {"zx": np.uint8(ZX), "zr": np.uint8(0), "zy": np.uint8(ZY)}
    constants = {name: np.asarray(value, np.float32) for name, value in scales.items()} | codes | points
    return onnx_model(*ENDS, QDQ, constants)


def kernel(weight: Array, dtype: Any = np.float32) -> Array:
    return weight[:, :, None, None].astype(dtype)


def exact_images(count: int) -> list[dict[str, Array]]:
    """Multiples of 1/64 from −9 to 9; the codes end at −8 and 7.9375."""
    rng = np.random.default_rng(4)
    return [{"x": (rng.integers(-576, 577, (1, 3, 4, 4)) / 64).astype(np.float32)} for _ in range(count)]


def codes(values: Array, scale: float, point: int) -> Array:
    return np.clip(np.rint(values / scale) + point, 0, 255).astype(np.int64)


def sums(weight: Array, bias: Array, steps: Array) -> Array:
    return np.einsum("oi,nihw->nohw", weight, steps) + bias[:, None, None]


def layer1(x: Array) -> Array:
    """Codes of r from real values of x, in integers."""
    real = sums(W1, B1, codes(x, SX, ZX) - ZX) * (SX * S1)[:, None, None]
    return codes(real, SR, 0)


def layer2(r: Array) -> Array:
    real = sums(W2, B2, codes(r, SR, 0)) * (SR * S2)[:, None, None]
    return codes(real, SY, ZY)


def expected_distance(reference: Array, output: Array) -> tuple[float, float]:
    noise = np.sum((reference - output) ** 2)
    cosine = np.sum(reference * output) / np.sqrt(np.sum(reference**2) * np.sum(output**2))
    return 10 * math.log10(np.sum(reference**2) / noise), float(cosine)


def float_constants() -> dict[str, Array]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in exact_float().graph.initializer}
