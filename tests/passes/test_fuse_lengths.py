"""Lengths of pairs spelled out become ReduceL2, and what looks like them does not."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from calib8.passes.fuse_lengths import fuse_lengths
from calib8.passes.prepare import prepare
from small_models import Array, graph, run

INPUT = "float[N,6,4] x"
ANY = "float[A,B,C] y"
INTS = {
    "zero": np.array([0]), "three": np.array([3]), "six": np.array([6]), "far": np.array([2**62]),
    "less": np.array([-3]), "one": np.array([1]), "last": np.array([-2]), "by": np.array([2]),
    "two": np.float32(2), "half": np.float32(0.5),
}  # fmt: skip
HALVES = "a = Slice(x, zero, three, one) b = Slice(x, three, far, one)"
SQUARES = "p = Pow(a, two) q = Pow(b, two)"
ROOT = "s = Add(p, q) y = Sqrt(s)"


def parts(body: str, opset: int = 17) -> Counter[str]:
    """Ops after the pass; the outputs are those of before."""
    constants: dict[str, Array] = {name: array for name, array in INTS.items() if name in body}
    model = graph(INPUT, ANY, body, constants, opset=opset)
    x = np.random.default_rng(0).normal(0, 2, (2, 6, 4)).astype(np.float32)
    before = run(model, {"x": x})
    made = fuse_lengths(model)
    np.testing.assert_allclose(run(model, {"x": x})[0], before[0], rtol=1e-5, atol=1e-6)
    ops = Counter(node.op_type for node in model.graph)
    assert ops["ReduceL2"] == made
    return ops


FUSED: dict[str, str] = {
    "halves": f"{HALVES} {SQUARES} {ROOT}",
    "the other way round": f"{HALVES} {SQUARES} s = Add(q, p) y = Sqrt(s)",
    "products": f"{HALVES} p = Mul(a, a) q = Mul(b, b) {ROOT}",
    "from the end": f"a = Slice(x, zero, less, last) b = Slice(x, less, six, last) {SQUARES} {ROOT}",
}


@pytest.mark.parametrize("opset", [17, 18, 21])
@pytest.mark.parametrize("name", FUSED)
def test_halves_of_a_tensor_stay_where_they_are(name: str, opset: int) -> None:
    assert parts(FUSED[name], opset) == {"Reshape": 1, "ReduceL2": 1}


APART: dict[str, str] = {
    "other tensors": f"a = Relu(x) b = Neg(x) {SQUARES} {ROOT}",
    "a gap": f"a = Slice(x, zero, one, one) b = Slice(x, three, four, one) {SQUARES} {ROOT}",
    "steps": f"a = Slice(x, zero, three, one, one) b = Slice(x, one, six, one, by) {SQUARES} {ROOT}",
}


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("name", APART)
def test_other_pairs_are_joined(name: str, opset: int) -> None:
    INTS.setdefault("four", np.array([4]))
    found = parts(APART[name], opset)
    assert (found["Concat"], found["Unsqueeze"], found["ReduceL2"], found["Sqrt"]) == (1, 2, 1, 0)


LEFT: dict[str, str] = {
    "another power": f"{HALVES} p = Pow(a, half) q = Pow(b, two) {ROOT}",
    "a product of two": f"{HALVES} p = Mul(a, b) q = Pow(b, two) {ROOT}",
    "one square": f"{HALVES} p = Pow(a, two) s = Add(p, b) y = Sqrt(s)",
    "the same twice": "p = Pow(x, two) q = Pow(x, two) s = Add(p, q) y = Sqrt(s)",
    "no root": f"{HALVES} {SQUARES} y = Add(p, q)",
    "squares that are read": f"{HALVES} {SQUARES} s = Add(p, q) r = Sqrt(s) y = Add(r, p)",
    "a sum that is read": f"{HALVES} {SQUARES} s = Add(p, q) r = Sqrt(s) y = Add(r, s)",
    "other shapes": f"a = Slice(x, zero, one, one) b = Slice(x, three, six, one) {SQUARES} {ROOT}",
}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", LEFT)
def test_other_arithmetic_is_left_alone(name: str) -> None:
    assert parts(LEFT[name])["ReduceL2"] == 0


def test_prepare_makes_them_where_sizes_are_free() -> None:
    body = FUSED["halves"].replace("Slice(x", "Slice(h").replace("a =", "h = Neg(x) a =", 1)
    constants: dict[str, Array] = {name: array for name, array in INTS.items() if name in body}
    model = graph("float[N,6,T] x", ANY, body, constants)
    prepared = prepare(model, {"x": np.ones((2, 6, 3), np.float32)})
    assert prepared.rewrites["fuse_lengths"] == 1
    x = np.random.default_rng(1).normal(0, 2, (3, 6, 7)).astype(np.float32)
    np.testing.assert_allclose(run(prepared.model, {"x": x})[0], run(model, {"x": x})[0], rtol=1e-5)
