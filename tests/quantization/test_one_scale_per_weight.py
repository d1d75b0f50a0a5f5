"""Targets whose weights have one scale for all channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from quantized_models import initializers

from calib8.model.layer import Layer
from calib8.pipeline import calibrate
from calib8.quantization.corrections import LayerCorrection
from calib8.quantization.quantize import quantize_graph
from calib8.quantization.weights import quantize_layer
from calib8.scheme import target_scheme
from calib8.session.inference import InferenceSession
from small_models import Array, normal, onnx_model, run

NET = onnx_model(
    "float[N,3,8,8] x",
    "float[N,5] y",
    """a = Conv(x, w, b) r = Relu(a) c = ConvTranspose<group=2>(r, t, tb) g = GlobalAveragePool(c)
       f = Flatten(g) y = Gemm<transB=1>(f, m, mb)""",
    {
        "w": normal(4, 3, 3, 3), "b": normal(4, seed=1), "t": normal(4, 3, 2, 2, seed=2),
        "tb": normal(6, seed=3), "m": normal(5, 6, seed=4), "mb": normal(5, seed=5),
    },
)  # fmt: skip
RUNS = [{"x": normal(1, 3, 8, 8, seed=seed)} for seed in range(4)]

ONE_SCALE = replace(target_scheme("onnxruntime"), weight_granularity="per-tensor")


def quantized(granularity: str) -> ir.Model:
    found = calibrate(NET, RUNS, method="minmax", threads=1)
    scheme = replace(target_scheme("onnxruntime"), weight_granularity=granularity)
    return quantize_graph(found.prepared.model, found.table, scheme, frozenset()).model


def weights(model: ir.Model) -> list[tuple[Array, Array, bool]]:
    """Codes, scales and whether an axis is named, of every weight."""
    arrays = initializers(model)
    found = []
    for node in model.graph:
        codes = arrays.get(node.inputs[0].name or "") if node.inputs[0] is not None else None
        if node.op_type == "DequantizeLinear" and codes is not None:
            found.append((codes, arrays[node.inputs[1].name or ""], "axis" in node.attributes))  # type: ignore[union-attr]
    return found


def test_one_scale_without_an_axis() -> None:
    fine, coarse = weights(quantized("per-channel")), weights(quantized("per-tensor"))
    assert len(fine) == len(coarse) == 6
    for (codes, scales, axis), (own, scale, has_axis) in zip(fine, coarse, strict=True):
        assert axis and not has_axis
        assert scale.shape == () and own.shape == codes.shape
        if own.dtype == np.int8:
            assert scale == np.max(scales) and np.max(np.abs(own)) == 127


def test_the_model_is_valid_and_near_the_float_one() -> None:
    model = quantized("per-tensor")
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    for feeds in RUNS:
        expected, actual = run(NET, feeds)[0], run(model, feeds)[0]
        assert np.max(np.abs(expected - actual)) < 0.05 * np.max(np.abs(expected))


def test_the_engine_runs_it() -> None:
    model = quantized("per-tensor")
    session = InferenceSession(ir.to_proto(model).SerializeToString(), threads=1)
    found, expected = session.run(None, RUNS[0])[0], run(model, RUNS[0])[0]
    assert np.max(np.abs(found - expected)) < 0.02 * np.max(np.abs(expected))


@pytest.mark.parametrize("bias", [1e6, 0.5])
def test_a_bias_that_needs_room_widens_the_scale_of_all(bias: float) -> None:
    layer = Layer(ir.node("Conv", [ir.Value(name="x"), ir.Value(name="w")]))
    weight, biases = normal(3, 2, 1, 1), np.array([0.1, bias, 0], np.float32)
    args = (layer, weight, biases, 1e-4)
    fine, coarse = quantize_layer(*args, target_scheme("onnxruntime")), quantize_layer(*args, ONE_SCALE)
    assert coarse.weight.axis is None and coarse.weight.scale == np.max(fine.weight.scale)
    np.testing.assert_allclose(coarse.bias.real, biases, rtol=1e-3, atol=float(coarse.bias.scale))  # type: ignore[operator]


def test_given_codes_stay_where_their_scale_is_the_one() -> None:
    layer = Layer(ir.node("Conv", [ir.Value(name="x"), ir.Value(name="w")]))
    codes = np.array([[7], [9]], np.int8)
    for scales, wanted in (([0.02, 0.02], [7, 9]), ([0.01, 0.02], [50, 9])):
        correction = LayerCorrection(codes, np.array(scales, np.float32))
        found = quantize_layer(layer, np.ones((2, 1), np.float32), None, 1.0, ONE_SCALE, correction)
        assert found.weight.values.reshape(-1).tolist() == wanted
        assert found.dropped == (wanted[0] == 50)
