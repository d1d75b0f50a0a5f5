"""Outputs that depend on nothing, tensors that hold nothing, and models that quantize as they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic

import calib8
from calib8.errors import UnsupportedModelError
from calib8.program.reference.executor import run_program
from exact_sums import exact
from small_models import normal, onnx_model, run

DATA = [{"x": normal(1, 4, 8, 8, seed=seed)} for seed in range(2)]
WEIGHT = {"w": normal(4, 4, 3, 3)}
NONE: dict[str, Any] = {"b0": np.array([0]), "b1": np.array([1])}

OUTPUTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an initializer": ("float[3] z", "", {"z": normal(3)}),
    "another name of one": ("float[3] z", "z = Identity(c)", {"c": normal(3)}),
    "one under two names": ("float[3] z, float[3] v", "z = Identity(c) v = Identity(c)", {"c": normal(3)}),
    "a Constant": ("float[2] z", "z = Constant<value_floats=[1.0, 2.0]>()", {}),
    "a Shape": ("int64[4] z", "z = Shape(x)", {}),
    "a Shape from within": ("int64[4] z", "z = Shape(a)", {}),
    "a Size": ("int64 z", "z = Size(a)", {}),
    "zeros": ("float[A,B,C,D] z", "s = Shape(x) z = ConstantOfShape(s)", {}),
    "a function of constants": ("float[3] z", "z = Exp(c)", {"c": normal(3)}),
}


def net(outputs: str, body: str, constants: dict[str, Any]) -> onnx.ModelProto:
    text = f"a = Conv<pads=[1,1,1,1]>(x, w) y = Relu(a) {body}"
    return onnx_model("float[1,4,8,8] x", f"float[1,4,8,8] y, {outputs}", text, {**WEIGHT, **constants})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", OUTPUTS)
def test_constant_outputs_are_given_back(case: str, tmp_path: Path) -> None:
    result = calib8.quantize(net(*OUTPUTS[case]), DATA, effort="fast")
    result.save(tmp_path / "int8.onnx")
    expected = run(onnx.load(tmp_path / "int8.onnx"), DATA[0])
    session = calib8.InferenceSession(tmp_path / "int8.onnx")
    session.save(tmp_path / "int8.c8")
    plan = calib8.InferenceSession(tmp_path / "int8.c8")
    for found in (session.run(None, DATA[0]), plan.run(None, DATA[0]), run_program(result.lower(), DATA[0])):
        for left, right in zip(expected, found, strict=True):
            assert left.dtype == right.dtype and np.array_equal(left, right)


def test_integers_alone_refuse_them_by_name() -> None:
    result = calib8.quantize(net(*OUTPUTS["an initializer"]), DATA, effort="fast")
    with pytest.raises(UnsupportedModelError, match="z/Identity"):
        result.lower(integer_only=True)


@pytest.mark.parametrize(
    ("outputs", "body", "constants"),
    [
        ("float[1,0,8,8] z", "z = Slice(a, b0, b0, b1)", NONE),
        ("float[0,4] z", "", {"z": np.zeros((0, 4), np.float32)}),
    ],
)
def test_tensors_that_hold_nothing_are_refused_by_name(
    outputs: str, body: str, constants: dict[str, Any]
) -> None:
    result = calib8.quantize(net(outputs, body, constants), DATA, effort="fast")
    with pytest.raises(UnsupportedModelError, match=r"hold no value at these sizes: 'z"):
        result.lower()


@pytest.mark.parametrize(
    "body",
    [
        "e = Slice(a, b0, b0, b1) z = Concat<axis=1>(a, e)",
        "p, q = Split<axis=1>(a, s) z = Concat<axis=1>(p, q)",
    ],
)
def test_empty_parts_of_a_concatenation_are_no_matter(body: str) -> None:
    constants = {**NONE} if "Slice" in body else {"s": np.array([4, 0])}
    result = calib8.quantize(net("float[1,4,8,8] z", body, constants), DATA, effort="fast")
    expected = run(result.model, DATA[0])
    found = calib8.InferenceSession(result.lower()).run(None, DATA[0])
    assert all(np.array_equal(left, right) for left, right in zip(expected, found, strict=True))


@pytest.mark.parametrize("kind", ["LSTM", "MatMul", "Conv"])
def test_models_that_quantize_as_they_run_count_as_quantized(kind: str, tmp_path: Path) -> None:
    body, constants = {
        "LSTM": (
            "s, h = LSTM<hidden_size=5>(x, w, r) y = Squeeze(s, k)",
            {"w": normal(1, 20, 8), "r": normal(1, 20, 5), "k": np.array([1])},
        ),
        "MatMul": ("y = MatMul(x, w)", {"w": normal(8, 5)}),
        "Conv": ("y = Conv(x, w)", {"w": normal(4, 1, 3)}),
    }[kind]
    onnx.save(onnx_model("float[6,1,8] x", "float[A,B,C] y", body, constants), tmp_path / "float.onnx")
    weights = QuantType.QUInt8 if kind == "Conv" else QuantType.QInt8
    quantize_dynamic(tmp_path / "float.onnx", tmp_path / "coded.onnx", weight_type=weights)
    feeds = {"x": normal(6, 1, 8, seed=3)}
    expected = onnxruntime.InferenceSession(tmp_path / "coded.onnx", exact()).run(None, feeds)
    assert np.array_equal(calib8.InferenceSession(tmp_path / "coded.onnx").run(None, feeds)[0], expected[0])
    with pytest.raises(UnsupportedModelError, match="quantized already"):
        calib8.quantize(tmp_path / "coded.onnx", [feeds])
