"""A quantized layer computes what its codes say, as near to the float layer as its scales promise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper
from quantized_models import CONV, ORT, SCHEMES, initializers, quantized

from calib8.qparams import QParams, dequantize, quantize
from calib8.scheme import QuantScheme
from small_models import Array, normal, onnx_model, run

SINGLE: dict[str, tuple[str, str, str, dict[str, Array]]] = {
    "gemm": ("float[N,6] x", "float[N,4] y", "y = Gemm(x, w, b)", {"w": normal(6, 4), "b": normal(4)}),
    "gemm, transposed": (
        "float[N,6] x",
        "float[N,4] y",
        "y = Gemm<transB=1>(x, w, b)",
        {"w": normal(4, 6), "b": normal(1, 4)},
    ),
    "matmul": ("float[N,5,6] x", "float[N,5,4] y", "y = MatMul(x, w)", {"w": normal(6, 4)}),
    "conv": (
        "float[N,3,8,8] x",
        "float[N,8,8,8] y",
        f"y = {CONV}(x, w, b)",
        {"w": normal(8, 3, 3, 3), "b": normal(8)},
    ),
    "grouped": (
        "float[N,4,8,8] x",
        "float[N,8,6,6] y",
        "y = Conv<group=2>(x, w, b)",
        {"w": normal(8, 2, 3, 3), "b": normal(8)},
    ),
    "depthwise": (
        "float[N,4,8,8] x",
        "float[N,4,6,6] y",
        "y = Conv<group=4>(x, w)",
        {"w": normal(4, 1, 3, 3)},
    ),
    "1-d": ("float[N,4,9] x", "float[N,6,7] y", "y = Conv(x, w)", {"w": normal(6, 4, 3)}),
    "transposed": (
        "float[N,4,8,8] x",
        "float[N,6,16,16] y",
        "y = ConvTranspose<strides=[2,2]>(x, w, b)",
        {"w": normal(4, 6, 2, 2), "b": normal(6)},
    ),
    "transposed, grouped": (
        "float[N,4,8,8] x",
        "float[N,6,16,16] y",
        "y = ConvTranspose<strides=[2,2], group=2>(x, w, b)",
        {"w": normal(4, 3, 2, 2), "b": normal(6)},
    ),
}


def with_constants(proto: onnx.ModelProto, arrays: Mapping[str, Array]) -> onnx.ModelProto:
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    del changed.graph.initializer[:]
    changed.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return changed


def broadcast_scale(model: ir.Model, weight: Array) -> Array:
    """The stored weight scales in the shape of the weight, along the axis that the graph states."""
    [node] = [node for node in model.graph if node.name == "w/codes/DequantizeLinear"]
    along = [1] * weight.ndim
    along[node.attributes["axis"].as_int()] = -1
    return np.broadcast_to(initializers(model)["w/codes/scale"].reshape(along), weight.shape)


def fake_quantized(values: Array, qparams: QParams, scheme: QuantScheme) -> Array:
    codes = quantize(values.astype(np.float32), qparams.scale, qparams.zero_point, scheme.activations)
    return dequantize(codes.astype(np.int64), qparams.scale, qparams.zero_point)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize(
    "scheme", [ORT, SCHEMES["int8"], SCHEMES["tengine"]], ids=["uint8", "int8", "symmetric"]
)
def test_one_layer_is_the_float_layer_of_rounded_numbers(name: str, scheme: QuantScheme) -> None:
    inputs, outputs, body, constants = SINGLE[name]
    proto = onnx_model(inputs, outputs, body, constants)
    shape = [dim.dim_value or 3 for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    x = normal(*shape, seed=7)
    _, _, result = quantized(proto, {"x": x}, scheme)
    arrays = initializers(result.model)
    weight_scale = broadcast_scale(result.model, constants["w"])
    rounded = {"w": arrays["w/codes"] * weight_scale}
    assert np.all(np.abs(rounded["w"] - constants["w"]) <= 0.501 * weight_scale)
    if "b" in constants:
        rounded["b"] = arrays["b/codes"].astype(np.float32) * arrays["b/codes/scale"]
    coded_x = fake_quantized(x, result.qparams["x"], scheme)
    [expected] = run(with_constants(proto, rounded), {"x": coded_x})
    if "y" in result.qparams:
        expected = fake_quantized(expected, result.qparams["y"], scheme)
    [actual] = run(result.model, {"x": x})
    step = result.qparams["y"].scale if "y" in result.qparams else 0.0
    difference = np.abs(actual - expected)
    assert np.max(difference) <= 1.001 * step + 1e-4
    assert np.mean(difference > 0.5 * step + 1e-4) < 0.01, "only ties may fall to the other side"


@pytest.mark.parametrize("name", SINGLE)
def test_one_layer_is_as_near_to_the_float_layer_as_its_scales_promise(name: str) -> None:
    inputs, outputs, body, constants = SINGLE[name]
    proto = onnx_model(inputs, outputs, body, constants)
    shape = [dim.dim_value or 3 for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    x = normal(*shape, seed=7)
    _, _, result = quantized(proto, {"x": x}, ORT)
    half_steps = (broadcast_scale(result.model, constants["w"]) / 2).astype(np.float32)
    no_bias = {"b": np.zeros_like(constants["b"])} if "b" in constants else {}
    rounded_weights = {"w": np.abs(constants["w"]) + half_steps, **no_bias}
    rounded_input = np.full_like(x, 0.5 * result.qparams["x"].scale)
    [from_input] = run(with_constants(proto, rounded_weights), {"x": rounded_input})
    [from_weights] = run(with_constants(proto, {"w": half_steps, **no_bias}), {"x": np.abs(x)})
    from_output = 1.001 * result.qparams["y"].scale if "y" in result.qparams else 0.0
    [expected], [actual] = run(proto, {"x": x}), run(result.model, {"x": x})
    assert np.all(np.abs(actual - expected) <= from_input + from_weights + from_output + 1e-4)
