"""Classes of channels: factors on whole classes leave the function as it is, bit for bit; what fixes them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.passes.channel_classes import FIXED, ChannelClasses, channel_classes
from calib8.passes.prepare import prepare
from small_models import Array, normal, onnx_model, run

SAMPLE = {"x": normal(2, 3, 8, 8, seed=9)}
CONSTANTS: dict[str, Array] = {
    "w": normal(6, 3, 3, 3),
    "b": normal(6, seed=1),
    "v": normal(6, 6, 3, 3, seed=2),
    "d": normal(6, 1, 3, 3, seed=3),
    "g": normal(6, 2, 3, 3, seed=4),
    "q": normal(6, 3, 2, 2, seed=5),
    "p": normal(4, 6, 1, 1, seed=6),
    "p4": normal(4, 4, 1, 1, seed=16),
    "p9": normal(4, 9, 1, 1, seed=17),
    "p12": normal(4, 12, 1, 1, seed=7),
    "m": normal(96, 5, seed=8),
    "m6": normal(6, 5, seed=10),
    "slopes": np.abs(normal(6, 1, 1, seed=11)),
    "slope": np.float32([0.3]),
    "scale": normal(1, 6, 1, 1, seed=12),
    "shift": normal(1, 6, 1, 1, seed=13),
    "plane": normal(1, 1, 8, 8, seed=14),
    "halves": np.int64([2, 4]),
    "sizes": np.int64([0, 2, 3, 8, 8]),
    "back": np.int64([0, 6, 8, 8]),
    "start": np.int64([1]), "end": np.int64([5]), "axis": np.int64([1]),
    "order": np.int64([3, 1, 5, 0, 2, 4]),
    "twice": np.float32([1, 1, 2, 2]),
    "pads": np.int64([0, 0, 1, 1, 0, 0, 1, 1]),
    "zero": np.float32(0), "six": np.float32(6),
}  # fmt: skip
SAME = "pads=[1,1,1,1]"
FIRST = f"a = Conv<{SAME}>(x, w, b)"
END = "y = Conv(t, p)"

NETS = {
    "residual": f"{FIRST} r = Relu(a) c = Conv<{SAME}>(r, v) s = Add(c, r) u = Relu(s) "
    f"e = Conv<{SAME}>(u, v) t = Add(e, u) {END}",
    "one slope per channel": f"{FIRST} r = PRelu(a, slopes) c = Conv<{SAME}>(r, v) t = Add(c, r) {END}",
    "one slope": f"{FIRST} r = PRelu(a, slope) c = Conv<{SAME}>(r, v) t = Add(c, r) {END}",
    "leaky": f"{FIRST} r = LeakyRelu<alpha=0.1>(a) c = Conv<{SAME}>(r, v) t = Sub(c, r) {END}",
    "depthwise": f"{FIRST} r = Relu(a) t = Conv<{SAME}, group=6>(r, d) {END}",
    "grouped": f"{FIRST} r = Relu(a) t = Conv<{SAME}, group=3>(r, g) {END}",
    "transposed": f"{FIRST} r = Relu(a) t = ConvTranspose<strides=[2,2], group=2>(r, q) {END}",
    "pools": f"{FIRST} r = MaxPool<kernel_shape=[2,2]>(a) t = AveragePool<kernel_shape=[2,2]>(r) {END}",
    "resized": f'{FIRST} r = Resize<mode="nearest">(a, , twice) t = Relu(r) {END}',
    "padded": f"{FIRST} r = Pad(a, pads) t = Relu(r) {END}",
    "unlimited": f"{FIRST} t = Clip(a, zero) {END}",
    "multiplied": f"{FIRST} m1 = Add(a, a) t = Mul(m1, plane) {END}",
    "gate": f"{FIRST} r = Relu(a) h = GlobalAveragePool(r) k = Conv(h, p) l = Relu(k) n = Conv(l, p4k) "
    "o = Sigmoid(n) t = Mul(r, o) " + END,
    "concat": f"{FIRST} r = Relu(a) c = Conv<{SAME}>(r, v) s = Relu(c) t = Concat<axis=1>(s, r) "
    "y = Conv(t, p12)",
    "shuffled": f"{FIRST} r = Reshape(a, sizes) k = Transpose<perm=[0,2,1,3,4]>(r) "
    f"t = Reshape(k, back) {END}",
    "split": f"{FIRST} r, s = Split<axis=1>(a, halves) u = Conv<{SAME}>(s, v44) "
    f"t = Concat<axis=1>(u, r) {END}",
    "sliced": f"{FIRST} r = Slice(a, start, end, axis) y = Conv(r, p4)",
    "gathered": f"{FIRST} t = Gather<axis=1>(a, order) {END}",
    "flat": f"{FIRST} r = AveragePool<kernel_shape=[2,2], strides=[2,2]>(a) f = Flatten(r) y = Gemm(f, m)",
    "pooled": f"{FIRST} r = ReduceMean<axes=[2,3], keepdims=0>(a) y = MatMul(r, m6)",
}
MORE: dict[str, Array] = {"p4k": normal(6, 4, 1, 1, seed=18), "v44": normal(4, 4, 3, 3, seed=19)}
FREE = {
    "residual": {"a": 6, "r": 6, "c": 6, "s": 6, "u": 6, "e": 6, "t": 6},
    "concat": {"r": 6, "s": 6, "t": 12},
    "split": {"r": 2, "s": 4, "t": 6},
    "sliced": {"r": 4},
    "flat": {"f": 6},
    "gate": {"r": 6, "t": 6, "l": 4, "o": 0},
    "grouped": {"a": 6, "r": 6, "t": 6},
    "transposed": {"r": 6, "t": 6},
    "multiplied": {"t": 6},
}  # fmt: skip
SHARED = {"residual": 6, "concat": 12, "split": 10, "gate": 10, "grouped": 12, "one slope": 6}
"""Classes beside ``FIXED`` in the whole net."""


def prepared(body: str) -> ir.Model:
    constants = {name: value for name, value in {**CONSTANTS, **MORE}.items() if f" {name}" in body}
    outputs = "float[N,5] y" if "m6)" in body or "Gemm" in body else "float[N,4,H,W] y"
    model = onnx_model("float[N,3,8,8] x", outputs, body, constants)
    return prepare(ir.from_proto(model), SAMPLE).model


def free_channels(classes: ChannelClasses, name: str) -> int:
    found = np.unique(classes.tensors.get(name, FIXED))
    return int(np.sum(found != FIXED))


@pytest.mark.parametrize("net", NETS)
def test_factors_on_classes_leave_every_bit(net: str) -> None:
    model = prepared(NETS[net])
    expected = run(model, SAMPLE)
    classes = channel_classes(model)
    factors = np.exp2(np.random.default_rng(3).integers(-4, 5, classes.count)).astype(np.float64)
    factors[FIXED] = 1.0
    assert np.any(factors != 1.0)
    changed = 0
    for layer in classes.layers:
        changed += bool(np.any(factors[layer.written] != 1.0))
        layer.scaled(factors).write(model.graph)
    assert changed
    for left, right in zip(expected, run(model, SAMPLE), strict=True):
        assert np.array_equal(left, right)


@pytest.mark.parametrize("net", FREE)
def test_which_channels_are_free(net: str) -> None:
    classes = channel_classes(prepared(NETS[net]))
    assert {name: free_channels(classes, name) for name in FREE[net]} == FREE[net]


@pytest.mark.parametrize("net", SHARED)
def test_what_is_added_is_one_class(net: str) -> None:
    assert channel_classes(prepared(NETS[net])).count == SHARED[net] + 1


@pytest.mark.parametrize(
    "body",
    [
        f"{FIRST} t = Sigmoid(a) {END}",
        f"{FIRST} s = Sigmoid(a) t = Mul(a, s) {END}",
        f"{FIRST} t = HardSwish(a) {END}",
        f"{FIRST} t = Clip(a, zero, six) {END}",
        f"{FIRST} r = Relu(a) t = Add(r, shift) {END}",
        f"{FIRST} k = Conv<{SAME}>(x, w) s = Tanh(k) t = Add(a, s) {END}",
        f"{FIRST} r = Relu(a) t = Softmax<axis=1>(r) {END}",
        f"{FIRST} h = GlobalAveragePool(a) t = PRelu(a, h) {END}",
        f"{FIRST} r = DepthToSpace<blocksize=1>(a) t = Relu(r) {END}",
    ],
)
def test_what_lets_no_factors_through(body: str) -> None:
    classes = channel_classes(prepared(body))
    assert all(not np.any(found) for name, found in classes.tensors.items() if name in ("a", "r", "s", "t"))


def test_outputs_have_no_factors() -> None:
    constants = {name: CONSTANTS[name] for name in ("w", "b", "p")}
    model = onnx_model(
        "float[N,3,8,8] x",
        "float[N,6,8,8] r, float[N,4,8,8] y",
        f"{FIRST} r = Relu(a) y = Conv(r, p)",
        constants,
    )
    classes = channel_classes(prepare(ir.from_proto(model), SAMPLE).model)
    assert classes.count == 1 and all(not np.any(found) for found in classes.tensors.values())


def test_channels_of_a_tensor_whose_other_axes_differ_are_not_told() -> None:
    classes = channel_classes(prepared(NETS["shuffled"]))
    assert classes.along_channels("a", 6) is not None
    assert classes.along_channels("r", 2) is None and classes.along_channels("nothing", 2) is None
