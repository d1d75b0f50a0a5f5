"""Scale, zero point and codes: worked examples, ONNX Runtime's QuantizeLinear, and properties."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from calib8.qparams import (
    FLOAT32_MAX,
    FLOAT32_TINY,
    INT8,
    INT8_SYMMETRIC,
    UINT8,
    QParams,
    QuantSpec,
    activation_qparams,
    dequantize,
    quantize,
    representable_range,
    round_half_away,
    within_upper_limit,
)

SPECS = {"uint8": UINT8, "int8": INT8, "symmetric": INT8_SYMMETRIC, "uint16": QuantSpec(16)}
specs = st.sampled_from(sorted(SPECS)).map(SPECS.__getitem__)
bounds = st.floats(-FLOAT32_MAX, FLOAT32_MAX, width=32)
ranges = st.tuples(bounds, bounds).map(sorted)


@pytest.mark.parametrize(
    ("minimum", "maximum", "scale", "zero_point", "low", "high"),
    [
        (-0.1, 1.0, 0.004313726, 23, -0.09921569, 1.00078428),
        (-0.0001, 1.0, 1.0001 / 255, 0, 0.0, 1.0001),
        (0.5, 2.0, 2.0 / 255, 0, 0.0, 2.0),
        (-3.0, -1.0, 3.0 / 255, 255, -3.0, 0.0),
        (0.0, 6.0, 6.0 / 255, 0, 0.0, 6.0),
    ],
)
def test_a_range_is_widened_and_nudged_so_that_zero_is_a_code(
    minimum: float, maximum: float, scale: float, zero_point: int, low: float, high: float
) -> None:
    qparams = activation_qparams(minimum, maximum, UINT8)
    assert qparams.scale == pytest.approx(scale, rel=1e-6)
    assert qparams.zero_point == zero_point
    assert representable_range(qparams, UINT8) == pytest.approx((low, high), rel=1e-6)


def test_of_two_equally_near_zero_points_the_one_farther_from_code_zero_is_taken() -> None:
    assert activation_qparams(-127.5, 127.5, UINT8) == QParams(1.0, 128)
    assert activation_qparams(-127.5, 127.5, INT8) == QParams(1.0, -1)


@pytest.mark.parametrize(
    ("limit", "bits"),
    [(6.0, "3d418306"), (2.6408, "3caa578d"), (1.0, "3c010204")],
)
def test_symmetric_scales_have_the_bits_that_tensorrt_writes(limit: float, bits: str) -> None:
    qparams = activation_qparams(-limit / 3, limit, INT8_SYMMETRIC)
    assert struct.pack(">f", qparams.scale).hex() == bits
    assert qparams.zero_point == 0


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("bound", [0.0, 1e-38, 1e-45])
def test_a_range_too_small_for_a_scale_counts_as_zero(spec: QuantSpec, bound: float) -> None:
    assert activation_qparams(-bound, bound, spec) == QParams(1.0, 0 if spec.symmetric else spec.qmin)


@pytest.mark.parametrize(
    ("low", "high"),
    [(1.0, -1.0), (float("nan"), 1.0), (0.0, float("nan")), (0.0, float("inf")), (-1e39, 0.0)],
)
def test_what_is_no_range_is_refused(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="is not a range"):
        activation_qparams(low, high, UINT8)


@pytest.mark.parametrize("bits", [1, 0, 17])
def test_impossible_widths_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match=str(bits)):
        QuantSpec(bits)


def test_symmetric_needs_a_sign() -> None:
    with pytest.raises(ValueError, match="signed"):
        QuantSpec(8, signed=False, symmetric=True)


def test_limits_and_types_of_the_codes() -> None:
    assert [(spec.qmin, spec.qmax, str(spec.dtype)) for spec in SPECS.values()] == [
        (0, 255, "uint8"),
        (-128, 127, "int8"),
        (-128, 127, "int8"),
        (0, 65535, "uint16"),
    ]
    assert INT8_SYMMETRIC.magnitude_levels == 128


@pytest.mark.parametrize(
    ("value", "nearest"), [(0.5, 1), (-0.5, -1), (2.5, 3), (-2.5, -3), (0.49, 0), (-0.0, 0)]
)
def test_ties_go_away_from_zero(value: float, nearest: int) -> None:
    assert round_half_away(value) == nearest


@given(ranges, specs)
def test_zero_is_a_code_and_the_range_is_covered(bound: list[float], spec: QuantSpec) -> None:
    qparams = activation_qparams(bound[0], bound[1], spec)
    assert spec.qmin <= qparams.zero_point <= spec.qmax
    assert qparams.scale >= FLOAT32_TINY and np.float32(qparams.scale) == qparams.scale
    zero = quantize(np.zeros(1, np.float32), qparams.scale, qparams.zero_point, spec)
    assert zero == qparams.zero_point and dequantize(zero, qparams.scale, qparams.zero_point) == 0.0
    low, high = representable_range(qparams, spec)
    slack = 0.5001 * qparams.scale
    assert low <= min(bound[0], 0.0) + slack and high >= max(bound[1], 0.0) - slack


@given(ranges, specs)
def test_every_code_survives_the_way_through_floats(bound: list[float], spec: QuantSpec) -> None:
    qparams = activation_qparams(bound[0], bound[1], spec)
    codes = np.arange(spec.qmin, spec.qmax + 1).astype(spec.dtype)
    values = dequantize(codes, qparams.scale, qparams.zero_point)
    if np.all(np.isfinite(values)):
        np.testing.assert_array_equal(quantize(values, qparams.scale, qparams.zero_point, spec), codes)


@given(st.floats(2.0**-60, 2.0**60, width=32), st.floats(-3, 0), st.floats(0.9, 1.0), specs)
def test_the_top_code_stays_below_a_limit_and_the_scale_loses_little(
    limit: float, low: float, share: float, spec: QuantSpec
) -> None:
    before = activation_qparams(low * limit, share * limit, spec)
    after = within_upper_limit(before, spec, limit)
    steps = np.float32(spec.qmax - before.zero_point)
    top = np.float32(after.scale) * steps
    assert top <= np.float32(limit)
    assert after.zero_point == before.zero_point and after.scale <= before.scale
    if np.float32(before.scale) * steps > np.float32(limit):
        assert top >= np.float32(limit) * (1 - 4 * np.finfo(np.float32).eps)
    else:
        assert after.scale == before.scale


def test_a_scale_one_bit_too_large_loses_one_bit() -> None:
    before = activation_qparams(0.0, 1.3, UINT8)
    assert np.float32(before.scale) * np.float32(255) > np.float32(1.3)
    after = within_upper_limit(before, UINT8, 1.3)
    assert after.scale == np.nextafter(np.float32(before.scale), np.float32(0))


def test_a_zero_point_rounded_down_costs_half_a_step() -> None:
    before = activation_qparams(-6.0, 6.0, UINT8)
    assert representable_range(before, UINT8)[1] == pytest.approx(6.0235, rel=1e-5)
    after = within_upper_limit(before, UINT8, 6.0)
    assert representable_range(after, UINT8)[1] == pytest.approx(6.0, rel=1e-6)


def test_a_range_without_positive_codes_has_no_upper_limit_to_keep() -> None:
    qparams = activation_qparams(-3.0, -1.0, UINT8)
    assert within_upper_limit(qparams, UINT8, 6.0) == qparams


def runtime_quantize(
    values: npt.NDArray[np.float32], qparams: QParams, spec: QuantSpec
) -> npt.NDArray[np.generic]:
    """QuantizeLinear as ONNX Runtime computes it."""
    kind = helper.np_dtype_to_tensor_dtype(spec.dtype)
    graph = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])],
        "quantize",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None])],
        [helper.make_tensor_value_info("y", kind, [None])],
        [
            helper.make_tensor("s", TensorProto.FLOAT, [], [qparams.scale]),
            helper.make_tensor("z", kind, [], [qparams.zero_point]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    codes: npt.NDArray[np.generic] = session.run(None, {"x": values})[0]
    return codes


@pytest.mark.parametrize("spec", [UINT8, INT8], ids=["uint8", "int8"])
@pytest.mark.parametrize("scale", [1.0, 0.05, 6 / 255, 0.1234567, 3e-5, 1e-20])
def test_codes_are_those_of_onnx_runtime(spec: QuantSpec, scale: float) -> None:
    rng = np.random.default_rng(1)
    scale = float(np.float32(scale))
    for zero_point in (spec.qmin, spec.qmin + 23, spec.qmax):
        ties = (np.arange(-300, 301, dtype=np.float32) + np.float32(0.5)) * np.float32(scale)
        random = rng.standard_normal(20_000).astype(np.float32) * np.float32(scale * 100)
        special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38, -3e38], np.float32)
        values = np.concatenate([ties, random, special])
        expected = runtime_quantize(values, QParams(scale, zero_point), spec)
        actual = quantize(values, scale, zero_point, spec)
        finite = ~np.isnan(values)
        np.testing.assert_array_equal(actual[finite], expected[finite])
        assert actual[~finite] == spec.qmin


def test_the_published_codes_of_special_values() -> None:
    values = np.array([2.5, 3.5, -2.5, 200.0, -200.0, np.inf, -np.inf, np.nan], np.float32)
    codes = quantize(values, 1.0, 0, INT8)
    np.testing.assert_array_equal(codes, [2, 4, -2, 127, -128, 127, -128, -128])
    assert codes.dtype == np.int8


def test_ties_are_rounded_before_the_zero_point_is_added() -> None:
    np.testing.assert_array_equal(quantize(np.array([0.5, 1.5], np.float32), 1.0, 1, UINT8), [1, 3])


def test_per_channel_scales_broadcast() -> None:
    values = np.array([[0.5, -1.27], [2.0, 1.0]], np.float32)
    scale = np.array([[0.01], [2.0]], np.float32)
    codes = quantize(values, scale, 0, INT8_SYMMETRIC)
    np.testing.assert_array_equal(codes, [[50, -127], [1, 0]])
    np.testing.assert_array_equal(
        dequantize(codes, scale, 0), np.array([[0.5, -1.27], [2.0, 0.0]], np.float32)
    )
