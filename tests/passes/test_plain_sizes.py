"""Computed sizes become constants where they are the same in every run."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest

from calib8.model.graph import constant
from calib8.passes.plain_sizes import AxisSize, known_numbers, plain_sizes
from small_models import Array, graph, run

FREE = "s = Shape(x) b = Slice(s, zero, one)"
CONSTANTS: dict[str, Array] = {
    "zero": np.array([0]), "one": np.array([1]), "tail": np.array([4, 2]), "minus": np.array([-1]),
    "wide": np.array([3, 4, 2]), "four": np.array([4]),
}  # fmt: skip


def changed(body: str) -> tuple[ir.Model, int]:
    """The model after the pass, which gives what it gave, and how many nodes changed."""
    used = {name: array for name, array in CONSTANTS.items() if name in body}
    model = graph("float[N,8] x", "float[A,B,C] y", body, used)
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    before = run(model, {"x": x})
    made = plain_sizes(model)
    np.testing.assert_array_equal(run(model, {"x": x})[0], before[0])
    return model, made


def sizes_of(model: ir.Model) -> list[int]:
    [node] = [node for node in model.graph if node.op_type == "Reshape"]
    array = constant(node.inputs[1])
    assert array is not None
    return [int(size) for size in array]


@pytest.mark.parametrize(
    "body",
    [
        f"{FREE} t = Concat<axis=0>(b, tail) y = Reshape(x, t)",
        f"{FREE} c = Cast<to=6>(b) u = Cast<to=7>(c) t = Concat<axis=0>(u, tail) y = Reshape(x, t)",
        "s = Shape(x) b = Gather(s, zero) t = Concat<axis=0>(b, tail) y = Reshape(x, t)",
        "s = Shape<start=0, end=1>(x) t = Concat<axis=0>(s, tail) y = Reshape(x, t)",
    ],
)
def test_a_free_size_follows_from_the_others(body: str) -> None:
    model, made = changed(body)
    assert made == 1
    assert sizes_of(model) == [-1, 4, 2]
    assert Counter(node.op_type for node in model.graph) == {"Reshape": 1}
    shape = model.graph.outputs[0].shape
    assert shape is not None
    assert shape[1:] == (4, 2)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (f"{FREE} t = Concat<axis=0>(b, minus) y = Reshape(x, t)", [0, -1]),
        (f"{FREE} t = Concat<axis=0>(b, four, minus) y = Reshape(x, t)", [0, 4, -1]),
        (f"{FREE} t = Concat<axis=0>(s, minus) y = Reshape(x, t)", [0, 8, -1]),
        (f"{FREE} t = Concat<axis=0>(b, b, tail) y = Reshape(x, t)", [0, -1, 4, 2]),
    ],
)
def test_a_free_size_that_the_input_has_at_that_place(body: str, wanted: list[int]) -> None:
    """Beside another one that is left to the number of values."""
    model = graph("float[N,8] x", "float y", body, {n: a for n, a in CONSTANTS.items() if n in body})
    x = np.arange(8, dtype=np.float32).reshape(1, 8)
    before = run(model, {"x": x})
    assert plain_sizes(model) == 1
    assert sizes_of(model) == wanted
    np.testing.assert_array_equal(run(model, {"x": x})[0], before[0])


def test_an_expand_to_the_sizes_of_the_reshape_goes() -> None:
    model, made = changed(f"{FREE} t = Concat<axis=0>(b, tail) r = Reshape(x, t) y = Expand(r, t)")
    assert made == 2
    assert "Expand" not in {node.op_type for node in model.graph}


@pytest.mark.parametrize(
    "body",
    [
        f"{FREE} t = Concat<axis=0>(b, minus, b) y = Reshape(x, t)",
        f"{FREE} t = Concat<axis=0>(b, b, b) y = Reshape<allowzero=1>(x, t)",
        "s = Shape(x) b = Slice(s, zero, one) z = Abs(x) t = Concat<axis=0>(b, minus) y = Reshape(z, t)",
        f"{FREE} t = Concat<axis=0>(b, tail) r = Reshape(x, wide) y = Expand(r, t)",
        "y = Reshape(x, wide)",
    ],
)
def test_what_is_not_known_or_is_constant_stays(body: str) -> None:
    before = {name: array for name, array in CONSTANTS.items() if name in body}
    model = graph("float[N,8] x", "float[A,B,C] y", body, before)
    assert plain_sizes(model) == 0


def test_numbers_that_are_known() -> None:
    body = "s = Shape(x) r = Slice(s, one, zero_end, zero, one) t = Concat<axis=0>(r, tail) y = Reshape(x, t)"
    constants = {
        "one": np.array([1]),
        "zero_end": np.array([9]),
        "zero": np.array([0]),
        "tail": np.array([1]),
    }
    model = graph("float[N,8] x", "float[A,B] y", body, constants)
    found = {node.outputs[0].name: known_numbers(node.outputs[0]) for node in model.graph}
    assert found["s"] == (AxisSize(model.graph.inputs[0], 0), 8)
    assert found["r"] == (8,)
    assert found["t"] == (8, 1)
