"""Softmax spelled out becomes one node, and what looks like it does not."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from calib8.passes.fuse_softmax import fuse_softmax
from small_models import Array, graph, run

LAST = "ReduceSum(e, last)"
LOWERED = "m = ReduceMax<axes=[-1]>(x) d = Sub(x, m) e = Exp(d)"
CONSTANTS: dict[str, Array] = {
    "last": np.array([-1]), "middle": np.array([1]), "bottom": np.float32(-np.inf),
    "sizes": np.array([-1, 6, 1]),
    "zero": np.float32(0),
}  # fmt: skip


def parts(body: str) -> Counter[str]:
    """Ops after the pass; the outputs are those of before."""
    used = {name: array for name, array in CONSTANTS.items() if name in body}
    model = graph("float[N,6,8] x", "float[A,B,C] y", body, used)
    x = np.random.default_rng(0).normal(0, 3, (2, 6, 8)).astype(np.float32)
    before = run(model, {"x": x})
    made = fuse_softmax(model)
    np.testing.assert_allclose(run(model, {"x": x})[0], before[0], rtol=1e-4, atol=1e-6)
    ops = Counter(node.op_type for node in model.graph)
    assert ops["Softmax"] == made + ("Flatten" in ops)
    return ops


@pytest.mark.parametrize(
    "body",
    [
        f"{LOWERED} s = {LAST} y = Div(e, s)",
        f"{LOWERED} s = {LAST} i = Reciprocal(s) y = Mul(i, e)",
        f"e = Exp(x) s = {LAST} y = Div(e, s)",
        f"{LOWERED} s = {LAST} y = Div(e, s)".replace("[-1]", "[1]").replace("last", "middle"),
        "a = ReduceMax<axes=[-1], keepdims=0>(x) b = Max(bottom, a) m = Reshape(b, sizes) d = Sub(x, m) "
        "e = Exp(d) t = ReduceSum<keepdims=0>(e, last) s = Reshape(t, sizes) y = Div(e, s)",
    ],
)
def test_it_becomes_one_node(body: str) -> None:
    assert parts(body) == {"Softmax": 1}


def test_rows_that_were_flattened_for_it_need_not_be() -> None:
    body = "f = Flatten<axis={}>(x) s = Softmax<axis={}>(f) z = Shape(x) y = Reshape(s, z)"
    assert parts(body.format(2, -1)) == parts(body.format(-1, 1)) == {"Softmax": 1}
    assert parts(body.format(1, -1))["Flatten"] == parts(body.format(2, 0))["Flatten"] == 1


def test_what_is_lowered_by_something_else_stays_in_front_of_it() -> None:
    body = f"{LOWERED} s = {LAST} y = Div(e, s)".replace("[-1]", "[1]")
    assert parts(body) == {"ReduceMax": 1, "Sub": 1, "Softmax": 1}


@pytest.mark.parametrize(
    "body",
    [
        f"{LOWERED} s = ReduceSum(d, last) y = Div(e, s)",
        f"{LOWERED} s = {LAST} z = Div(e, s) y = Add(z, e)",
        "e = Tanh(x) s = ReduceSum(e, last) y = Div(e, s)",
        f"{LOWERED} s = {LAST} y = Div(s, e)",
    ],
)
def test_what_only_looks_like_it_stays(body: str) -> None:
    assert "Softmax" not in parts(body)
