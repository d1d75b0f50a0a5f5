"""Nodes that give what they are given vanish; those that might not stay."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.passes.no_ops import remove_no_ops
from calib8.passes.simplify import fold_constants
from small_models import Array, graph, normal, ops, relative_difference, run

LAST = np.iinfo(np.int64).max
CONSTANTS: dict[str, Array] = {
    "zero": np.array([0]),
    "one": np.array([1]),
    "two": np.array([2]),
    "three": np.array([3]),
    "four": np.array([4]),
    "first": np.array([-4]),
    "last": np.array([LAST]),
    "both": np.array([0, 0]),
    "ends": np.array([4, LAST]),
    "sizes": np.array([-1, 4, 6]),
    "turned": np.array([-1, 6, 4]),
    "nothing": np.zeros(6, np.int64),
    "ones": np.ones(3, np.int64),
    "narrow": np.array([4, 1]),
    "wide": np.array([2, 4, 6]),
}


@pytest.mark.parametrize(
    "body",
    [
        "s = Slice(x, zero, four, one, one)",
        "s = Slice(x, first, last, one)",
        "s = Slice(x, zero, last, zero)",
        "s = Slice(x, both, ends, axes)",
        "s = Reshape(x, sizes)",
        "s = Flatten<axis=1>(x)",
        "s = Transpose<perm=[0,1,2]>(x)",
        "s = Pad(x, nothing)",
        "s = Tile(x, ones)",
        "s = Expand(x, narrow)",
        "s = Split<axis=1>(x)",
    ],
)
def test_what_gives_everything_vanishes(body: str) -> None:
    size = "float[N,24]" if "Flatten" in body else "float[N,4,6]"
    x = normal(3, 24) if "Flatten" in body else normal(3, 4, 6)
    constants = {**used(body), **({"axes": np.array([1, 2])} if "axes)" in body else {})}
    model = graph(f"{size} x", f"{size} y", f"{body} y = Relu(s)", constants)
    fold_constants(model)
    expected = run(model, {"x": x})
    assert remove_no_ops(model) == 1
    assert ops(model) == {"Relu": 1}
    assert relative_difference(expected, run(model, {"x": x})) == 0.0


@pytest.mark.parametrize(
    "body",
    [
        "s = Slice(x, zero, three, one, one)",
        "s = Slice(x, one, four, one)",
        "s = Slice(x, zero, four, one, two)",
        "s = Slice(x, zero, four, zero)",
        "s = Slice(x, zero, four, i)",
        "s = Reshape(x, turned)",
        "s = Expand(x, wide)",
        "s = Transpose<perm=[0,2,1]>(x)",
        "s = Transpose(x)",
        "s, t = Split<axis=1>(x)",
        "s = Concat<axis=1>(x, x)",
    ],
)
def test_what_may_give_something_else_stays(body: str) -> None:
    model = graph("float[N,4,6] x, int64[1] i", "float[A,B,C] y", f"{body} y = Relu(s)", used(body))
    fold_constants(model)
    nodes = ops(model)
    assert remove_no_ops(model) == 0
    assert ops(model) == nodes


def test_outputs_keep_their_names() -> None:
    body = "r = Relu(x) s = Slice(r, zero, four, one) y = Pad(s, nothing)"
    model = graph("float[N,4,6] x", "float[N,4,6] r, float[N,4,6] s, float[N,4,6] y", body, used(body))
    x = normal(2, 4, 6)
    expected = run(model, {"x": x})
    remove_no_ops(model)
    assert [value.name for value in model.graph.outputs] == ["r", "s", "y"]
    assert ops(model)["Relu"] == 1 and not {"Slice", "Pad"} & set(ops(model))
    assert relative_difference(expected, run(model, {"x": x})) == 0.0


def used(body: str) -> dict[str, Array]:
    words = body.replace(",", " ").replace("(", " ").replace(")", " ").split()
    return {name: array for name, array in CONSTANTS.items() if name in words}
