"""LayerNormalization spelled out becomes one node, and what looks like it does not."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from calib8.passes.fuse_layer_norm import fuse_layer_norm
from calib8.passes.prepare import prepare
from small_models import Array, graph, normal, run

ROWS = "float[N,6,4,8] x"
ANY = "float[A,B,C,D] y"
TWO, EPSILON = np.float32(2), np.float32(1e-5)
CENTRED = "m = ReduceMean<axes=[-1]>(x) d = Sub(x, m)"
SPREAD = "q = Pow(d, two) v = ReduceMean<axes=[-1]>(q) e = Add(v, eps) r = Sqrt(e) n = Div(d, r)"
AFFINE = "s = Mul(n, g) y = Add(s, h)"
PARAMETERS: dict[str, Array] = {"g": normal(8, seed=3), "h": normal(8, seed=4)}


def parts(body: str, constants: dict[str, Array] | None = None) -> Counter[str]:
    """Ops after the pass; the outputs are those of before."""
    used = {"two": TWO, "eps": EPSILON, **(constants or {})}
    model = graph(ROWS, ANY, body, {name: array for name, array in used.items() if name in body})
    x = np.random.default_rng(0).normal(1, 2, (2, 6, 4, 8)).astype(np.float32)
    before = run(model, {"x": x})
    made = fuse_layer_norm(model)
    np.testing.assert_allclose(run(model, {"x": x})[0], before[0], rtol=1e-4, atol=1e-5)
    ops = Counter(node.op_type for node in model.graph)
    assert ops["LayerNormalization"] == made
    return ops


FUSED: dict[str, tuple[str, dict[str, Array]]] = {
    "whole": (f"{CENTRED} {SPREAD} {AFFINE}", PARAMETERS),
    "Mul first": (f"{CENTRED} {SPREAD} s = Mul(g, n) y = Add(h, s)", PARAMETERS),
    "two centred": (
        f"{CENTRED} c = Sub(x, m) {SPREAD.replace('Pow(d', 'Pow(c')} {AFFINE}", PARAMETERS
    ),
    "a product": (f"{CENTRED} {SPREAD.replace('Pow(d, two)', 'Mul(d, d)')} {AFFINE}", PARAMETERS),
    "no parameters": (f"{CENTRED} {SPREAD.replace('n = ', 'y = ')}", {}),
    "no bias": (f"{CENTRED} {SPREAD} y = Mul(n, g)", {"g": PARAMETERS["g"]}),
    "no scale": (f"{CENTRED} {SPREAD} y = Add(n, h)", {"h": PARAMETERS["h"]}),
    "several axes": (
        f"{CENTRED} {SPREAD} {AFFINE}".replace("[-1]", "[3,1,2]"),
        {"g": normal(6, 4, 8, seed=3), "h": normal(6, 1, 1, seed=4)},
    ),
    "one number": (f"{CENTRED} {SPREAD} {AFFINE}", {"g": np.float32([2]), "h": normal(1, 1, 8)}),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_it_becomes_one_node(name: str) -> None:
    assert parts(*FUSED[name]) == {"LayerNormalization": 1}


ROOT = "q = Pow(d, two) v = ReduceMean<axes=[-1]>(q) e = Add(v, eps) r = Sqrt(e)"
INVERSE = f"{ROOT} i = Reciprocal(r)"
OF_SQUARES = """m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = Mul(x, x) a = ReduceMean<axes=[-1]>(q)
    b = Mul(m, m) w = Sub(a, b) v = Max(zero, w) e = Add(v, eps) r = Sqrt(e)"""
ONE, ZERO, HALF = np.float32(1), np.float32(0), np.float32(-0.5)

OTHER_FORMS: dict[str, tuple[str, dict[str, Array]]] = {
    "an inverse": (f"{CENTRED} {INVERSE} y = Mul(i, d)", {}),
    "one over the root": (f"{CENTRED} {ROOT} i = Div(one, r) y = Mul(d, i)", {"one": ONE}),
    "a power": (f"{CENTRED} {ROOT.replace('r = Sqrt(e)', 'i = Pow(e, half)')} y = Mul(d, i)", {"half": HALF}),
    "a factor with the inverse": (f"{CENTRED} {INVERSE} f = Mul(i, g) s = Mul(d, f) y = Add(s, h)",
                                  PARAMETERS),
    "difference of squares": (f"{OF_SQUARES} y = Div(d, r)", {"zero": ZERO}),
    "a Relu of it": (f"{OF_SQUARES.replace('Max(zero, w)', 'Relu(w)')} y = Div(d, r)", {}),
    "a Clip of it": (f"{OF_SQUARES.replace('Max(zero, w)', 'Clip(w, zero)')} y = Div(d, r)", {"zero": ZERO}),
    "sums over a count": (
        f"{CENTRED} {ROOT} y = Div(d, r)".replace("v = ReduceMean<axes=[-1]>(q)",
        "t = ReduceSum(q, last) v = Mul(t, eighth)"), {"last": np.array([-1]), "eighth": np.float32(1 / 8)},
    ),
    "x and the mean by themselves": (
        f"{CENTRED} {INVERSE} f = Mul(i, g) p = Mul(x, f) k = Mul(m, f) c = Sub(h, k) y = Add(p, c)",
        PARAMETERS,
    ),
    "without parameters": (f"{CENTRED} {INVERSE} p = Mul(x, i) k = Mul(m, i) y = Sub(p, k)", {}),
}  # fmt: skip
"""As TensorFlow, Keras and JAX compute it."""


@pytest.mark.parametrize("name", OTHER_FORMS)
def test_other_forms_become_one_node(name: str) -> None:
    assert parts(*OTHER_FORMS[name]) == {"LayerNormalization": 1}


def test_channels_that_are_not_the_last_axis_are_moved_there_and_back() -> None:
    body = f"{CENTRED} {SPREAD} {AFFINE}".replace("[-1]", "[1]")
    ops = parts(body, {"g": normal(6, 1, 1, seed=3), "h": normal(1, 6, 1, 1, seed=4)})
    assert ops == {"Transpose": 2, "LayerNormalization": 1}


def test_axes_that_a_reduction_drops_and_a_reshape_gives_back() -> None:
    body = """a = ReduceMean<axes=[-1], keepdims=0>(x) m = Reshape(a, sizes) d = Sub(x, m) q = Pow(d, two)
        b = ReduceMean<axes=[-1], keepdims=0>(q) v = Reshape(b, sizes) e = Add(v, eps) r = Sqrt(e)
        y = Div(d, r)"""
    assert parts(body, {"sizes": np.array([-1, 6, 4, 1])}) == {"LayerNormalization": 1}


LEFT: dict[str, tuple[str, dict[str, Array]]] = {
    "rows over images": (f"{CENTRED} {SPREAD.replace('n = ', 'y = ')}".replace("[-1]", "[0]"), {}),
    "another count": (
        f"{CENTRED} {ROOT} y = Div(d, r)".replace("v = ReduceMean<axes=[-1]>(q)",
        "t = ReduceSum(q, last) v = Mul(t, ninth)"), {"last": np.array([-1]), "ninth": np.float32(1 / 9)},
    ),
    "a limit above 0": (f"{OF_SQUARES} y = Div(d, r)", {"zero": np.float32(0.5)}),
    "a root of another inverse": (
        f"{CENTRED} {INVERSE} p = Mul(x, i) k = Mul(m, r) y = Sub(p, k)", {}),
    "the mean of another tensor": (
        f"z = Mul(x, x) o = ReduceMean<axes=[-1]>(z) {CENTRED} {INVERSE} p = Mul(x, i) k = Mul(o, i) "
        "y = Sub(p, k)", {}),
    "different axes": (f"{CENTRED} {SPREAD.replace('n = ', 'y = ').replace('[-1]', '[2,3]')}", {}),
    "another power": (f"{CENTRED} {SPREAD.replace('n = ', 'y = ').replace('two', 'four')}",
                      {"four": np.float32(4)}),
    "what is read outside": (f"{CENTRED} {SPREAD} y = Add(n, r)", {}),
    "a mean that is read outside": (f"{CENTRED} {SPREAD} y = Add(n, m)", {}),
    "an epsilon below 0": (f"{CENTRED} {SPREAD.replace('n = ', 'y = ').replace('eps', 'minus')}",
                           {"minus": np.float32(-1e-5)}),
    "another divisor": (f"{CENTRED} {SPREAD.replace('Div(d, r)', 'Div(x, r)').replace('n = ', 'y = ')}", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_what_only_looks_like_it_stays(name: str) -> None:
    assert "LayerNormalization" not in parts(*LEFT[name])


def test_a_parameter_per_image_stays_behind_it() -> None:
    ops = parts(f"{CENTRED} {SPREAD} {AFFINE}", {"g": normal(6, 1, 1), "h": normal(8)})
    assert ops == {"LayerNormalization": 1, "Mul": 1, "Add": 1}


def test_preparing_fuses_it_before_a_mean_becomes_a_pool() -> None:
    body = f"{CENTRED} {SPREAD} {AFFINE} z = MatMul(y, w)"
    constants = {"two": TWO, "eps": EPSILON, **PARAMETERS, "w": normal(8, 5)}
    model = graph("float[2,6,8] x", "float[2,6,5] z", body, constants)
    done = prepare(model, {"x": np.random.default_rng(0).normal(1, 2, (2, 6, 8)).astype(np.float32)})
    assert [node.op_type for node in done.model.graph] == ["LayerNormalization", "MatMul"]
    assert done.rewrites["fuse_layer_norm"] == 1
