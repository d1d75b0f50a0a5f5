"""Rounding inside a float network: the bits of NumPy's quantizers, in every layout and type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from calib8 import qparams
from calib8.model.layer import Layer
from calib8.qparams import FLOAT32_MAX, FLOAT32_TINY, INT8, INT8_SYMMETRIC, UINT8, QuantSpec
from calib8.quantization import weights
from calib8.scheme import target_scheme
from calib8.training.functional import (
    fake_quantize,
    fake_quantize_lsq,
    fake_quantize_range,
    fake_quantize_weight,
)
from calib8.training.scales import activation_qparams, lsq_scale, weight_scale

Floats = npt.NDArray[np.float32]
SPECS = {
    **{f"u{bits}": QuantSpec(bits) for bits in range(2, 9)},
    **{f"s{bits}": QuantSpec(bits, signed=True) for bits in range(2, 9)},
    **{f"symmetric{bits}": QuantSpec(bits, signed=True, symmetric=True) for bits in range(2, 9)},
    "u16": QuantSpec(16),
}
SCALES = (0.5, 0.1, 0.0043137254, 1.0 / 3.0, 6.0 / 255.0, 1e-30, FLOAT32_TINY, 1e30)
bounds = st.floats(-FLOAT32_MAX, FLOAT32_MAX, width=32)


def bits_of(values: Tensor | npt.NDArray[np.floating]) -> npt.NDArray[np.int32]:
    """So that 0 differs from −0."""
    array = values.detach().numpy() if isinstance(values, Tensor) else values
    assert array.dtype == np.float32
    return np.ascontiguousarray(array).view(np.int32)


def expected(
    x: Floats, scale: float | Floats, zero_point: int | npt.NDArray[np.int64], spec: QuantSpec
) -> Floats:
    codes = qparams.quantize(x, np.asarray(scale, np.float32), zero_point, spec)
    return qparams.dequantize(codes.astype(np.int64), np.asarray(scale, np.float32), zero_point)


def telling_values(scale: float, spec: QuantSpec, zero_point: int) -> Floats:
    """Points half-way between codes and their neighbours, codes, values beyond all codes, random ones."""
    steps = np.arange(spec.qmin - zero_point - 3, spec.qmax - zero_point + 4)[:: max(1, spec.qmax // 500)]
    with np.errstate(over="ignore"):
        ties = np.concatenate([steps + 0.5, steps]).astype(np.float32) * np.float32(scale)
        rng = np.random.default_rng(3)
        some = (rng.uniform(steps[0], steps[-1], 500) * scale).astype(np.float32)
        parts = (ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf)), some)
    ends = np.array([np.inf, -np.inf, 0.0, -0.0, FLOAT32_MAX, -FLOAT32_MAX, 1e-45, -1e-45], np.float32)
    return np.concatenate([*parts, ends])


def zero_points(spec: QuantSpec) -> list[int]:
    return (
        [0] if spec.symmetric else sorted({spec.qmin, spec.qmin + 1, (spec.qmin + spec.qmax) // 2, spec.qmax})
    )


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_bits_of_quantize_and_dequantize(spec: QuantSpec) -> None:
    for scale in SCALES:
        for zero_point in zero_points(spec):
            x = telling_values(scale, spec, zero_point)
            y = fake_quantize(torch.from_numpy(x), torch.tensor(scale), zero_point, spec.qmin, spec.qmax)
            np.testing.assert_array_equal(bits_of(y), bits_of(expected(x, scale, zero_point, spec)))


def test_scales_and_zero_points_may_be_numbers_or_tensors() -> None:
    x = telling_values(0.1, UINT8, 7)
    wanted = bits_of(expected(x, 0.1, 7, UINT8))
    for scale in (0.1, torch.tensor(0.1), torch.tensor([0.1])):
        for zero_point in (7, torch.tensor(7, dtype=torch.int32), torch.tensor(7)):
            y = fake_quantize(torch.from_numpy(x), scale, zero_point, 0, 255)
            np.testing.assert_array_equal(bits_of(y), wanted)
            one = fake_quantize(torch.from_numpy(x[None]), torch.as_tensor(scale), zero_point, 0, 255, 0)
            np.testing.assert_array_equal(bits_of(one), wanted[None])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_every_channel_has_its_own_scale_and_zero_point(axis: int) -> None:
    rng = np.random.default_rng(0)
    scale = rng.uniform(0.01, 0.2, 6).astype(np.float32)
    zero_point = rng.integers(-128, 128, 6)
    shape = [1, 1, 1]
    shape[axis] = 6
    x = rng.normal(0, 9, (6, 6, 6)).astype(np.float32)
    wanted = expected(x, scale.reshape(shape), zero_point.reshape(shape), INT8)
    y = fake_quantize(
        torch.from_numpy(x), torch.from_numpy(scale), torch.from_numpy(zero_point), -128, 127, axis
    )
    np.testing.assert_array_equal(bits_of(y), bits_of(wanted))
    same = fake_quantize(torch.from_numpy(x), torch.from_numpy(scale), 3, -128, 127, axis)
    np.testing.assert_array_equal(bits_of(same), bits_of(expected(x, scale.reshape(shape), 3, INT8)))


def test_nan_stays_nan_and_infinity_takes_the_last_code() -> None:
    x = torch.tensor([torch.nan, torch.inf, -torch.inf])
    y = fake_quantize(x, 0.1, 3, 0, 255)
    assert y[0].isnan()
    assert y[1:].tolist() == pytest.approx([25.2, -0.3])
    channels = fake_quantize(x[:, None], torch.tensor([0.1]), torch.tensor([3]), 0, 255, 1)
    torch.testing.assert_close(channels[:, 0], y, rtol=0, atol=0, equal_nan=True)


def test_a_scale_that_does_not_fit_is_refused() -> None:
    with pytest.raises(RuntimeError):
        fake_quantize(torch.ones(4, 3), torch.ones(3), 0, 0, 255)
    with pytest.raises(RuntimeError):
        fake_quantize(torch.ones(4, 3), torch.ones(2), 0, 0, 255, 1)


# Weights: the lowest code is not used.


@pytest.mark.parametrize("width", range(2, 9))
@pytest.mark.parametrize("axis", [0, 1])
def test_weights_have_the_bits_of_quantized_weights(width: int, axis: int) -> None:
    spec = QuantSpec(width, signed=True, symmetric=True)
    limit = spec.magnitude_levels - 1
    w = np.random.default_rng(width).normal(0, 0.1, (8, 6, 3, 3)).astype(np.float32)
    w[2] = 0.0
    w[:, 4] *= 1e-3
    wanted_scale = weights.weight_scales(w, axis, spec)
    scale = weight_scale(torch.from_numpy(w), axis, limit)
    np.testing.assert_array_equal(bits_of(scale), bits_of(wanted_scale))
    codes = weights.quantize_weight(w, wanted_scale, axis, spec)
    shape = [1] * 4
    shape[axis] = -1
    wanted = qparams.dequantize(codes, wanted_scale.reshape(shape), 0)
    np.testing.assert_array_equal(
        bits_of(fake_quantize_weight(torch.from_numpy(w), scale, axis, limit)), bits_of(wanted)
    )


@pytest.mark.parametrize("scale", [0.1, 0.003, 1.0 / 3.0])
def test_weights_on_ties_and_beyond_the_codes(scale: float) -> None:
    w = telling_values(scale, INT8_SYMMETRIC, 0)
    w = w[np.abs(w) < 1e3].reshape(1, -1)
    codes = weights.quantize_weight(w, np.array([scale], np.float32), 0, INT8_SYMMETRIC)
    wanted = bits_of(qparams.dequantize(codes, np.float32(scale), 0))
    for given_scale in (torch.tensor([scale]), torch.tensor(scale)):
        np.testing.assert_array_equal(
            bits_of(fake_quantize_weight(torch.from_numpy(w), given_scale, 0, 127)), wanted
        )


def test_one_scale_per_weight_is_that_of_quantize_layer() -> None:
    w = np.random.default_rng(1).normal(size=(5, 4, 3, 3)).astype(np.float32)
    layer = Layer(ir.node("Conv", [ir.Value(name="x"), ir.Value(name="w")]))
    scheme = target_scheme("onnxruntime").with_weights("per-tensor")
    quantized = weights.quantize_layer(layer, w, None, 0.1, scheme)
    scale = weight_scale(torch.from_numpy(w), 0, 127, per_tensor=True)
    assert scale.shape == ()
    np.testing.assert_array_equal(bits_of(scale), bits_of(quantized.weight.scale))
    wanted = qparams.dequantize(quantized.weight.values, quantized.weight.scale, 0)
    np.testing.assert_array_equal(
        bits_of(fake_quantize_weight(torch.from_numpy(w), scale, 0, 127)), bits_of(wanted)
    )


@pytest.mark.parametrize(
    "channels",
    [
        [1.27, 0.0, 2.54],
        [0.0, 0.0, 0.0],
        [1e-40, 1.0, 0.0],
        [1e-37, 1e-38, 0.0],
        [1e-44, 0.0, 1e-39],
        [1e-35, 0.0, 0.0],
    ],
)
def test_channels_of_zeros_take_the_same_substitute(channels: list[float]) -> None:
    w = np.array(channels, np.float32).reshape(3, 1)
    np.testing.assert_array_equal(
        bits_of(weight_scale(torch.from_numpy(w), 0, 127)),
        bits_of(weights.weight_scales(w, 0, INT8_SYMMETRIC)),
    )


def test_scales_of_weights_have_no_gradient_and_accept_other_shapes() -> None:
    w = torch.randn(3, 4, requires_grad=True)
    assert not weight_scale(w, 0, 127).requires_grad
    np.testing.assert_array_equal(weight_scale(w, -1, 127).numpy(), weight_scale(w.t(), 0, 127).numpy())
    assert weight_scale(torch.tensor([1.27, -2.54]), 0, 127).tolist() == pytest.approx([0.01, 0.02])
    assert weight_scale(torch.zeros(3, 0, 2), 0, 127).tolist() == [1.0, 1.0, 1.0]
    assert weight_scale(torch.zeros(0, 3), 0, 127).shape == (0,)
    assert weight_scale(w.bfloat16(), 0, 127).dtype == torch.float32


# Scale and zero point of a range.


@pytest.mark.parametrize(
    ("minimum", "maximum", "qmin", "scale", "zero_point", "low", "high"),
    [
        (-0.1, 1.0, 0, 0.004313726, 23, -0.09921569, 1.00078428),
        (-1.0, 1.0, 0, 2.0 / 255.0, 127, -0.99607849, 1.00392163),  # the float32 scale breaks the tie
        (-1.0, 1.0, 1, 2.0 / 254.0, 128, -1.0, 1.0),
        (-0.0001, 1.0, 0, 1.0001 / 255.0, 0, 0.0, 1.0001),
        (0.5, 2.0, 0, 2.0 / 255.0, 0, 0.0, 2.0),
    ],
)
def test_worked_ranges(
    minimum: float, maximum: float, qmin: int, scale: float, zero_point: int, low: float, high: float
) -> None:
    ends = torch.tensor(minimum), torch.tensor(maximum)
    step, code_of_zero = activation_qparams(*ends, qmin, 255, symmetric=False)
    assert (float(step), int(code_of_zero)) == (pytest.approx(scale, rel=1e-6), zero_point)
    reach = fake_quantize_range(torch.tensor([-9.0, 9.0]), *ends, qmin, 255)
    assert reach.tolist() == pytest.approx([low, high], rel=1e-6)


def test_the_tie_of_a_range_around_zero_falls_as_in_qparams() -> None:
    one = torch.tensor(1.0)
    for spec, zero_point in ((UINT8, 127), (INT8, -1)):
        assert qparams.activation_qparams(-1.0, 1.0, spec).zero_point == zero_point
        assert activation_qparams(-one, one, spec.qmin, spec.qmax, False)[1] == zero_point
    half = torch.tensor(127.5)
    assert activation_qparams(-half, half, 0, 255, False)[1] == 128
    assert activation_qparams(-half, half, -128, 127, False)[1] == -1


@given(
    st.lists(st.tuples(bounds, bounds).map(sorted), min_size=1, max_size=30), st.sampled_from(sorted(SPECS))
)
def test_ranges_have_the_bits_of_qparams(ranges: list[list[float]], name: str) -> None:
    spec = SPECS[name]
    minima, maxima = np.array(ranges).T
    scales, codes = qparams.activation_qparams_of_many(minima, maxima, spec)
    ends = torch.tensor(minima, dtype=torch.float32), torch.tensor(maxima, dtype=torch.float32)
    scale, zero_point = activation_qparams(*ends, spec.qmin, spec.qmax, spec.symmetric)
    np.testing.assert_array_equal(bits_of(scale), bits_of(scales.astype(np.float32)))
    np.testing.assert_array_equal(zero_point.numpy(), codes)


@pytest.mark.parametrize("spec", [UINT8, INT8, INT8_SYMMETRIC, QuantSpec(4)])
def test_everyday_ranges_have_the_bits_of_qparams(spec: QuantSpec) -> None:
    rng = np.random.default_rng(5)
    minima = np.concatenate([-rng.exponential(3.0, 20000), np.zeros(20000), rng.uniform(0, 1, 9)])
    maxima = np.concatenate([rng.exponential(3.0, 40000), np.full(9, 2.0)])
    minima, maxima = (
        minima.astype(np.float32).astype(np.float64),
        maxima.astype(np.float32).astype(np.float64),
    )
    scales, codes = qparams.activation_qparams_of_many(minima, maxima, spec)
    ends = torch.from_numpy(minima).float(), torch.from_numpy(maxima).float()
    scale, zero_point = activation_qparams(*ends, spec.qmin, spec.qmax, spec.symmetric)
    np.testing.assert_array_equal(bits_of(scale), bits_of(scales.astype(np.float32)))
    np.testing.assert_array_equal(zero_point.numpy(), codes)


def test_ranges_too_small_for_a_scale_count_as_zero() -> None:
    tiny, nothing = torch.tensor(1e-37), torch.tensor(0.0)
    assert [int(value) for value in activation_qparams(nothing, tiny, -128, 127, False)] == [1, -128]
    assert [int(value) for value in activation_qparams(-tiny, tiny, -128, 127, True)] == [1, 0]


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_range_with_nan_gives_nan(symmetric: bool) -> None:
    x, nan, one = torch.ones(3), torch.tensor(torch.nan), torch.tensor(1.0)
    for ends in ((nan, one), (-one, nan)):
        scale, zero_point = activation_qparams(*ends, -128, 127, symmetric)
        assert scale.isnan()
        assert zero_point == (0 if symmetric else -128)
        assert fake_quantize_range(x, *ends, -128, 127, symmetric).isnan().all()


@pytest.mark.parametrize("spec", [UINT8, INT8, INT8_SYMMETRIC], ids=["uint8", "int8", "symmetric"])
def test_a_trained_range_rounds_as_its_scale_and_zero_point_do(spec: QuantSpec) -> None:
    for minimum, maximum in ((-1.0, 1.0), (0.0, 6.0), (-0.375, 2.75), (0.5, 2.0), (-2.0, -1.0), (0.0, 0.0)):
        found = qparams.activation_qparams(minimum, maximum, spec)
        x = telling_values(found.scale, spec, found.zero_point)
        ends = torch.tensor(minimum), torch.tensor(maximum)
        y = fake_quantize_range(torch.from_numpy(x), *ends, spec.qmin, spec.qmax, spec.symmetric)
        wanted = expected(x, found.scale, found.zero_point, spec)
        np.testing.assert_array_equal(bits_of(y), bits_of(wanted))


# Learned scales.


def test_a_learned_scale_rounds_like_a_fixed_one() -> None:
    for scale in SCALES:
        x = torch.from_numpy(telling_values(scale, UINT8, 9))
        y = fake_quantize_lsq(x, torch.nn.Parameter(torch.tensor(scale)), 9, 0, 255)
        np.testing.assert_array_equal(bits_of(y), bits_of(fake_quantize(x, scale, 9, 0, 255)))


def test_scales_below_all_normal_ones_act_as_the_smallest() -> None:
    x = torch.tensor([0.0, 1.0, -1.0])
    for scale in (0.0, -3.0, 1e-40):
        y = fake_quantize_lsq(x, torch.tensor(scale), 0, -128, 127)
        assert y.tolist() == [0.0, 127 * FLOAT32_TINY, -128 * FLOAT32_TINY]


def test_learned_scales_start_at_twice_the_mean_over_the_root_of_the_limit() -> None:
    x = torch.tensor([[1.0, -3.0], [0.5, 0.5], [0.0, 0.0]])
    assert float(lsq_scale(x, 16)) == pytest.approx(2.0 * (5.0 / 6.0) / 4.0)
    assert lsq_scale(x, 16, axis=0).tolist() == pytest.approx([1.0, 0.25, 0.01])
    assert lsq_scale(x, 16, axis=1).tolist() == pytest.approx([0.25, 3.5 / 6.0])
    assert lsq_scale(x[0], 4, axis=0).tolist() == [1.0, 3.0]
    assert float(lsq_scale(torch.zeros(2, 2), 127)) == float(lsq_scale(torch.zeros(0), 127)) == 1.0
    assert lsq_scale(x.half().requires_grad_(), 16).dtype == torch.float32
    assert not lsq_scale(x.requires_grad_(), 16).requires_grad


# Layouts and types, the same for all four.

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "fake_quantize": lambda x: fake_quantize(x, torch.tensor(0.1), 3, 0, 255),
    "per channel": lambda x: fake_quantize(
        x, torch.tensor([0.1, 0.2, 0.3]), torch.tensor([3, 0, 9]), 0, 255, 1
    ),
    "weight": lambda x: fake_quantize_weight(x, torch.tensor([0.01, 0.02, 0.03]), 1, 127),
    "weight, one scale": lambda x: fake_quantize_weight(x, torch.tensor(0.01), 1, 127),
    "lsq": lambda x: fake_quantize_lsq(x, torch.tensor(0.1), 3, 0, 255),
    "lsq per channel": lambda x: fake_quantize_lsq(x, torch.tensor([0.1, 0.2, 0.3]), 0, -128, 127, 1),
    "range": lambda x: fake_quantize_range(x, torch.tensor(-1.0), torch.tensor(2.0), 0, 255),
}
functions = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


@functions
def test_every_layout_gives_the_same_values_and_is_kept(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(4, 3, 5, 7, generator=torch.Generator().manual_seed(0))
    before, wanted = x.clone(), function(x)
    assert wanted.is_contiguous()
    last = x.to(memory_format=torch.channels_last)
    strided = torch.empty(8, 3, 5, 14)[::2, :, :, 1::2].copy_(x)
    for other in (last, strided, x.transpose(0, 3).contiguous().transpose(0, 3), x.clone().requires_grad_()):
        torch.testing.assert_close(function(other), wanted, rtol=0, atol=0)
    assert function(last).is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(x, before)
    volume = x.unsqueeze(2).to(memory_format=torch.channels_last_3d)
    assert function(volume).is_contiguous(memory_format=torch.channels_last_3d)


@functions
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_computed_in_float32(function: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    x = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(1)).to(dtype)
    before, y = x.clone(), function(x)
    assert y.dtype == torch.float32
    assert torch.equal(y, function(x.float()))
    assert torch.equal(x, before)


@functions
def test_autocast_changes_nothing(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(2))
    wanted = function(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = function(x)
        scale = weight_scale(x, 1, 127)
        ends = activation_qparams(x.amin(), x.amax(), 0, 255, False)
        start = lsq_scale(x, 127)
    assert y.dtype == scale.dtype == ends[0].dtype == start.dtype == torch.float32
    assert torch.equal(y, wanted)
    assert torch.equal(scale, weight_scale(x, 1, 127))
    assert torch.equal(ends[0], activation_qparams(x.amin(), x.amax(), 0, 255, False)[0])
    assert torch.equal(start, lsq_scale(x, 127))


@functions
@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 3, 0)])
def test_nothing_in_nothing_out(function: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> None:
    assert function(torch.zeros(shape)).shape == shape
