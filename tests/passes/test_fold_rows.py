"""Folding behind a MatMul: a factor behind its bias, a BatchNormalization behind a Reshape, and refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir
import pytest

from calib8.passes.fold_affine import fold_affine
from calib8.passes.fold_rows import fold_behind_bias, fold_behind_reshape
from calib8.passes.prepare import prepare
from small_models import Array, graph, normal, ops, relative_difference, run

TOLERANCE = 1e-5
SCALED = Counter(["MatMul", "Add"])
ROWS = {"x": normal(2, 3, 5, seed=20)}
LINEAR: dict[str, Array] = {"w": normal(5, 4), "b": normal(4, seed=1), "k": normal(4, seed=2)}
NORM: dict[str, Array] = {
    "g": normal(4, seed=3),
    "be": normal(4, seed=4),
    "m": normal(4, seed=5),
    "v": normal(4, seed=6) ** 2 + np.float32(0.1),
}


def model_of(body: str, **constants: Array) -> ir.Model:
    known = {**LINEAR, **NORM, "rows": np.array([-1, 4]), "back": np.array([2, 3, 4]), **constants}
    used = {name: array for name, array in known.items() if f", {name}" in body or f"({name}," in body}
    return graph("float[2,3,5] x", "float[A,B,C] y", body, used)


def folded(
    fold: Callable[[ir.Model], int], model: ir.Model, count: int, feeds: Mapping[str, Array] = ROWS
) -> Counter[str]:
    """The ops behind a pass that was proved to compute the same under the same names."""
    expected = run(model, feeds)
    assert fold(model) == count
    assert [value.name for value in model.graph.outputs] == ["y"]
    assert relative_difference(expected, run(model, feeds)) < TOLERANCE
    return ops(model)


@pytest.mark.parametrize("bias", ["Add(p, b)", "Add(b, p)"])
@pytest.mark.parametrize(
    "last", ["Mul(s, k)", "Mul(k, s)", "Div(s, k)", "Add(s, k)", "Sub(s, k)", "Sub(k, s)", "Mul(s, half)"]
)
def test_arithmetic_behind_a_bias_goes_into_the_layer(bias: str, last: str) -> None:
    model = model_of(f"p = MatMul(x, w) s = {bias} y = {last}", half=np.float32(0.5))
    assert folded(fold_behind_bias, model, 1) == SCALED


def test_what_follows_each_other_is_folded_one_by_one() -> None:
    model = model_of("p = MatMul(x, w) s = Add(p, b) h = Mul(s, k) a = Add(h, b) y = Mul(a, k)")
    assert folded(fold_behind_bias, model, 3) == SCALED


def test_a_bias_of_one_number_becomes_one_of_every_channel() -> None:
    model = model_of("p = MatMul(x, w) s = Add(p, one) y = Mul(s, k)", one=np.float32(1.25))
    folded(fold_behind_bias, model, 1)
    (add,) = (node for node in model.graph if node.op_type == "Add")
    shapes = [value.const_value.shape for value in add.inputs if value is not None and value.const_value]
    assert [tuple(shape) for shape in shapes] == [(4,)]


@pytest.mark.parametrize(
    ("body", "constants"),
    [
        ("p = MatMul(x, w) s = Add(p, b) h = Mul(s, k) y = Add(h, s)", {}),
        ("p = MatMul(x, w) s = Add(p, b) h = Mul(s, k) y = Add(h, p)", {}),
        ("p = MatMul(x, w) s = Add(p, b) y = Mul(s, c)", {"c": normal(3, 1)}),
        ("p = MatMul(x, w) s = Add(p, c) y = Mul(s, k)", {"c": normal(3, 4)}),
        ("p = MatMul(x, w) s = Add(p, p) y = Mul(s, k)", {}),
        ("t = Transpose<perm=[0,2,1]>(x) p = MatMul(x, t) s = Add(p, c) y = Mul(s, c)", {"c": normal(3)}),
    ],
    ids=["sum read", "product read", "along rows", "bias along rows", "no bias", "computed weight"],
)
def test_what_stays(body: str, constants: dict[str, Array]) -> None:
    folded(fold_behind_bias, model_of(body, **constants), 0)


@pytest.mark.parametrize("flat", ["Reshape(p, rows)", "Flatten<axis=2>(p)", "Flatten<axis=-1>(p)"])
def test_a_normalization_of_rows_goes_through_the_reshape(flat: str) -> None:
    norm = "n = BatchNormalization<epsilon=0.001>(f, g, be, m, v)"
    model = model_of(f"p = MatMul(x, w) f = {flat} {norm} y = Reshape(n, back)")
    found = folded(fold_behind_reshape, model, 1)
    assert found == Counter(["MatMul", "Add", flat.split("<")[0].split("(")[0], "Reshape"])


@pytest.mark.parametrize(
    "body",
    [
        "p = MatMul(x, w) f = Reshape(p, rows) n = BatchNormalization(f, g, be, m, v) "
        "r = Reshape(f, back) s = Reshape(n, back) y = Add(r, s)",
        "p = MatMul(x, w) t = Transpose<perm=[0,2,1]>(p) f = Reshape(t, rows) "
        "n = BatchNormalization(f, g, be, m, v) y = Reshape(n, back)",
        "p = MatMul(x, w) f = Flatten(p) n = BatchNormalization(f, g, be, m, v) y = Reshape(n, back)",
    ],
    ids=["rows read", "no layer", "other rows"],
)
def test_normalizations_that_stay(body: str) -> None:
    wide = {name: np.tile(array, 3) for name, array in NORM.items()} if "f = Flatten(p)" in body else {}
    folded(fold_behind_reshape, model_of(body, **wide), 0)


def test_a_normalization_of_other_channels_than_those_of_a_layer_stays() -> None:
    """Of [N, C, W] a BatchNormalization has parameters for C, a MatMul for W: here there are as many."""
    body = "p = MatMul(x, w) y = BatchNormalization(p, g, be, m, v)"
    model = graph("float[2,4,5] x", "float[A,B,C] y", body, {"w": LINEAR["w"], **NORM})
    assert folded(fold_affine, model, 0, {"x": normal(2, 4, 5)}) == Counter(["MatMul", "BatchNormalization"])


def test_a_layer_scale_is_gone_once_a_model_is_prepared() -> None:
    model = model_of("p = MatMul(x, w) s = Add(p, b) y = Mul(k, s)")
    prepared = prepare(model, ROWS)
    assert ops(prepared.model) == SCALED and prepared.rewrites["fold_behind_bias"] == 1
