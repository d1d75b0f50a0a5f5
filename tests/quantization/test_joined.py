"""Functions of one tensor that follow each other: one code behind the last, floats in between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from quantized_models import CONV, ORT, initializers, quantized

from calib8 import InferenceSession
from calib8.analysis.lint import lint
from calib8.engine.run import available_isas
from calib8.scheme import TARGETS
from small_models import normal, onnx_model, run

FEEDS = {"x": normal(2, 3, 8, 8, seed=9)}
APART = replace(ORT, joins_pointwise=False)


def network(body: str) -> onnx.ModelProto:
    """Two layers and what stands between c and n."""
    constants = {
        "w": normal(8, 3, 3, 3),
        "u": normal(8, 8, 3, 3, seed=1) * np.float32(0.1),
        "a": np.array(1.37, np.float32),
        "b": np.array(-0.61, np.float32),
        "k": normal(1, 8, 1, 1, seed=2),
        "wide": np.geomspace(0.01, 1, 8, dtype=np.float32).reshape(1, 8, 1, 1),
        "narrow": np.geomspace(100, 1, 8, dtype=np.float32).reshape(1, 8, 1, 1),
    }
    text = f"c = {CONV}(x, w) {body} y = {CONV}(n, u)"
    return onnx_model("float[N,3,8,8] x", "float[N,8,8,8] y", text, constants)


POOL = "p = MaxPool<kernel_shape=[1,1]>(c)"
"""Keeps arithmetic with constants from becoming part of the layer."""

CHAIN = network("h = HardSwish(c) m = Mul(a, h) n = Add(m, b)")
"""What PP-LCNet has behind each layer."""


def test_only_the_ends_of_a_chain_carry_codes() -> None:
    _, placement, result = quantized(CHAIN, FEEDS, ORT)
    assert set(placement.readers) == {"x", "c", "n", "y"}
    assert all(decision.quantized for decision in placement.decisions)
    assert {"a", "b"} <= initializers(result.model).keys(), "constants are not coded either"
    _, placement, result = quantized(CHAIN, FEEDS, APART)
    assert set(placement.readers) == {"x", "c", "h", "m", "n", "y"}
    assert not {"a", "b"} & initializers(result.model).keys()


def test_a_code_of_the_sigmoid_would_cost_accuracy() -> None:
    prepared, placement, joined = quantized(network("s = Sigmoid(c) n = Mul(c, s)"), FEEDS, ORT)
    _, _, apart = quantized(network("s = Sigmoid(c) n = Mul(c, s)"), FEEDS, APART)
    assert set(placement.readers) == {"x", "c", "n", "y"} and "s" in apart.qparams
    [expected] = run(prepared, FEEDS)
    errors = [run(found.model, FEEDS)[0] - expected for found in (joined, apart)]
    assert np.mean(errors[0] ** 2) < np.mean(errors[1] ** 2)


@pytest.mark.parametrize(
    "body",
    [
        "s = Sigmoid(c) n = Mul(c, s)",
        "p = Softplus(c) t = Tanh(p) n = Mul(c, t)",
        "s = Sigmoid(c) t = Sub(s, k) n = Tanh(t)",
    ],
)
def test_the_linter_takes_a_function_without_codes_inside(body: str) -> None:
    _, _, result = quantized(network(body), FEEDS, ORT)
    assert lint(ir.to_proto(result.model), "onnxruntime") == ()


def test_channels_of_different_size_between_functions_lose_nothing() -> None:
    body = "h = HardSwish(c) m = Mul(h, wide) t = LeakyRelu(m) n = Mul(t, narrow)"
    prepared, _, joined = quantized(network(body), FEEDS, ORT)
    _, _, apart = quantized(network(body), FEEDS, APART)
    [expected] = run(prepared, FEEDS)
    errors = [run(found.model, FEEDS)[0] - expected for found in (joined, apart)]
    assert np.mean(errors[0] ** 2) < 0.3 * np.mean(errors[1] ** 2)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize(
    ("body", "exact"),
    [
        ("h = HardSwish(c) m = Mul(a, h) n = Add(m, b)", True),
        ("h = HardSwish(c) m = Mul(h, k) t = LeakyRelu(m) n = Sub(b, t)", True),
        ("h = HardSwish(c) m = Mul(h, k) r = Relu(m) n = Mul(r, a)", True),
        (f"{POOL} s = Add(p, k) r = Relu(s) n = Mul(r, a)", True),
        ("s = Sigmoid(c) t = Sub(s, k) n = Tanh(t)", False),
        ("s = Sigmoid(c) n = Mul(c, s)", False),
        ("s = HardSigmoid<alpha=0.3>(c) n = Mul(s, c)", True),
        ("p = Softplus(c) t = Tanh(p) n = Mul(c, t)", False),
        ("d = Div(c, a) e = Erf(d) p = Sub(e, b) m = Mul(c, p) n = Mul(m, a)", False),
        ("s = Sigmoid(c) m = Mul(c, s) t = LeakyRelu(m) n = Mul(t, k)", False),
    ],
)
def test_the_engine_computes_a_chain_as_onnx_runtime_does(body: str, exact: bool, isa: str) -> None:
    """Bit for bit, but for functions of which runtimes have approximations of their own."""
    _, _, result = quantized(network(body), FEEDS, ORT)
    int8 = ir.to_proto(result.model)
    [want] = run(result.model, FEEDS)
    session = InferenceSession(int8, isa=isa, integer_only=True)
    [got] = session.run(None, FEEDS)
    assert not session.plan.float_nodes
    if exact:
        assert np.array_equal(got, want)
    else:
        scale = np.float32(result.qparams["y"].scale)
        assert np.max(np.abs(np.rint(got / scale) - np.rint(want / scale))) <= 1


@pytest.mark.parametrize(
    ("body", "coded", "floats"),
    [
        ("h = HardSwish(c) m = Mul(h, k) r = Relu(m) n = Mul(r, a)", {"c", "n"}, {"k", "a"}),
        (f"{POOL} s = Add(p, k) r = Relu(s) n = Mul(r, a)", {"c", "p", "n"}, {"k", "a"}),
        (f"{POOL} s = Add(p, k) n = Relu(s)", {"c", "p", "n"}, set()),
    ],
    ids=["in the middle", "at the start", "alone"],
)
def test_an_addition_and_the_activation_that_it_computes_itself_are_one(
    body: str, coded: set[str], floats: set[str]
) -> None:
    _, placement, result = quantized(network(body), FEEDS, ORT)
    assert set(placement.readers) == {"x", "y"} | coded
    assert initializers(result.model).keys() & {"k", "a"} == floats


@pytest.mark.parametrize(
    ("body", "coded"),
    [
        ("r = Relu(c) m = Mul(r, a) n = Add(m, b)", {"r", "n"}),
        (f"h = HardSwish(c) g = {CONV}(h, u) n = Add(h, g)", {"c", "h", "g", "n"}),
        ("h = HardSwish(c) p = MaxPool<kernel_shape=[1,1]>(c) n = Mul(h, p)", {"c", "h", "p", "n"}),
        ("h = HardSwish(c) p = MaxPool<kernel_shape=[1,1]>(h) n = Mul(p, a)", {"c", "h", "p", "n"}),
    ],
    ids=["what a layer computes itself", "two readers", "two inputs", "no function of one value"],
)
def test_what_does_not_join_keeps_its_codes(body: str, coded: set[str]) -> None:
    _, placement, _ = quantized(network(body), FEEDS, ORT)
    assert set(placement.readers) == {"x", "y"} | coded


@pytest.mark.parametrize("name", ["tflite", "tengine"])
def test_targets_that_want_codes_everywhere_get_them(name: str) -> None:
    _, placement, _ = quantized(CHAIN, FEEDS, TARGETS[name])
    assert {"h", "m"} <= set(placement.readers)
