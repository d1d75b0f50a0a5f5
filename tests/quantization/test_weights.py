"""Weights and biases as integers: worked examples, layouts, and sums that cannot overflow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib8.model.layer import Layer
from calib8.qparams import INT8_SYMMETRIC, QuantSpec
from calib8.quantization.weights import (
    INT32_MAX,
    quantize_bias,
    quantize_layer,
    quantize_weight,
    room_for_bias,
    weight_scales,
)
from calib8.scheme import target_scheme
from small_models import normal

Floats = npt.NDArray[np.float32]
SPEC = INT8_SYMMETRIC
SCHEME = target_scheme("onnxruntime")


def layer(op_type: str, **attributes: int) -> Layer:
    return Layer(ir.node(op_type, [ir.Value(name="x"), ir.Value(name="w")], dict(attributes)))


def floats(*values: float) -> Floats:
    return np.array(values, np.float32)


def test_the_worked_example() -> None:
    weight = floats(0.5, -1.27, 0.004).reshape(1, 3)
    scale = weight_scales(weight, 0, SPEC)
    assert scale == np.float32(0.01)
    np.testing.assert_array_equal(quantize_weight(weight, scale, 0, SPEC), [[50, -127, 0]])


def test_the_lowest_code_is_never_used() -> None:
    codes = quantize_weight(floats(-2.0, 2.0).reshape(2, 1), floats(0.01, 0.01), 0, SPEC)
    np.testing.assert_array_equal(codes, [[-127], [127]])
    assert codes.dtype == np.int8


def test_fewer_bits_have_fewer_codes() -> None:
    spec = QuantSpec(4, signed=True, symmetric=True)
    weight = floats(0.7, -0.36, 0.1).reshape(1, 3)
    scale = weight_scales(weight, 0, spec)
    assert scale == np.float32(0.1)
    np.testing.assert_array_equal(quantize_weight(weight, scale, 0, spec), [[7, -4, 1]])


def test_a_dead_channel_takes_a_hundredth_of_the_largest_scale() -> None:
    weight = floats(1.27, 0.0, 2.54).reshape(3, 1)
    np.testing.assert_allclose(weight_scales(weight, 0, SPEC), [0.01, 0.0002, 0.02], rtol=1e-6)
    np.testing.assert_array_equal(weight_scales(np.zeros((2, 3), np.float32), 0, SPEC), [1.0, 1.0])


@pytest.mark.parametrize("axis", [0, 1])
def test_scales_are_per_channel(axis: int) -> None:
    weight = normal(4, 6, 3, 3)
    scale = weight_scales(weight, axis, SPEC)
    others = tuple(k for k in range(4) if k != axis)
    np.testing.assert_allclose(scale, np.abs(weight).max(axis=others) / 127, rtol=1e-6)
    codes = quantize_weight(weight, scale, axis, SPEC)
    np.testing.assert_array_equal(np.abs(codes.astype(np.int64)).max(axis=others), 127)
    shape = [1, 1, 1, 1]
    shape[axis] = -1
    assert np.all(np.abs(codes * scale.reshape(shape) - weight) <= 0.5001 * scale.reshape(shape))


def test_a_bias_too_large_enlarges_the_weight_scale() -> None:
    scale = room_for_bias(floats(1e-7), floats(1.0).reshape(1, 1), 1e-3)
    assert scale[0] == pytest.approx(9.3132e-7, rel=1e-4)
    [code] = quantize_bias(floats(1.0), np.float32(1e-3) * scale)
    assert abs(int(code)) <= INT32_MAX // 2 + 1_000


def test_an_ordinary_bias_changes_nothing() -> None:
    scale = floats(0.01, 0.02)
    np.testing.assert_array_equal(room_for_bias(scale, floats(3.0, -4.0).reshape(1, 2), 0.05), scale)
    np.testing.assert_array_equal(quantize_bias(floats(3.0, -4.0), np.float32(0.05) * scale), [6000, -4000])


def test_bias_codes_saturate_instead_of_changing_their_sign() -> None:
    codes = quantize_bias(floats(1e30, -1e30), floats(1e-3, 1e-3))
    np.testing.assert_array_equal(codes, [INT32_MAX, -INT32_MAX])
    assert codes.dtype == np.int32


def test_a_bias_scale_below_float32_is_lifted() -> None:
    weight, bias = floats(1e-20, -1e-20).reshape(2, 1), floats(1e-41, 0.0)
    result = quantize_layer(layer("Conv"), weight.reshape(2, 1, 1, 1), bias, 1e-25, SCHEME)
    assert np.all(result.bias.scale >= np.finfo(np.float32).tiny * 0.999)
    assert result.bias is not None and np.all(np.abs(result.bias.values.astype(np.int64)) <= 1)


def test_a_bias_out_of_all_proportion_is_refused() -> None:
    with pytest.raises(OverflowError, match="bias is too large"):
        quantize_layer(layer("Conv"), normal(1, 1, 1, 1), floats(1e37), 1e-22, SCHEME)


def test_sums_that_can_overflow_are_refused() -> None:
    just_fits = INT32_MAX // (127 * 255)
    quantize_layer(layer("MatMul"), np.ones((just_fits, 1), np.float32), None, 0.1, SCHEME)
    with pytest.raises(OverflowError, match="int32 sums can overflow"):
        quantize_layer(layer("MatMul"), np.ones((just_fits + 1, 1), np.float32), None, 0.1, SCHEME)


def test_the_bias_counts_towards_the_sum() -> None:
    count = INT32_MAX // (127 * 255) - 1
    weight = np.full((count, 1), 127.0, np.float32)
    quantize_layer(layer("Gemm"), weight, floats(30_000.0), 1.0, SCHEME)
    with pytest.raises(OverflowError):
        quantize_layer(layer("Gemm"), weight, floats(80_000.0), 1.0, SCHEME)


def test_small_weights_leave_room_for_more_products() -> None:
    weight = np.full((200_000, 1), 0.01, np.float32)
    weight[0] = 1.27
    result = quantize_layer(layer("MatMul"), weight, None, 0.1, SCHEME)
    assert int(np.abs(result.weight.values.astype(np.int64)).sum()) * 255 <= INT32_MAX


def test_a_grouped_transposed_convolution_has_one_bias_scale_per_output_channel() -> None:
    weight = normal(6, 2, 3, 3)  # 3 groups of 2 inputs and 2 outputs: 6 output channels, 2 weight scales
    bias = normal(6, seed=1)
    result = quantize_layer(layer("ConvTranspose", group=3), weight, bias, 0.05, SCHEME)
    assert result.weight.axis == 1 and result.weight.scale.shape == (2,)
    np.testing.assert_array_equal(result.bias.scale, np.float32(0.05) * np.tile(result.weight.scale, 3))
    assert result.bias is not None
    assert np.all(np.abs(result.bias.values * result.bias.scale - bias) <= 0.501 * result.bias.scale)


def test_the_group_with_the_largest_bias_decides() -> None:
    weight = np.full((2, 1, 1, 1), 1e-7, np.float32)
    result = quantize_layer(layer("ConvTranspose", group=2), weight, floats(0.0, 1.0), 1e-3, SCHEME)
    assert result.weight.scale[0] == pytest.approx(9.3132e-7, rel=1e-4)


@given(
    st.floats(-12, 12).map(lambda exponent: 10.0**exponent),
    st.floats(-9, 3).map(lambda exponent: 10.0**exponent),
    st.floats(-12, 12).map(lambda exponent: 10.0**exponent),
    st.integers(0, 100),
)
def test_no_layer_ever_overflows_or_loses_its_bias(
    size: float, step: float, bias_size: float, seed: int
) -> None:
    weight = normal(4, 3, 3, 3, seed=seed) * np.float32(size)
    bias = normal(4, seed=seed + 1) * np.float32(bias_size)
    step = float(np.float32(step))
    result = quantize_layer(layer("Conv"), weight, bias, step, SCHEME)
    assert result.bias is not None
    sums = np.abs(result.weight.values.astype(np.int64)).sum(axis=(1, 2, 3)) * 255 + np.abs(
        result.bias.values.astype(np.int64)
    )
    assert np.all(sums <= INT32_MAX)
    assert np.all(np.isfinite(result.bias.scale) & (result.bias.scale > 0))
    error = np.abs(result.bias.values * result.bias.scale.astype(np.float64) - bias)
    assert np.all(error <= 0.501 * result.bias.scale.astype(np.float64) + 1e-6 * np.abs(bias))
