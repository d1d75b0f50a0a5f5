"""A number behind the sum of two layers goes into both; what cannot stays whole."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest

from calib8.passes.fold_sums import fold_behind_sum
from small_models import Array, graph, normal, ops, relative_difference, run

X = {"x": normal(2, 5, seed=20)}
CONSTANTS: dict[str, Array] = {
    "w": normal(5, 4),
    "v": normal(5, 4, seed=1),
    "b": normal(4, seed=2),
    "half": np.float32(0.5),
    "two": np.array([2.0], np.float32),
    "k": normal(4, seed=3),
}
HEADS = "p = Gemm(x, w, b) q = MatMul(x, v) s = Add(p, q)"


def model_of(body: str) -> ir.Model:
    used = {name: array for name, array in CONSTANTS.items() if f", {name}" in body or f"({name}," in body}
    return graph("float[2,5] x", "float[A,B] y", body, used)


def folded(body: str, count: int) -> Counter[str]:
    model = model_of(body)
    expected = run(model, X)
    assert fold_behind_sum(model) == count
    assert [value.name for value in model.graph.outputs] == ["y"]
    assert relative_difference(expected, run(model, X)) < 1e-5
    return ops(model)


@pytest.mark.parametrize("last", ["Mul(s, half)", "Mul(half, s)", "Div(s, two)"])
def test_the_mean_of_two_heads_has_no_product(last: str) -> None:
    assert folded(f"{HEADS} y = {last}", 1) == Counter(["Gemm", "MatMul", "Add"])


@pytest.mark.parametrize(
    "body",
    [
        f"{HEADS} m = Mul(s, half) y = Add(m, s)",
        f"{HEADS} m = Mul(s, half) y = Add(m, q)",
        f"{HEADS} y = Mul(s, k)",
        f"{HEADS} y = Add(s, half)",
        "p = Gemm(x, w, b) s = Add(p, p) y = Mul(s, half)",
        "p = Gemm(x, w, b) r = Relu(p) q = MatMul(x, v) s = Add(r, q) y = Mul(s, half)",
    ],
    ids=["sum read", "layer read", "factor per channel", "addend", "one layer twice", "no layer"],
)
def test_what_stays(body: str) -> None:
    folded(body, 0)
