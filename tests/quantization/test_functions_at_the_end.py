"""Activations behind the last layer: computed with its sums where the target does that, else float."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from quantized_models import CONV, ORT, quantized

import calib8
from calib8.ops.groups import FUNCTIONS, ROUGH
from calib8.passes.place import place
from calib8.program.rules import PROFILES
from calib8.scheme import TARGETS
from slow_cases import slow_but
from small_models import graph, normal, onnx_model, run

CALIB8 = TARGETS["calib8"]
FEEDS = {"x": normal(2, 8, 12, 12, seed=9)}
WEIGHTS = {"w": normal(16, 8, 3, 3) * np.float32(0.2)}
ACTIVATIONS = {
    "Celu": "y = Celu<alpha=1.3>(c)",
    "Elu": "y = Elu(c)",
    "Erf": "y = Erf(c)",
    "Mish": "y = Mish(c)",
    "Mish, spelled out": "p = Softplus(c) q = Tanh(p) y = Mul(c, q)",
    "Selu": "y = Selu(c)",
    "Sigmoid": "y = Sigmoid(c)",
    "Softplus": "y = Softplus(c)",
    "Softsign": "y = Softsign(c)",
}
DECODERS = ("Exp", "Reciprocal", "Sin", "Sqrt", "Cosh")


def network(function: str) -> onnx.ModelProto:
    body = f"c = {CONV}(x, w) {function}"
    return onnx_model("float[N,8,12,12] x", "float[N,16,12,12] y", body, WEIGHTS, opset=18)


def reasons(proto: ir.Model, target: str) -> dict[str, str]:
    return {one.node: one.reason for one in place(proto, TARGETS[target]).decisions if not one.quantized}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_engine_computes_them_with_the_sums(name: str, profile: str) -> None:
    prepared, placement, made = quantized(network(ACTIVATIONS[name]), FEEDS, CALIB8)
    assert set(placement.readers) == {"x", "y"} and all(one.quantized for one in placement.decisions)
    proto = ir.to_proto(made.model)
    session = calib8.InferenceSession(proto, profile=profile, threads=1, integer_only=profile != "onnx")
    [found] = session.run(None, FEEDS)
    [same] = calib8.InferenceSession(proto, profile=profile, runtime="reference").run(None, FEEDS)
    np.testing.assert_array_equal(found, same)
    [expected] = run(prepared, FEEDS)
    steps = np.abs(found - expected) / np.float32(made.qparams["y"].scale)
    assert np.mean(steps) < 1.5


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_other_runtimes_get_the_layer_s_code(name: str) -> None:
    """What they have no kernel for on codes stays float."""
    _, placement, _ = quantized(network(ACTIVATIONS[name]), FEEDS, ORT)
    assert "c" in placement.readers or name == "Sigmoid"


@pytest.mark.parametrize("target", ["calib8", "onnxruntime"])
@pytest.mark.parametrize("op", DECODERS)
def test_what_decodes_sizes_stays_float(op: str, target: str) -> None:
    model = graph("float[N,8,12,12] x", "float[A,B,C,D] y", f"c = {CONV}(x, w) y = {op}(c)", WEIGHTS)
    assert reasons(model, target) == {"y": "it is post-processing behind the last weighted layer"}


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        (f"c = {CONV}(x, w) r = Transpose<perm=[0,2,3,1]>(c) y = Elu(r)", ""),
        (f"c = {CONV}(x, w) y = Elu(c)", ", float[E,F,G,H] c"),
    ],
    ids=["behind a move", "the sums are an output too"],
)
def test_what_is_not_right_behind_a_layer_stays_float(body: str, outputs: str) -> None:
    model = graph("float[N,8,12,12] x", f"float[A,B,C,D] y{outputs}", body, WEIGHTS)
    assert "y" in reasons(model, "calib8")


TOTAL = sorted(FUNCTIONS - {"Acos", "Acosh", "Asin", "Atanh", "Log", "Sqrt"})
"""Those that are defined for every number."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op", slow_but(set(TOTAL) - {"Atan", "Cosh", "Sinh"}, TOTAL))
def test_between_layers_the_engine_computes_each_of_them_in_integers(op: str) -> None:
    """Where a curve of the sums does not come near, from codes of them."""
    slopes = {"k": np.linspace(0.1, 0.4, 16, dtype=np.float32).reshape(16, 1, 1)} if op == "PRelu" else {}
    constants = {**WEIGHTS, "v": normal(8, 16, 3, 3), **slopes}
    body = f"c = {CONV}(x, w) e = {op}({', '.join(('c', *slopes))}) y = {CONV}(e, v)"
    model = onnx_model("float[N,8,12,12] x", "float[N,8,12,12] y", body, constants, opset=24)
    _, placement, made = quantized(model, FEEDS, CALIB8)
    assert all(one.quantized for one in placement.decisions)
    assert ("c" in placement.readers) == (op in ROUGH)
    proto = ir.to_proto(made.model)
    session = calib8.InferenceSession(proto, profile="single", threads=1, integer_only=True)
    [found] = session.run(None, FEEDS)
    [same] = calib8.InferenceSession(proto, profile="single", runtime="reference").run(None, FEEDS)
    np.testing.assert_array_equal(found, same)


def test_targets_without_functions_say_so() -> None:
    body = f"c = {CONV}(x, w) e = Elu(c) y = {CONV}(e, v)"
    constants = {**WEIGHTS, "v": normal(8, 16, 3, 3)}
    model = graph("float[N,8,12,12] x", "float[A,B,C,D] y", body, constants)
    assert reasons(model, "tengine")["e"] == "the target computes it in float"


@pytest.mark.parametrize(
    ("op", "target"), [("Max", "calib8"), ("Max", "onnxruntime"), ("Div", "onnxruntime")]
)
def test_what_two_tensors_make_is_no_function_of_one(op: str, target: str) -> None:
    body = f"c = {CONV}(x, w) d = {CONV}(x, u) e = {op}(c, d) y = {CONV}(e, v)"
    constants = {**WEIGHTS, "u": normal(16, 8, 3, 3, seed=4), "v": normal(8, 16, 3, 3)}
    model = graph("float[N,8,12,12] x", "float[A,B,C,D] y", body, constants)
    assert reasons(model, target)["e"] == "it is not a function of one tensor"
