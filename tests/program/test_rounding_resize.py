"""Where output pixels lie in the input: ONNX's coordinates, TFLite's steps of 1/1024."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib8.errors import UnsupportedModelError
from calib8.program.rounding.resize import COORDINATE_MODES, linear_axis, nearest_indices
from calib8.program.rules import PROFILES, Profile

sizes = st.integers(1, 40)


def ratio(inputs: int, outputs: int) -> float:
    return float(np.float32(outputs) / np.float32(inputs))


@pytest.mark.parametrize(
    ("mode", "nearest_mode", "expected"),
    [
        ("asymmetric", "floor", [0, 0, 0, 1, 1, 2, 2]),
        ("asymmetric", "ceil", [0, 1, 1, 2, 2, 2, 2]),
        ("half_pixel", "round_prefer_floor", [0, 0, 1, 1, 1, 2, 2]),
        ("align_corners", "floor", [0, 0, 0, 1, 1, 1, 2]),
        ("align_corners", "round_prefer_floor", [0, 0, 1, 1, 1, 2, 2]),
        ("tf_half_pixel_for_nn", "floor", [0, 0, 1, 1, 1, 2, 2]),
    ],
)
def test_three_pixels_become_seven(mode: str, nearest_mode: str, expected: list[int]) -> None:
    assert nearest_indices(3, 7, ratio(3, 7), mode, nearest_mode).tolist() == expected


def test_ties() -> None:
    # align_corners: 0, 0.5, 1, 1.5, 2
    assert nearest_indices(3, 5, ratio(3, 5), "align_corners", "round_prefer_floor").tolist() == [
        0,
        0,
        1,
        1,
        2,
    ]
    assert nearest_indices(3, 5, ratio(3, 5), "align_corners", "round_prefer_ceil").tolist() == [
        0,
        1,
        1,
        2,
        2,
    ]


def test_the_middle_of_two_pixels_is_found_despite_rounding() -> None:
    # 9 / 1.2 = 7.5, but 7.4999995 in float32
    assert nearest_indices(10, 12, 1.2, "asymmetric", "round_prefer_ceil")[9] == 8
    assert nearest_indices(10, 12, 1.2, "asymmetric", "round_prefer_floor")[9] == 7


def test_one_output_pixel() -> None:
    assert nearest_indices(9, 1, ratio(9, 1), "half_pixel", "round_prefer_floor").tolist() == [4]
    for mode in ("pytorch_half_pixel", "align_corners"):
        assert nearest_indices(9, 1, ratio(9, 1), mode, "round_prefer_floor").tolist() == [0]


def test_the_stated_scale_counts_not_the_sizes() -> None:
    # 3 · 1.5 = 4.5 pixels, of which 4 exist
    axis = linear_axis("onnx", 3, 4, 1.5, "asymmetric")
    np.testing.assert_allclose(axis.low + axis.fraction, [0, 2 / 3, 4 / 3, 2.5], rtol=1e-6)
    assert axis.high.tolist() == [1, 1, 2, 2]
    assert linear_axis("tflite", 3, 4, 1.5, "asymmetric").fraction.tolist() == [0, 683, 342, 0]


@given(st.sampled_from(PROFILES), sizes, sizes, st.sampled_from(COORDINATE_MODES))
def test_axes_lie_within_the_input(profile: Profile, inputs: int, outputs: int, mode: str) -> None:
    axis = linear_axis(profile, inputs, outputs, ratio(inputs, outputs), mode)
    assert axis.low.dtype == axis.high.dtype == np.int32
    assert axis.low.shape == axis.high.shape == axis.fraction.shape == (outputs,)
    assert axis.low.min() >= 0
    assert axis.high.max() < inputs
    assert set((axis.high - axis.low).tolist()) <= {0, 1}
    one = 1 if profile == "onnx" else 1024
    assert axis.fraction.dtype == (np.float32 if profile == "onnx" else np.int32)
    assert axis.fraction.min() >= 0
    assert axis.fraction.max() <= one
    assert axis.rounding == {"onnx": "even", "tflite": "away", "single": "up"}[profile]
    for nearest_mode in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        indices = nearest_indices(inputs, outputs, ratio(inputs, outputs), mode, nearest_mode)
        assert indices.dtype == np.int32
        assert indices.min() >= 0
        assert indices.max() < inputs
        assert np.array_equal(indices, np.sort(indices))


@given(sizes, sizes, st.sampled_from(["asymmetric", "half_pixel", "align_corners"]))
def test_steps_of_tflite(inputs: int, outputs: int, mode: str) -> None:
    axis = linear_axis("tflite", inputs, outputs, ratio(inputs, outputs), mode)
    step = ((inputs << 10) + outputs // 2) // outputs
    if mode == "align_corners" and outputs > 1:
        step = (((inputs - 1) << 10) + (outputs - 1) // 2) // (outputs - 1)
    for i in range(outputs):
        x = i * step + (step // 2 - 512 if mode == "half_pixel" else 0)
        low = max(int(x / 1024), 0)
        high = min(int((x + 1023) / 1024), inputs - 1)
        assert (axis.low[i], axis.high[i]) == (min(low, inputs - 1), high)
        if low != high:
            assert axis.fraction[i] == x - 1024 * low


def test_doubling_of_tflite() -> None:
    axis = linear_axis("tflite", 2, 4, 2.0, "half_pixel")
    assert axis.low.tolist() == [0, 0, 0, 1]
    assert axis.high.tolist() == [0, 1, 1, 1]
    assert axis.fraction.tolist() == [0, 256, 768, 0]
    torch = linear_axis("tflite", 2, 4, 2.0, "pytorch_half_pixel")
    assert np.array_equal(torch.fraction, axis.fraction)


@given(sizes, sizes)
def test_single_has_the_nearest_of_1024_weights(inputs: int, outputs: int) -> None:
    axis = linear_axis("single", inputs, outputs, ratio(inputs, outputs), "half_pixel")
    for i in range(outputs):
        exact = min(max((i + 0.5) * inputs / outputs - 0.5, 0), inputs - 1)
        place = axis.low[i] + axis.fraction[i] / 1024 * (axis.high[i] - axis.low[i])
        assert math.isclose(place, exact, abs_tol=1 / 2048 + 1e-5)


def test_unknown_modes_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="'tf_crop_and_resize' is not supported"):
        linear_axis("onnx", 2, 4, 2.0, "tf_crop_and_resize")
    with pytest.raises(UnsupportedModelError, match="nearest_mode 'round'"):
        nearest_indices(2, 4, 2.0, "asymmetric", "round")
