"""Pairs of weights as kernels without VNNI meet them, and scales with which none can saturate."""

from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib8.model.layer import Layer
from calib8.qparams import INT8_SYMMETRIC
from calib8.quantization.corrections import LayerCorrection
from calib8.quantization.pairs import (
    PAIR_LIMIT,
    largest_pair,
    pair_reach,
    pairs_beyond,
    weight_pairs,
    within_limit,
)
from calib8.quantization.weights import quantize_layer, quantize_weight, weight_scales
from calib8.scheme import target_scheme
from small_models import Array, normal


def node(op_type: str, **attributes: int) -> Layer:
    return Layer(ir.node(op_type, [None, None], attributes))


def saturating(first: int, second: int) -> bool:
    """Whether any two uint8 codes drive the sum of the products out of int16: plain search of the corners."""
    sums = [a * first + b * second for a, b in itertools.product((0, 255), repeat=2)]
    return max(sums) > 32767 or min(sums) < -32768


def test_the_limit_is_exact_for_every_pair_of_codes() -> None:
    codes = range(-127, 128)
    pairs = np.array(list(itertools.product(codes, repeat=2)))
    unsafe = np.max(np.abs(pair_reach(pairs)), axis=-1) > PAIR_LIMIT
    expected = [saturating(first, second) for first, second in pairs.tolist()]
    assert unsafe.tolist() == expected
    assert 0 < sum(expected) < len(expected)


@pytest.mark.parametrize("inputs", [1, 2, 3, 4])
def test_pairs_of_a_convolution_follow_positions_then_channels(inputs: int) -> None:
    weight = np.arange(2 * inputs * 2 * 3).reshape(2, inputs, 2, 3)
    pairs = weight_pairs(node("Conv"), weight)
    assert pairs is not None
    for output in range(2):
        flat = [weight[output, c, y, x] for y in range(2) for x in range(3) for c in range(inputs)]
        flat += [0] * (len(flat) % 2)
        expected = list(zip(flat[::2], flat[1::2], strict=True))
        assert [tuple(pair) for pair in pairs[output]] == expected


def test_an_odd_number_of_products_ends_with_a_zero() -> None:
    pairs = weight_pairs(node("Conv"), np.full((4, 1, 3, 3), 5))
    assert pairs is not None and pairs.shape == (4, 5, 2)
    assert pairs[:, -1].tolist() == [[5, 0]] * 4


def test_pairs_of_matrix_products_follow_the_inputs() -> None:
    weight = np.arange(10).reshape(5, 2)
    expected = [[[0, 2], [4, 6], [8, 0]], [[1, 3], [5, 7], [9, 0]]]
    for layer, stored in (
        (node("MatMul"), weight),
        (node("Gemm"), weight),
        (node("Gemm", transB=1), weight.T),
    ):
        pairs = weight_pairs(layer, stored)
        assert pairs is not None and pairs.tolist() == expected


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (node("Conv", group=4), (4, 1, 3, 3)),
        (node("ConvTranspose"), (4, 4, 2, 2)),
        (node("MatMul"), (2, 3, 4)),
    ],
)
def test_what_is_not_computed_in_pairs_has_none(layer: Layer, shape: tuple[int, ...]) -> None:
    assert weight_pairs(layer, np.ones(shape, np.int8)) is None
    assert largest_pair(layer, np.ones(shape, np.int8)) is None


def test_two_outputs_per_group_are_no_depthwise_layer() -> None:
    assert weight_pairs(node("Conv", group=4), np.ones((8, 1, 3, 3), np.int8)) is not None


def limited(weight: Array, layer: Layer, **options: LayerCorrection) -> tuple[Array, Array]:
    result = quantize_layer(layer, weight, None, 0.1, target_scheme("onnxruntime-avx2"), **options)
    return result.weight.values, result.weight.scale


@given(seed=st.integers(0, 10_000), inputs=st.integers(1, 5), heavy=st.booleans())
def test_a_channel_gets_the_finest_safe_scale_and_safe_ones_keep_theirs(
    seed: int, inputs: int, heavy: bool
) -> None:
    weight = normal(6, inputs, 3, 3, seed=seed)
    weight = weight**3 if heavy else weight
    weight[0] = 0.0
    weight[1, :, :, 1:] = 0.0  # with one input channel: alone in its pairs
    layer = node("Conv")
    codes, scale = limited(weight, layer)
    plain = weight_scales(weight, 0, INT8_SYMMETRIC)
    before = largest_pair(layer, quantize_weight(weight, plain, 0, INT8_SYMMETRIC))
    after = largest_pair(layer, codes)
    assert before is not None and after is not None
    assert np.all(after <= PAIR_LIMIT)
    kept = before <= PAIR_LIMIT
    np.testing.assert_array_equal(scale[kept], plain[kept])
    np.testing.assert_array_equal(codes, quantize_weight(weight, scale, 0, INT8_SYMMETRIC))
    for channel in np.flatnonzero(~kept):
        largest = np.abs(weight[channel]).max()
        steps = round(float(largest / scale[channel]))
        assert 64 <= steps < 127
        finer = scale.copy()
        finer[channel] = largest / np.float32(steps + 1)
        worse = largest_pair(layer, quantize_weight(weight, finer, 0, INT8_SYMMETRIC))
        assert worse is not None and worse[channel] > PAIR_LIMIT


def test_the_worst_pair_of_all_gets_seven_bits() -> None:
    codes, scale = limited(np.full((1, 2, 1, 1), 1.27, np.float32), node("Conv"))
    assert codes.reshape(-1).tolist() == [64, 64]
    assert scale[0] == np.float32(1.27) / np.float32(64)


def test_weights_of_two_signs_need_nothing() -> None:
    codes, _ = limited(np.float32([1.27, -1.27]).reshape(1, 2, 1, 1), node("Conv"))
    assert codes.reshape(-1).tolist() == [127, -127]


def test_a_depthwise_layer_keeps_all_its_codes() -> None:
    weight = np.full((3, 1, 3, 3), 0.5, np.float32)
    codes, _ = limited(weight, node("Conv", group=3))
    assert np.all(codes == 127)


def test_codes_of_a_correction_stay_where_they_are_safe() -> None:
    real = np.float32([[99.6, 28.3, -5.2, 3.4], [99.6, 28.3, -5.2, 3.4], [90.0, 60.0, 0.6, 0.0]]) / 32
    chosen = np.int8([[100, 28, -6, 4], [100, 29, -6, 4], [90, 60, 0, 0]])
    scale = np.full(3, 1 / 32, np.float32)
    fix = LayerCorrection(chosen.reshape(3, 4, 1, 1), scale)
    codes, scales = limited(real.reshape(3, 4, 1, 1), node("Conv"), correction=fix)
    assert codes.reshape(3, 4)[:2].tolist() == [[100, 28, -6, 4], [100, 28, -6, 4]]
    assert scales[:2].tolist() == scale[:2].tolist() and scales[2] > scale[2]
    largest = largest_pair(node("Conv"), codes)
    assert largest is not None and np.all(largest <= PAIR_LIMIT)


@pytest.mark.parametrize("inputs", [1, 3])
def test_codes_beyond_the_limit_are_found_in_the_layers_own_layout(inputs: int) -> None:
    codes = np.random.default_rng(4).integers(-127, 128, (5, inputs, 3, 3)).astype(np.int8)
    expected = np.zeros(codes.shape, bool)
    for output in range(5):
        places = [(c, y, x) for y in range(3) for x in range(3) for c in range(inputs)]
        for first, second in zip(places[::2], places[1::2], strict=False):
            pair = [int(codes[output][place]) for place in (first, second)]
            if saturating(*pair):
                expected[output][first] = expected[output][second] = True
    assert expected.any()
    np.testing.assert_array_equal(pairs_beyond(node("Conv"), codes, PAIR_LIMIT), expected)
    assert not pairs_beyond(node("ConvTranspose"), codes, PAIR_LIMIT).any()


@given(seed=st.integers(0, 10_000), inputs=st.integers(1, 4), limit=st.sampled_from([127, PAIR_LIMIT, 150]))
def test_codes_beyond_the_limit_move_as_little_as_can_be(seed: int, inputs: int, limit: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(-127, 128, (3, inputs, 3, 1)).astype(np.int8)
    exact = codes + rng.uniform(-8.0, 8.0, codes.shape)
    layer = node("Conv")
    found = within_limit(layer, codes, exact, limit)
    largest = largest_pair(layer, found)
    assert largest is not None and np.max(largest) <= limit
    assert found.dtype == np.int8 and np.all(np.sign(found) * np.sign(codes) >= 0)
    before, after, wanted = (weight_pairs(layer, array) for array in (codes, found, exact))
    assert before is not None and after is not None and wanted is not None
    for old, new, real in zip(*(array.reshape(-1, 2) for array in (before, after, wanted)), strict=True):
        assert np.sum((new - real) ** 2) == pytest.approx(least_distance(old, real, limit))


def least_distance(codes: Array, exact: Array, limit: int) -> float:
    """Of all ways to take the excess of a pair, and no more, from its two codes."""
    sizes, signs = np.abs(codes.astype(int)), np.sign(codes.astype(int))
    excess = 0
    for sign in (1, -1):
        excess = max(excess, int(sizes[signs == sign].sum()) - limit)
    found = []
    for first in range(excess + 1):
        taken = np.array([first, excess - first])
        left = signs * (sizes - taken)
        if np.all(taken <= sizes) and np.abs(pair_reach(left)).max() <= limit:
            found.append(float(np.sum((left - exact) ** 2)))
    return min(found)


def test_layers_without_pairs_keep_all_codes() -> None:
    codes = np.full((4, 1, 3, 3), 127, np.int8)
    depthwise, free = node("Conv", group=4), np.zeros(codes.shape)
    assert within_limit(depthwise, codes, free, PAIR_LIMIT) is codes
