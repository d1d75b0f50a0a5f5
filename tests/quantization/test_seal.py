"""Layers in float compute in float, in ONNX Runtime with all its rewrites too."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import calib8
from calib8.model.save import model_bytes
from calib8.quantization.seal import seal_float_layers
from exact_sums import exact
from small_models import normal, onnx_model

BODY = """
a = Conv<pads = [1, 1, 1, 1]>(x, w1)
r1 = Relu(a)
b = Conv<pads = [1, 1, 1, 1]>(r1, w2, b2)
b3 = Conv<pads = [1, 1, 1, 1]>(r1, w4)
s = Add(b, b3)
r2 = Relu(s)
y = Conv<pads = [1, 1, 1, 1]>(r2, w3)
"""


def net() -> onnx.ModelProto:
    """One scale for all of w2 would round all of it but one value to 0."""
    w2 = normal(4, 4, 3, 3, seed=2)
    w2[:, 0] = 3000.0
    w1 = normal(4, 3, 3, 3, seed=1)
    w1[0] = 0.0
    constants = {
        "w1": w1, "w2": w2, "b2": normal(4, seed=5), "w3": normal(4, 4, 3, 3, seed=3),
        "w4": normal(4, 4, 3, 3, seed=4),
    }  # fmt: skip
    model = onnx_model("float[N,3,6,6] x", "float[N,4,6,6] y", BODY, constants)
    for node in model.graph.node:
        node.name = node.output[0]
    return model


def quantized(keep_float: list[str], target: str = "onnxruntime") -> onnx.ModelProto:
    samples = [{"x": normal(1, 3, 6, 6, seed=seed)} for seed in range(4)]
    found = calib8.quantize(
        net(), samples, target=target, method="minmax", repair=["none"], keep_float=keep_float, threads=1
    )
    return onnx.ModelProto.FromString(calib8_bytes(found))


def calib8_bytes(found: calib8.Quantization) -> bytes:
    return model_bytes(found.model)


def outputs(model: onnx.ModelProto, level: onnxruntime.GraphOptimizationLevel) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), exact(options))
    return np.asarray(session.run(None, {"x": normal(1, 3, 6, 6, seed=9)})[0])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keep_float", [["b"], ["b", "b3"], ["y"], ["a"]])
def test_the_optimized_model_is_the_model(keep_float: list[str]) -> None:
    model = quantized(keep_float)
    levels = onnxruntime.GraphOptimizationLevel
    plain, optimized = outputs(model, levels.ORT_DISABLE_ALL), outputs(model, levels.ORT_ENABLE_ALL)
    scale = np.abs(plain).max()
    assert np.abs(plain - optimized).max() <= 0.05 * scale
    assert np.std(optimized) > 0.0


def test_the_layer_in_float_is_as_good_as_it_is_in_the_float_model() -> None:
    model = quantized(["b"])
    expected = outputs(net(), onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    found = outputs(model, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    assert 10 * np.log10(np.sum(expected**2) / np.sum((expected - found) ** 2)) > 25.0


def test_one_sum_serves_all_layers_behind_a_tensor_and_only_those() -> None:
    def sums(model: onnx.ModelProto) -> int:
        return Counter(node.op_type for node in model.graph.node)["Sum"]

    assert sums(quantized([])) == 0
    assert sums(quantized(["b", "b3"])) == 1
    assert sums(quantized(["a", "y"])) == 1  # the input of a is read by nothing else: no codes
    assert sums(quantized(["b"], target="openvino")) == 0


def test_a_weight_that_constants_alone_lead_to_is_float_too() -> None:
    """ONNX Runtime folds it and then makes int8 of it; one that comes from codes needs no seal."""
    body = """
    q = QuantizeLinear(x, s, z)
    d = DequantizeLinear(q, s, z)
    n = Mul(w, two)
    a = Conv(d, n)
    r = QuantizeLinear(a, s_a, z)
    b = DequantizeLinear(r, s_a, z)
    c = DequantizeLinear(w_codes, s, z_w)
    t = Transpose<perm = [1, 0, 2, 3]>(c)
    y = Conv(b, t)
    """
    weight = normal(4, 3, 3, 3, seed=1)
    weight[0] = 300.0  # one scale for all would round the others to 0
    constants = {
        "w": weight, "two": np.float32(2.0), "s": np.float32(0.02), "z": np.uint8(128), "z_w": np.int8(0),
        "s_a": np.float32(0.2), "w_codes": np.full((4, 2, 1, 1), 50, np.int8),
    }  # fmt: skip
    model = ir.from_proto(onnx_model("float[1,3,6,6] x", "float[1,2,4,4] y", body, constants))
    assert seal_float_layers(model) == 1
    levels = onnxruntime.GraphOptimizationLevel
    plain, optimized = (
        outputs(onnx.ModelProto.FromString(model_bytes(model)), level)
        for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL)
    )
    np.testing.assert_allclose(optimized, plain, rtol=1e-5)
