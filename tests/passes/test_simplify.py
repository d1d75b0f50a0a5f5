"""What vanishes before quantization, what must stay, and that the function stays the same."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.passes.simplify import fold_constants, fold_pads, fuse_hard_swish, remove_identities
from small_models import Array, graph, normal, ops, relative_difference, run

ROWS = normal(5, 4, seed=1) * np.float32(4)
IMAGE = normal(2, 3, 8, 8, seed=2)
NUMBERS: dict[str, Array] = {
    "zero": np.float32(0),
    "half": np.float32(0.5),
    "one": np.float32(1),
    "two": np.float32(2),
    "three": np.float32(3),
    "six": np.float32(6),
    "minus_one": np.float32(-1),
    "no": np.bool_(False),
}


def numbers(body: str) -> dict[str, Array]:
    words = body.replace(",", " ").replace("(", " ").replace(")", " ").split()
    return {name: array for name, array in NUMBERS.items() if name in words}


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("d = Identity(x) e = Identity(d) y = Relu(e)", {"Relu": 1}),
        ("d = Cast<to=1>(x) y = Relu(d)", {"Relu": 1}),
        ("d = Mul(x, one) y = Relu(d)", {"Relu": 1}),
        ("d = Div(x, one) y = Relu(d)", {"Relu": 1}),
        ("d = Add(x, zero) y = Relu(d)", {"Relu": 1}),
        ("d = Sub(x, zero) y = Relu(d)", {"Relu": 1}),
        ("d = Relu(x) y = Relu(d)", {"Relu": 1}),
        ("d = Clip(x, zero, six) y = Clip(d, minus_one, two)", {"Clip": 1}),
        ("d = Clip(x, minus_one, six) y = Relu(d)", {"Clip": 1}),
        ("d = Transpose<perm=[1,0]>(x) e = Transpose<perm=[1,0]>(d) y = Relu(e)", {"Relu": 1}),
        ("d = Mul(x, two) y = Relu(d)", {"Mul": 1, "Relu": 1}),
        ("d = Sub(zero, x) y = Relu(d)", {"Sub": 1, "Relu": 1}),
        ("d = Div(one, x) y = Relu(d)", {"Div": 1, "Relu": 1}),
    ],
)
def test_identities_vanish_and_others_stay(body: str, left: dict[str, int]) -> None:
    model = graph("float[N,4] x", "float[N,4] y", body, numbers(body))
    expected = run(model, {"x": ROWS})
    before = model.graph.num_nodes()
    removed = remove_identities(model)
    assert ops(model) == left
    assert removed == before - model.graph.num_nodes()
    assert relative_difference(expected, run(model, {"x": ROWS})) == 0.0


@pytest.mark.parametrize("dropout", ["d = Dropout(x)", "d = Dropout(x, half, no)", "d = Dropout(x, zero)"])
def test_dropout_vanishes(dropout: str) -> None:
    body = f"{dropout} y = Relu(d)"
    model = graph("float[N,4] x", "float[N,4] y", body, numbers(body))
    expected = run(model, {"x": ROWS})
    fold_constants(model)
    remove_identities(model)
    assert ops(model) == {"Relu": 1}
    assert relative_difference(expected, run(model, {"x": ROWS})) == 0.0


@pytest.mark.parametrize("shape", [(), (1,), (4,), (1, 4), (1, 1)])
@pytest.mark.parametrize(
    "body",
    ["d = Mul(x, k)", "d = Mul(k, x)", "d = Div(x, k)", "d = Add(x, n)", "d = Add(n, x)", "d = Sub(x, n)"],
)
def test_neutral_constants_of_any_shape_vanish(body: str, shape: tuple[int, ...]) -> None:
    """timm's HGNet and others have factors [1] and terms [0]; ONNX Runtime drops what multiplies by them."""
    constants = {"k": np.ones(shape, np.float32), "n": np.zeros(shape, np.float32)}
    model = graph("float[N,4] x", "float[N,4] y", f"{body} y = Relu(d)", constants)
    assert remove_identities(model) == 1
    assert ops(model) == {"Relu": 1}
    np.testing.assert_array_equal(run(model, {"x": ROWS})[0], np.maximum(ROWS, 0))


@pytest.mark.parametrize("body", ["d = Mul(x, k)", "d = Sub(n, x)", "d = Div(k, x)", "d = Add(k, x)"])
def test_other_constants_stay(body: str) -> None:
    constants = {"k": np.array([1, 1, 1, 2], np.float32), "n": np.zeros(4, np.float32)}
    model = graph("float[N,4] x", "float[N,4] y", f"{body} y = Relu(d)", constants)
    expected = run(model, {"x": ROWS})
    assert remove_identities(model) == 0
    assert relative_difference(expected, run(model, {"x": ROWS})) == 0.0


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_a_neutral_constant_that_broadcasts_stays(op: str) -> None:
    neutral = np.full((3, 1, 1), 0.0 if op == "Add" else 1.0, np.float32)
    model = graph("float[N,4] x", "float[3,N,4] y", f"y = {op}(x, k)", {"k": neutral})
    expected = run(model, {"x": ROWS})
    remove_identities(model)
    assert relative_difference(expected, run(model, {"x": ROWS})) == 0.0


@pytest.mark.parametrize("copy", ["Identity", "Dropout"])
def test_two_outputs_that_are_one_value_keep_both_names(copy: str) -> None:
    model = graph("float[N,4] x", "float[N,4] y, float[N,4] z", f"y = Relu(x) z = {copy}(y)")
    remove_identities(model)
    assert [value.name for value in model.graph.outputs] == ["y", "z"]
    y, z = run(model, {"x": ROWS})
    np.testing.assert_array_equal(y, np.maximum(ROWS, 0))
    np.testing.assert_array_equal(z, y)


def test_an_output_that_is_the_input_stays() -> None:
    model = graph("float[N,4] x", "float[N,4] y, float[N,4] z", "y = Relu(x) z = Identity(x)")
    remove_identities(model)
    assert [value.name for value in model.graph.outputs] == ["y", "z"]
    np.testing.assert_array_equal(run(model, {"x": ROWS})[1], ROWS)


def test_shape_arithmetic_is_folded_and_dead_nodes_vanish() -> None:
    body = """s = Shape(k) f = Gather(s, i) g = Mul(f, two_i) h = Concat<axis=0>(minus, g) d = Relu(x)
              unused = Neg(x) y = Reshape(d, h)"""
    constants = {
        "k": np.zeros((2, 3), np.float32),
        "i": np.array([0], np.int64),
        "two_i": np.array([1], np.int64),
        "minus": np.array([-1], np.int64),
    }
    model = graph("float[2,4] x", "float[4,2] y", body, constants)
    expected = run(model, {"x": ROWS[:2]})
    removed = fold_constants(model)
    assert ops(model) == {"Relu": 1, "Reshape": 1}
    assert removed == 5
    assert relative_difference(expected, run(model, {"x": ROWS[:2]})) == 0.0


def test_large_results_are_not_folded() -> None:
    constants = {"k": np.zeros((1, 1), np.float32), "s": np.array([5000, 5000], np.int64)}
    model = graph("float[1,5000] x", "float[5000,5000] y", "e = Expand(k, s) y = Add(e, x)", constants)
    fold_constants(model)
    assert ops(model)["Expand"] == 1


PADS = {
    "zero": ("Pad(x, p)", (0, 0, 1, 1, 0, 0, 1, 1), True),
    "zero, stated": ("Pad(x, p, zero)", (0, 0, 1, 1, 0, 0, 1, 1), True),
    "asymmetric": ("Pad(x, p)", (0, 0, 1, 0, 0, 0, 2, 3), True),
    "cropping": ("Pad(x, p)", (0, 0, -1, 0, 0, 0, 0, 0), False),
    "ones": ("Pad(x, p, one)", (0, 0, 1, 1, 0, 0, 1, 1), False),
    "reflected": ('Pad<mode="reflect">(x, p)', (0, 0, 1, 1, 0, 0, 1, 1), False),
    "batch": ("Pad(x, p)", (1, 0, 0, 0, 0, 0, 0, 0), False),
}


@pytest.mark.parametrize("name", PADS)
def test_zero_padding_goes_into_the_convolution(name: str) -> None:
    pad, amounts, goes = PADS[name]
    constants = {"p": np.array(amounts, np.int64), "w": normal(4, 3, 3, 3), **numbers(pad)}
    body = f"q = {pad} y = Conv<pads=[1,0,0,1], strides=[2,1]>(q, w)"
    model = graph("float[N,3,8,8] x", "float[A,B,C,D] y", body, constants)
    expected = run(model, {"x": IMAGE})
    assert fold_pads(model) == int(goes)
    assert ops(model)["Pad"] == int(not goes)
    assert relative_difference(expected, run(model, {"x": IMAGE})) < 1e-6


def test_padding_that_somebody_else_reads_stays_for_them() -> None:
    constants = {"p": np.array((0, 0, 1, 1, 0, 0, 1, 1), np.int64), "w": normal(4, 3, 3, 3)}
    model = graph(
        "float[N,3,8,8] x", "float[A,B,C,D] y, float[A,B2,C2,D2] q", "q = Pad(x, p) y = Conv(q, w)", constants
    )
    expected = run(model, {"x": IMAGE})
    fold_pads(model)
    assert relative_difference(expected, run(model, {"x": IMAGE})) < 1e-6


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
def test_automatic_padding_becomes_explicit(auto_pad: str, stride: int) -> None:
    body = f'y = Conv<auto_pad="{auto_pad}", strides=[{stride},{stride}]>(x, w)'
    model = graph("float[N,3,8,8] x", "float[A,B,C,D] y", body, {"w": normal(4, 3, 3, 3)})
    expected = run(model, {"x": IMAGE})
    fold_pads(model)
    [node] = list(model.graph)
    assert node.attributes["auto_pad"].as_string() == "NOTSET"
    assert relative_difference(expected, run(model, {"x": IMAGE})) < 1e-6


def hard(body: str) -> ir.Model:
    return graph("float[N,4] x", "float[N,4] y", body, numbers(body))


@pytest.mark.parametrize(
    "body",
    [
        "a = Add(x, three) k = Clip(a, zero, six) m = Mul(x, k) y = Div(m, six)",
        "a = Add(x, three) k = Clip(a, zero, six) m = Mul(k, x) y = Div(m, six)",
        "a = Add(three, x) k = Clip(a, zero, six) d = Div(k, six) y = Mul(x, d)",
        "a = Add(x, three) k = Clip(a, zero, six) d = Div(k, six) y = Mul(d, x)",
        "d = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(x, d)",
    ],
)
def test_hard_swish_is_recognized_as_exporters_spell_it(body: str) -> None:
    model = hard(body)
    expected = run(model, {"x": ROWS})
    assert fuse_hard_swish(model) >= 1
    assert ops(model) == {"HardSwish": 1}
    assert relative_difference(expected, run(model, {"x": ROWS})) < 1e-6


def test_hard_sigmoid_alone_is_recognized() -> None:
    model = hard("a = Add(x, three) k = Clip(a, zero, six) y = Div(k, six)")
    expected = run(model, {"x": ROWS})
    fuse_hard_swish(model)
    assert ops(model) == {"HardSigmoid": 1}
    assert relative_difference(expected, run(model, {"x": ROWS})) < 1e-6


def test_other_numbers_are_no_hard_swish() -> None:
    model = hard("a = Add(x, two) k = Clip(a, zero, six) m = Mul(x, k) y = Div(m, six)")
    assert fuse_hard_swish(model) == 0
    assert ops(model)["Clip"] == 1
