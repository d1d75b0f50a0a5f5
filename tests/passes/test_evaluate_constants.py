"""What depends on constants alone becomes one, bit for bit what ONNX Runtime gives; what must stay, stays."""

from __future__ import annotations

import logging

import numpy as np
import onnx_ir as ir
import pytest

from calib8.model.graph import constant
from calib8.passes.prepare import prepare
from calib8.passes.simplify import fold_constants
from small_models import Array, graph, normal, ops, run

IMAGE = normal(1, 3, 8, 8, seed=2)
WEIGHT = normal(4, 3, 3, 3, seed=3)
STANDARDIZED = """flat = Reshape(w, rows)
    z, mean, variance =
        BatchNormalization<training_mode=1, epsilon=0.00001, momentum=1.0>(flat, gain, none, none, one)
    k = Reshape(z, whole) y = Conv(x, k)"""
"""A convolution as torch.onnx exports timm's ScaledStdConv2d: batch_norm in training over [1, C, rest]."""

CONSTANTS: dict[str, Array] = {
    "w": WEIGHT,
    "rows": np.array([1, 4, -1], np.int64),
    "whole": np.array([4, 3, 3, 3], np.int64),
    "gain": np.array([0.5, 1, 2, -1], np.float32),
    "none": np.zeros(4, np.float32),
    "one": np.ones(4, np.float32),
}


def standardized_by_hand() -> Array:
    result = np.empty(WEIGHT.shape, np.float64)
    for channel, kernel in enumerate(WEIGHT.astype(np.float64)):
        variance = ((kernel - kernel.mean()) ** 2).mean()
        result[channel] = (kernel - kernel.mean()) / np.sqrt(variance + 1e-5) * CONSTANTS["gain"][channel]
    return result


def test_a_standardized_weight_is_a_constant(caplog: pytest.LogCaptureFixture) -> None:
    model = graph("float[1,3,8,8] x", "float[1,4,6,6] y", STANDARDIZED, CONSTANTS)
    expected = run(model, {"x": IMAGE})
    with caplog.at_level(logging.WARNING):
        fold_constants(model)
    assert caplog.messages == []
    assert ops(model) == {"Conv": 1}
    [conv] = model.graph
    assert conv.inputs[1] is not None
    assert conv.inputs[1].name == "k"
    np.testing.assert_allclose(constant(conv.inputs[1]), standardized_by_hand(), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(run(model, {"x": IMAGE})[0], expected[0])


def test_sizes_that_only_ops_without_an_evaluator_tell_are_followed_up() -> None:
    """The padding of a layer comes from sizes; sizes behind it are known once it is."""
    body = f"""s = Shape(x) f = Cast<to=1>(s) {STANDARDIZED.replace("y = Conv(x, k)", "a = Conv(x, k)")}
        n = ReduceMax<keepdims=1, axes=[1, 2]>(z) p = Mul(f, n) q = Mul(p, zeros) b = Cast<to=7>(q)
        i = Concat<axis=0>(d, b) j = Reshape(i, eight) c = Pad(a, j) t = Shape(c) u = Gather(t, last)
        y = Reshape(c, u)"""
    constants = CONSTANTS | {
        "zeros": np.zeros(4, np.float32),
        "d": np.zeros((1, 1, 4), np.int64),
        "eight": np.array([8], np.int64),
        "last": np.array([0, 1, 3, 2], np.int64),
    }
    body = body.replace("i = Concat<axis=0>", "i = Concat<axis=2>")
    model = graph("float[1,3,8,8] x", "float[1,4,6,6] y", body, constants)
    expected = run(model, {"x": IMAGE})
    fold_constants(model)
    assert set(ops(model)) <= {"Conv", "Pad", "Reshape"}
    np.testing.assert_array_equal(run(model, {"x": IMAGE})[0], expected[0])


@pytest.mark.parametrize(
    "drawn",
    [
        "r = RandomNormalLike<seed=1.0>(w)",
        "r = RandomUniformLike<seed=1.0>(w)",
        "r = Bernoulli<seed=1.0>(half)",
        "r = Dropout<seed=1>(w, ratio, yes)",
    ],
)
def test_what_draws_numbers_stays(drawn: str) -> None:
    constants: dict[str, Array] = {
        "w": WEIGHT, "half": np.full(WEIGHT.shape, 0.5, np.float32), "ratio": np.float32(0.5),
        "yes": np.bool_(True),
    }  # fmt: skip
    used = {name: array for name, array in constants.items() if name in drawn}
    model = graph("float[1,3,8,8] x", "float[1,4,6,6] y", f"{drawn} k = Abs(r) y = Conv(x, k)", used)
    fold_constants(model)
    assert ops(model) == {drawn.split()[2].split("<")[0]: 1, "Abs": 1, "Conv": 1}


def test_what_constants_would_grow_to_stays_but_not_what_is_made_of_it() -> None:
    """The sum over an enlarged constant is small; the enlarged one, which another node reads, is not."""
    body = "e = ConstantOfShape(size) t = ReduceSum<keepdims=0>(e) a = Add(x, e) y = Mul(a, t)"
    constants: dict[str, Array] = {"size": np.array([5000, 5000], np.int64)}
    model = graph("float[1,5000] x", "float[5000,5000] y", body, constants)
    fold_constants(model)
    assert ops(model) == {"ConstantOfShape": 1, "Add": 1, "Mul": 1}


def test_a_large_weight_is_computed_if_it_does_not_grow() -> None:
    """5 million values, more than onnxscript takes, turned round and no more than before."""
    weight = np.arange(5_000_000, dtype=np.float32).reshape(2, -1)
    model = graph("float[1,2] x", "float[1,2500000] y", "n = Neg(w) y = MatMul(x, n)", {"w": weight})
    fold_constants(model)
    assert ops(model) == {"MatMul": 1}
    [product] = model.graph
    np.testing.assert_array_equal(constant(product.inputs[1]), -weight)


def test_a_constant_output_keeps_its_node() -> None:
    model = graph("float[1,3,8,8] x", "float[1,4,6,6] y, float[1,4,27] z", STANDARDIZED, CONSTANTS)
    expected = run(model, {"x": IMAGE})
    fold_constants(model)
    assert [value.name for value in model.graph.outputs] == ["y", "z"]
    for left, right in zip(expected, run(model, {"x": IMAGE}), strict=True):
        np.testing.assert_array_equal(left, right)


def test_weights_kept_as_codes_become_weights() -> None:
    """A file with int8 weights and float arithmetic is a float model with rounded weights."""
    codes = np.round(WEIGHT * 40).astype(np.int8)
    body = "k = DequantizeLinear(q, s) y = Conv(x, k)"
    model = graph("float[1,3,8,8] x", "float[1,4,6,6] y", body, {"q": codes, "s": np.float32(0.025)})
    prepared = prepare(model, {"x": IMAGE}).model
    assert ops(prepared) == {"Conv": 1}
    [conv] = prepared.graph
    np.testing.assert_array_equal(constant(conv.inputs[1]), codes * np.float32(0.025))


def test_what_onnx_runtime_refuses_is_left_to_who_runs_the_model() -> None:
    """An op of a foreign domain between constants cannot be computed here."""
    body = "k = Abs(w) y = Conv(x, k)"
    model = graph("float[1,3,8,8] x", "float[1,4,6,6] y", body, {"w": WEIGHT})
    foreign = next(node for node in model.graph if node.op_type == "Abs")
    foreign.domain, foreign.op_type = "nowhere", "Odd"
    model.graph.opset_imports["nowhere"] = 1
    fold_constants(model)
    assert ops(model) == {"Odd": 1, "Conv": 1}
    assert isinstance(model, ir.Model)
