"""Resize of the reference against plain loops over single pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from plain_loops import codes, run_one

from calib8.program.instructions import ResizeLinear, ResizeNearest
from calib8.program.program import Slot
from calib8.program.rounding.resize import float_axis, linear_axis
from calib8.program.rules import PROFILES, LinearAxis, Profile

Array = npt.NDArray[Any]
sizes = st.integers(1, 8)


def test_nearest_picks_rows_and_columns() -> None:
    x, y = codes("x", (2, 3, 2, 4)), codes("y", (2, 4, 3, 4))
    data = np.arange(48, dtype=np.uint8).reshape(x.shape)
    rows, columns = np.array([0, 0, 2, 1], np.int32), np.array([1, 0, 1], np.int32)
    result = run_one(ResizeNearest("r", (0,), (1,), rows, columns), (x, y), data)
    for i, j in np.ndindex(4, 3):
        assert np.array_equal(result[:, i, j], data[:, rows[i], columns[j]])


@given(st.sampled_from(PROFILES), sizes, sizes, sizes, sizes, st.integers(0, 99))
def test_linear(
    profile: Profile, rows: int, columns: int, new_rows: int, new_columns: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    scale, zero_point = float(np.float32(rng.uniform(0.01, 1))), int(rng.integers(-128, 128))
    x = codes("x", (1, rows, columns, 2), "int8", scale, zero_point)
    y = codes("y", (1, new_rows, new_columns, 2), "int8", scale, zero_point)
    mode = str(rng.choice(["half_pixel", "asymmetric", "align_corners"]))
    down = linear_axis(profile, rows, new_rows, float(np.float32(new_rows) / np.float32(rows)), mode)
    right = linear_axis(
        profile, columns, new_columns, float(np.float32(new_columns) / np.float32(columns)), mode
    )
    data = rng.integers(-128, 128, x.shape).astype(np.int8)
    result = run_one(ResizeLinear("r", (0,), (1,), down, right), (x, y), data)
    for n, i, j, c in np.ndindex(y.shape):
        pixels = [
            int(data[n, row, column, c])
            for row in (down.low[i], down.high[i])
            for column in (right.low[j], right.high[j])
        ]
        assert result[n, i, j, c] == _interpolated(pixels, (down, i), (right, j), x)


def _interpolated(
    pixels: list[int], down: tuple[LinearAxis, int], right: tuple[LinearAxis, int], x: Slot
) -> int:
    f, g = down[0].fraction[down[1]], right[0].fraction[right[1]]
    if down[0].rounding == "even":
        one, scale = np.float32(1), np.float32(x.scale)
        weights = [(one - g) * (one - f), g * (one - f), (one - g) * f, g * f]
        total = np.float32(0)
        for weight, pixel in zip(weights, pixels, strict=True):
            total = total + weight * (scale * np.float32(pixel - x.zero_point))
        return min(max(int(np.rint(total / scale)) + x.zero_point, -128), 127)
    f, g = int(f), int(g)
    weights = [(1024 - g) * (1024 - f), g * (1024 - f), (1024 - g) * f, g * f]
    total = sum(weight * pixel for weight, pixel in zip(weights, pixels, strict=True))
    if down[0].rounding == "up":
        return (total + (1 << 19)) // (1 << 20)
    return int((total + (1 << 19 if total > 0 else -(1 << 19))) / (1 << 20))


def test_ties_per_profile() -> None:
    x, y = codes("x", (1, 1, 2, 4), "int8", 1.0, 0), codes("y", (1, 1, 3, 4), "int8", 1.0, 0)
    data = np.array([[-4, -3, 2, 3], [-3, -2, 3, 4]], np.int8).reshape(x.shape)
    expected = {"onnx": [-4, -2, 2, 4], "tflite": [-4, -3, 3, 4], "single": [-3, -2, 3, 4]}
    for profile in PROFILES:
        one = linear_axis(profile, 1, 1, 1.0, "align_corners")
        three = linear_axis(profile, 2, 3, 1.5, "align_corners")
        result = run_one(ResizeLinear("r", (0,), (1,), one, three), (x, y), data)
        assert result[0, 0, 1].tolist() == expected[profile]
        assert np.array_equal(result[0, 0, [0, 2]], data[0, 0])


def test_float_sums_of_codes_round_up() -> None:
    x, y = codes("x", (1, 1, 2, 3), "uint8", 1.0, 0), codes("y", (1, 1, 4, 3), "uint8", 1.0, 0)
    data = np.array([[0, 255, 7], [2, 254, 8]], np.uint8).reshape(x.shape)
    one = float_axis(1, 1, np.float32(1), half_pixel=True)
    four = float_axis(2, 4, np.float32(0.5), half_pixel=True)
    assert four.fraction.tolist() == [-0.25, 0.25, 0.75, 0.25]
    result = run_one(ResizeLinear("r", (0,), (1,), one, four), (x, y), data)
    assert result[0, 0].tolist() == [[0, 255, 7], [1, 255, 7], [2, 254, 8], [2, 254, 8]]


def test_onnx_may_change_the_scale() -> None:
    x, y = codes("x", (1, 1, 2, 1), "int8", 0.5, 3), codes("y", (1, 1, 3, 1), "uint8", 0.25, 100)
    one = linear_axis("onnx", 1, 1, 1.0, "align_corners")
    three = linear_axis("onnx", 2, 3, 1.5, "align_corners")
    data = np.array([3, 13], np.int8).reshape(x.shape)
    result = run_one(ResizeLinear("r", (0,), (1,), one, three), (x, y), data)
    assert result.reshape(-1).tolist() == [100, 110, 120]
