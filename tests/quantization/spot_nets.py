"""Small networks with tensors that may have 16-bit codes, and how near outputs are."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from quantized_models import CONV

from calib8.model.load import load_model
from calib8.passes.prepare import prepare
from calib8.scheme import TARGETS
from small_models import Array, normal, onnx_model, run

CALIB8 = TARGETS["calib8"]
FEEDS = {"x": normal(2, 8, 12, 12, seed=9)}
CONSTANTS: dict[str, Array] = {
    "w": normal(16, 8, 3, 3) * np.float32(0.2),
    "v": normal(16, 16, 3, 3, seed=5) * np.float32(0.1),
    "d": normal(16, 1, 3, 3, seed=6) * np.float32(0.3),
    "t": normal(16, 8, 3, 3, seed=8) * np.float32(0.1),
    "u": normal(8, 16, 3, 3, seed=1) * np.float32(0.1),
    "b": normal(16, seed=7),
    "one": np.float32(1.5),
    "scales": np.float32([1, 1, 2, 2]),
    "wide": np.abs(normal(1, 16, 1, 1, seed=4)),
    "m": normal(16, 10),
    "cut": np.array([8, 8], np.int64),
}
SILU = "s = Sigmoid(c) n = Mul(c, s)"
LAST = f"y = {CONV}(n, u)"
SUM = f"a = {CONV}(x, w) c = {CONV}(x, w, b) q = Add(a, c)"
NETS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "silu": (f"c = {CONV}(x, w, b) {SILU} {LAST}", ("n",), "N,8,12,12"),
    "relu": (f"c = {CONV}(x, w, b) n = Relu(c) {LAST}", ("n",), "N,8,12,12"),
    "leaky": (f"c = {CONV}(x, w, b) n = LeakyRelu(c) {LAST}", ("n",), "N,8,12,12"),
    "two in a row": (f"a = {CONV}(x, w) r = Relu(a) c = {CONV}(r, v) {SILU} {LAST}", ("r", "n"), "N,8,12,12"),
    "input": (f"c = {CONV}(x, w, b) n = Relu(c) {LAST}", ("x",), "N,8,12,12"),
    "output": (f"c = {CONV}(x, w, b) n = Relu(c) {LAST}", ("y",), "N,8,12,12"),
    "residual": (
        f"a = {CONV}(x, w) r = Relu(a) c = {CONV}(r, v) p = Add(c, r) n = Relu(p) {LAST}",
        ("r", "c", "n"),
        "N,8,12,12",
    ),
    "half a residual": (
        f"a = {CONV}(x, w) r = Relu(a) c = {CONV}(r, v) n = Add(c, r) {LAST}", ("r",), "N,8,12,12"
    ),
    "difference": (f"a = {CONV}(x, w) c = {CONV}(x, w, b) n = Sub(a, c) {LAST}", ("a", "n"), "N,8,12,12"),
    "product": (
        f"a = {CONV}(x, w) c = {CONV}(x, w, b) g = Sigmoid(c) n = Mul(a, g) {LAST}",
        ("a", "g"),
        "N,8,12,12",
    ),
    "concat": (
        f"a = {CONV}(x, w) r = Relu(a) c = {CONV}(x, w, b) q = Relu(c) k = Concat<axis=1>(r, q) "
        "p, n = Split<axis=1>(k) y = Add(p, n)",
        ("k",),
        "N,16,12,12",
    ),
    "concat of scales": (
        f"a = {CONV}(x, w) r = Relu(a) c = {CONV}(x, w, b) q = Sigmoid(c) k = Concat<axis=1>(r, q) "
        "p, n = Split<axis=1>(k) y = Add(p, n)",
        ("q",),
        "N,16,12,12",
    ),
    "depthwise": (
        f"a = {CONV}(x, w) r = Relu(a) n = Conv<group=16, pads=[1,1,1,1]>(r, d, b) {LAST}",
        ("r", "n"),
        "N,8,12,12",
    ),
    "transposed": (
        f"a = {CONV}(x, w) r = Relu(a) y = ConvTranspose<strides=[2,2]>(r, t)", ("r",), "N,8,25,25"
    ),
    "pool": (
        f"a = {CONV}(x, w) r = Relu(a) n = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r) {LAST}",
        ("n",),
        "N,8,6,6",
    ),
    "resize": (
        f"a = {CONV}(x, w) r = Relu(a) n = Resize<mode=\"nearest\">(r, , scales) {LAST}", ("r",), "N,8,24,24"
    ),
    "mean beside": (
        f"a = {CONV}(x, w) r = Relu(a) g = GlobalAveragePool(r) s = HardSigmoid(g) n = Mul(r, s) {LAST}",
        ("r",),
        "N,8,12,12",
    ),
    "windows beside": (
        f"a = {CONV}(x, w) r = Relu(a) g = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(r) "
        f"n = Add(r, g) {LAST}",
        ("r", "n"),
        "N,8,12,12",
    ),
    "function": (f"{SUM} n = HardSwish(q) {LAST}", ("q", "n"), "N,8,12,12"),
    "to a function": (f"{SUM} n = Tanh(q) {LAST}", ("n",), "N,8,12,12"),
    "constant": (
        f"a = {CONV}(x, w) c = {CONV}(x, w, b) r = Relu(c) q = Add(a, r) n = Mul(q, one) {LAST}",
        ("q", "n"),
        "N,8,12,12",
    ),
}  # fmt: skip
"""Body, spots that are asked for, shape of y."""


def whole(name: str) -> tuple[ir.Model, Array]:
    """The prepared network and its float output."""
    body, _, shape = NETS[name]
    constants = {key: array for key, array in CONSTANTS.items() if f", {key}" in body}
    proto = onnx_model("float[N,8,12,12] x", f"float[{shape}] y", body, constants)
    prepared = prepare(load_model(proto), FEEDS).model
    return prepared, run(prepared, FEEDS)[0]


def sqnr(expected: Array, found: Array) -> float:
    return float(10 * np.log10(np.mean(np.square(expected)) / np.mean(np.square(expected - found))))
