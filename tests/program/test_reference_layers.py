"""Layers of the reference against plain loops over Python integers, and worked examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_loops import (
    codes,
    conv_sums,
    conv_transpose_sums,
    depthwise_sums,
    run_one,
    sums,
)

from calib8.program.instructions import (
    Conv,
    ConvTranspose,
    DepthwiseConv,
    FullyConnected,
    MatMul,
    Mul,
    Requantize,
)
from calib8.program.rounding.linear import layer_rescale, sums_rescale
from calib8.program.rules import PROFILES, FixedRescale, FloatProduct, FloatRescale, Profile

Array = npt.NDArray[Any]
pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
TYPES = [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8")]
"""Types of activation and weight."""


def random_codes(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """All codes, the extremes more often than by chance."""
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max + 1, shape)
    extreme = rng.choice([info.min, info.max], shape)
    return np.where(rng.random(shape) < 0.25, extreme, values).astype(dtype)


def zero_point(rng: np.random.Generator, dtype: str) -> int:
    return int(random_codes(rng, (), dtype))


def weights(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, outputs: int) -> dict[str, Any]:
    """A layer without rescale: weight with zero points (one, or one per channel) and bias."""
    points = rng.choice([1, outputs]) if dtype == "uint8" else 1
    return {
        "name": "layer",
        "inputs": (0,),
        "outputs": (1,),
        "weight": random_codes(rng, shape, dtype),
        "weight_zero_point": rng.integers(0, 256, points).astype(np.int32)
        if dtype == "uint8"
        else np.zeros(1, np.int32),
        "bias": rng.integers(-(1 << 20), 1 << 20, outputs).astype(np.int32),
        "rescale": None,
        "low": 0,
        "high": 0,
    }


def output_size(size: int, kernel: int, stride: int, dilation: int, pads: int) -> int:
    return (size + pads - (kernel - 1) * dilation - 1) // stride + 1


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    """Geometry with at least one output pixel."""
    kernel, strides, dilations = draw(pair), draw(pair), draw(pair)
    pads = tuple(draw(st.integers(0, 2)) for _ in range(4))
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    image = tuple(draw(st.integers(e, e + 3)) for e in extent)
    output = tuple(
        output_size(image[axis], kernel[axis], strides[axis], dilations[axis], pads[axis] + pads[axis + 2])
        for axis in (0, 1)
    )
    return {
        "kernel": kernel,
        "image": image,
        "output": output,
        "fields": {"strides": strides, "pads": pads, "dilations": dilations},
    }


@given(windows(), st.integers(1, 3), pair, st.sampled_from(TYPES), st.integers(1, 2), st.integers(0, 1 << 32))
def test_conv_is_its_plain_loops(
    window: dict[str, Any], groups: int, size: tuple[int, int], types: tuple[str, str], images: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    outputs, depth = size[0] * groups, size[1]
    layer = Conv(
        **weights(rng, (outputs, *window["kernel"], depth), types[1], outputs),
        **window["fields"],
        groups=groups,
    )
    x = codes("x", (images, *window["image"], depth * groups), types[0], zero_point=zero_point(rng, types[0]))
    y = sums("y", (images, *window["output"], outputs))
    data = random_codes(rng, x.shape, types[0])
    np.testing.assert_array_equal(run_one(layer, [x, y], data), conv_sums(layer, data, x.zero_point, y.shape))


@given(windows(), pair, st.sampled_from(TYPES), st.integers(1, 2), st.integers(0, 1 << 32))
def test_depthwise_conv_is_its_plain_loops(
    window: dict[str, Any], size: tuple[int, int], types: tuple[str, str], images: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    channels, multiplier = size
    outputs = channels * multiplier
    layer = DepthwiseConv(**weights(rng, (*window["kernel"], outputs), types[1], outputs), **window["fields"])
    x = codes("x", (images, *window["image"], channels), types[0], zero_point=zero_point(rng, types[0]))
    y = sums("y", (images, *window["output"], outputs))
    data = random_codes(rng, x.shape, types[0])
    np.testing.assert_array_equal(
        run_one(layer, [x, y], data), depthwise_sums(layer, data, x.zero_point, y.shape)
    )


@given(
    pair, pair, pair, pair, st.integers(1, 2), pair, st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.sampled_from(TYPES), st.integers(0, 1 << 32),
)  # fmt: skip
def test_conv_transpose_is_its_plain_loops(
    image: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    groups: int,
    size: tuple[int, int],
    extra: tuple[int, int],
    types: tuple[str, str],
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    outputs, depth = size[0] * groups, size[1]
    full = [
        (i - 1) * s + (k - 1) * d + 1 for i, s, k, d in zip(image, strides, kernel, dilations, strict=True)
    ]
    pads = tuple(int(rng.integers(0, (full[axis % 2] + 1) // 2)) for axis in range(4))
    layer = ConvTranspose(
        **weights(rng, (outputs, *kernel, depth), types[1], outputs),
        strides=strides,
        pads=pads,  # type: ignore[arg-type]
        dilations=dilations,
        groups=groups,
    )
    x = codes("x", (2, *image, depth * groups), types[0], zero_point=zero_point(rng, types[0]))
    spatial = [full[axis] - pads[axis] - pads[axis + 2] + extra[axis] for axis in (0, 1)]
    y = sums("y", (2, *spatial, outputs))
    data = random_codes(rng, x.shape, types[0])
    np.testing.assert_array_equal(
        run_one(layer, [x, y], data), conv_transpose_sums(layer, data, x.zero_point, y.shape)
    )


def test_a_batch_is_cut_where_its_windows_grow_large(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    fields = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "groups": 1}
    layer = Conv(**weights(rng, (4, 3, 3, 2), "int8", 4), **fields)  # type: ignore[arg-type]
    slots = [codes("x", (5, 6, 6, 2), zero_point=7), sums("y", (5, 6, 6, 4))]
    data = random_codes(rng, slots[0].shape, "uint8")
    together = run_one(layer, slots, data)
    monkeypatch.setattr("calib8.program.ops.conv.WINDOW_ELEMENTS", 2 * 6 * 6 * 9 * 2)
    np.testing.assert_array_equal(run_one(layer, slots, data), together)


def fully_connected(weight: Array, bias: Array, **fields: Any) -> FullyConnected:
    given_fields = {"rescale": None, "low": 0, "high": 0, "weight_zero_point": np.zeros(1, np.int32)} | fields
    return FullyConnected("fc", (0,), (1,), weight=weight, bias=bias, **given_fields)


def test_fully_connected_as_tensorflow_lite_computes_it() -> None:
    """Sums, multipliers and codes of LiteRT 2.3's reference kernel."""
    x = codes("x", (1, 5), "int8", 0.05, -10)
    y = codes("y", (1, 2), "int8", 0.3, 7)
    weight = np.array([[127, -127, 3, 50, -9], [1, 2, 3, 4, 5]], np.int8)
    bias = np.array([1000, -2000], np.int32)
    data = np.array([[-128, -1, 0, 64, 127]], np.int8)
    in_sums = run_one(fully_connected(weight, bias), [x, sums("y", (1, 2))], data)
    assert in_sums.dtype == np.int32 and in_sums.tolist() == [[-12632, -1089]]
    rescale = layer_rescale("tflite", x.scale, np.float32([0.02, 0.013]), y.scale, fully_connected=True)
    layer = fully_connected(weight, bias, rescale=rescale, low=-128, high=127)
    assert run_one(layer, [x, y], data).tolist() == [[-35, 5]]


@pytest.mark.parametrize(("x_code", "weight_code"), [(255, 127), (255, -128), (0, -128)])
def test_the_largest_sums_are_exact(x_code: int, weight_code: int) -> None:
    """2^16 products of the largest codes still fit int32."""
    count = 1 << 16
    layer = fully_connected(np.full((1, count), weight_code, np.int8), np.array([-1], np.int32))
    data = np.full((1, count), x_code, np.uint8)
    data[0, 0] = 1  # an odd sum, which neither float32 nor rounding could hold by luck
    expected = ((count - 1) * x_code + 1) * weight_code - 1
    assert abs(expected) < 1 << 31
    assert run_one(layer, [codes("x", (1, count)), sums("y", (1, 1))], data)[0, 0] == expected


@given(st.integers(1, 40), st.sampled_from(TYPES), st.integers(0, 1 << 32))
def test_products_of_two_activations(depth: int, types: tuple[str, str], seed: int) -> None:
    lhs, rhs = types
    rng = np.random.default_rng(seed)
    a = codes("a", (2, 1, 3, depth), lhs, zero_point=zero_point(rng, lhs))
    b = codes("b", (4, depth, 2), rhs, zero_point=zero_point(rng, rhs))
    left, right = random_codes(rng, a.shape, lhs), random_codes(rng, b.shape, rhs)
    step = MatMul("product", (0, 1), (2,), None, 0, 0)
    result = run_one(step, [a, b, sums("y", (2, 4, 3, 2))], left, right)
    exact = (left.astype(object) - a.zero_point) @ (right.astype(object) - b.zero_point)
    assert (result == exact).all()


@given(st.integers(1, 300), st.integers(0, 1 << 32))
def test_int8_activations_as_unsigned_bytes(depth: int, seed: int) -> None:
    """``u = a + 128`` with zero point z + 128 gives the same sums, and the zero point folds into the bias:
    ``Σ (a − z)·w + bias = Σ u·w + bias − (z + 128)·Σ w``, the form of the VNNI and NEON dot products."""
    rng = np.random.default_rng(seed)
    signed = codes("x", (2, depth), "int8", zero_point=zero_point(rng, "int8"))
    data = random_codes(rng, signed.shape, "int8")
    unsigned = (data.astype(np.int16) + 128).astype(np.uint8)
    weight, bias = random_codes(rng, (3, depth), "int8"), rng.integers(-1000, 1000, 3).astype(np.int32)
    y = sums("y", (2, 3))
    expected = run_one(fully_connected(weight, bias), [signed, y], data)
    shifted = codes("x", signed.shape, "uint8", zero_point=signed.zero_point + 128)
    np.testing.assert_array_equal(run_one(fully_connected(weight, bias), [shifted, y], unsigned), expected)
    folded = (bias - (signed.zero_point + 128) * weight.sum(axis=1, dtype=np.int64)).astype(np.int32)
    raw = codes("x", signed.shape, "uint8", zero_point=0)
    np.testing.assert_array_equal(run_one(fully_connected(weight, folded), [raw, y], unsigned), expected)


def test_zero_points_of_both_sides_multiply_out() -> None:
    """``Σ (a−z_a)(b−z_b) = Σ ab − z_a Σ b − z_b Σ a + K z_a z_b``."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 256, 50), rng.integers(0, 256, 50)
    slots = [codes("a", (1, 50), zero_point=77), codes("b", (50, 1), zero_point=200), sums("y", (1, 1))]
    product = run_one(
        MatMul("product", (0, 1), (2,), None, 0, 0), slots,
        a.astype(np.uint8).reshape(1, 50), b.astype(np.uint8).reshape(50, 1),
    )  # fmt: skip
    assert product[0, 0] == (a * b).sum() - 77 * b.sum() - 200 * a.sum() + 50 * 77 * 200


def requantized(rule: Any, acc: Array, zero_point: int, low: int = -128, high: int = 127) -> list[int]:
    slots = [sums("x", acc.shape), codes("y", acc.shape, "int8", zero_point=zero_point)]
    result = run_one(Requantize("requantize", (0,), (1,), rule, low, high), slots, acc.astype(np.int32))
    assert result.dtype == np.int8
    return result.reshape(-1).tolist()


def test_ties_of_each_rescale() -> None:
    acc = np.array([-5, -3, -1, 1, 3, 5])
    half = (np.array([1 << 30], np.int32), np.array([0], np.int32))
    assert requantized(FloatRescale(np.float32([0.5])), acc, 1) == [-1, -1, 1, 1, 3, 3]  # even, then + 1
    assert requantized(FixedRescale(*half, "single"), acc, 1) == [-1, 0, 1, 2, 3, 4]
    assert requantized(FixedRescale(*half, "double"), acc, 1) == [-1, 0, 1, 2, 3, 4]
    assert requantized(FixedRescale(*half, "away"), acc, 1) == [-2, -1, 0, 2, 3, 4]
    quarter = (np.array([1 << 30], np.int32), np.array([-1], np.int32))
    assert requantized(FixedRescale(*quarter, "double"), 2 * acc, 1) == [-2, -1, 0, 2, 3, 4]
    assert requantized(FixedRescale(*quarter, "single"), 2 * acc, 1) == [-1, 0, 1, 2, 3, 4]


def test_the_zero_point_of_a_product_decides_its_ties() -> None:
    slots = [codes("x", (4,)), codes("x2", (4,)), codes("y", (4,), zero_point=1)]
    step = Mul("product", (0, 1), (2,), FloatProduct(0.5), 0, 255)
    ones = np.ones(4, np.uint8)
    assert run_one(step, slots, np.array([1, 3, 5, 7], np.uint8), ones).tolist() == [2, 2, 4, 4]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_largest_sums_saturate_in_every_profile(profile: Profile) -> None:
    acc = np.array([-(1 << 31), -1, 0, 1, (1 << 31) - 1])
    for output_scale in (1e-8, 1.0, 1e9):
        rule = sums_rescale(profile, np.float32([1.0]), float(np.float32(output_scale)))
        expected = np.clip(np.rint(acc / output_scale) + 3, -100, 120)
        assert requantized(rule, acc, 3, -100, 120) == expected.tolist()


def test_factors_per_channel_belong_to_the_last_axis() -> None:
    rule = FloatRescale(np.float32([0.1, 1.0, 10.0]))
    assert requantized(rule, np.array([[7, 7, 7], [-7, -7, -7]]), 0) == [1, 7, 70, -1, -7, -70]


@pytest.mark.parametrize("name", ["double", "single", "away"])
def test_profiles_agree_but_for_ties(name: str) -> None:
    """All rescales are within one code of the real product."""
    rng = np.random.default_rng(5)
    acc = rng.integers(-(1 << 20), 1 << 20, 4000)
    fixed = sums_rescale("single", np.float32([0.00007]), 1.0)
    assert isinstance(fixed, FixedRescale)
    rule = FixedRescale(fixed.multiplier, fixed.shift, name)  # type: ignore[arg-type]
    exact = np.clip(acc * float(np.float32(0.00007)), -128, 127)
    assert np.abs(np.array(requantized(rule, acc, 0)) - exact).max() <= 0.51
