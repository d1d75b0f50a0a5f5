"""Pools and reductions of the reference against plain loops over single pixels."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_loops import codes, plain, run_one

from calib8.program.instructions import ArgMax, ArgMin, AveragePool, MaxPool, Mean, ReduceMax, ReduceMin
from calib8.program.program import Slot
from calib8.program.rounding.pools import average_rule, mean_rule
from calib8.program.rules import PROFILES, Profile
from calib8.qparams import QParams

Array = npt.NDArray[Any]


def random_codes(rng: np.random.Generator, slot: Slot) -> Array:
    info = np.iinfo(slot.dtype)
    return rng.integers(info.min, info.max + 1, slot.shape).astype(slot.dtype)


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    """Kernel, strides, pads, image and as many output pixels as start within image and padding."""
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    strides = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    pads = tuple(draw(st.integers(0, kernel[axis % 2] - 1)) for axis in range(4))
    image = (draw(st.integers(2, 7)), draw(st.integers(2, 7)))
    rooms = [image[axis] + pads[axis] for axis in (0, 1)]
    outputs = tuple(1 + draw(st.integers(0, (rooms[axis] - 1) // strides[axis])) for axis in (0, 1))
    return {"kernel": kernel, "strides": strides, "pads": pads, "image": image, "outputs": outputs}


def taps_of(
    window: dict[str, Any], i: int, j: int, dilations: tuple[int, int] = (1, 1)
) -> list[tuple[int, int]]:
    """Places of one window, those outside of the image included."""
    (rows, columns), (down, right), (top, left, _, _) = window["kernel"], window["strides"], window["pads"]
    return [
        (i * down - top + h * dilations[0], j * right - left + w * dilations[1])
        for h, w in product(range(rows), range(columns))
    ]


@given(
    windows(),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.sampled_from(["uint8", "int8"]),
    st.integers(0, 99),
)
def test_max_pool(window: dict[str, Any], dilations: tuple[int, int], dtype: str, seed: int) -> None:
    x = codes("x", (2, *window["image"], 3), dtype, 0.1, 7)
    y = codes("y", (2, *window["outputs"], 3), dtype, 0.1, 7)
    step = MaxPool("p", (0,), (1,), window["kernel"], window["strides"], window["pads"], dilations)
    data = random_codes(np.random.default_rng(seed), x)
    result = run_one(step, (x, y), data)
    for n, i, j, c in np.ndindex(y.shape):
        inside = [
            data[n, row, column, c]
            for row, column in taps_of(window, i, j, dilations)
            if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]
        ]
        assert result[n, i, j, c] == max(inside, default=np.iinfo(dtype).min)


@given(windows(), st.sampled_from(PROFILES), st.booleans(), st.integers(0, 99))
def test_average_pool(window: dict[str, Any], profile: Profile, count_pads: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = codes("x", (1, *window["image"], 2), "int8", float(np.float32(0.1)), int(rng.integers(-128, 128)))
    other = (float(np.float32(rng.uniform(0.03, 0.2))), int(rng.integers(-128, 128)))
    scale, zero_point = (x.scale, x.zero_point) if profile == "tflite" else other
    y = codes("y", (1, *window["outputs"], 2), "int8", scale, zero_point)
    rule = average_rule(
        profile,
        QParams(x.scale, x.zero_point),
        QParams(y.scale, y.zero_point),
        window["kernel"][0] * window["kernel"][1],
    )
    geometry = (window["kernel"], window["strides"], window["pads"])
    step = AveragePool("p", (0,), (1,), *geometry, count_pads, rule, -100, 100)
    data = random_codes(rng, x)
    result = run_one(step, (x, y), data)
    for n, i, j, c in np.ndindex(y.shape):
        values, count = [], 0
        for row, column in taps_of(window, i, j):
            inside = 0 <= row < x.shape[1] and 0 <= column < x.shape[2]
            padded = row < x.shape[1] + window["pads"][2] and column < x.shape[2] + window["pads"][3]
            if inside:
                values.append(int(data[n, row, column, c]) - x.zero_point)
            count += padded if count_pads else inside
        expected = _average(profile, values, max(count, 1), x, y)
        assert result[n, i, j, c] == min(max(expected, -100), 100)


def _average(profile: Profile, steps: list[int], count: int, x: Slot, y: Slot) -> int:
    if profile == "onnx":
        total = np.float32(0)
        for step in steps:
            total = total + np.float32(x.scale) * np.float32(step)
        return int(np.rint(total / np.float32(count) / np.float32(y.scale) + np.float32(y.zero_point)))
    if profile == "tflite":
        total_codes = sum(steps) + x.zero_point * count
        half = total_codes + count // 2 if total_codes > 0 else total_codes - count // 2
        return int(half / count)
    exact = Fraction(sum(steps), count) * Fraction(x.scale) / Fraction(y.scale)
    return int((exact + Fraction(1, 2)).__floor__()) + y.zero_point


def test_average_pool_of_tflite_rounds_codes_away_from_zero() -> None:
    x, y = codes("x", (3, 2, 2, 1), "int8", 0.5, 9), codes("y", (3, 1, 1, 1), "int8", 0.5, 9)
    rule = average_rule("tflite", QParams(0.5, 9), QParams(0.5, 9), 4)
    step = AveragePool("p", (0,), (1,), (2, 2), (2, 2), (0, 0, 0, 0), False, rule, -128, 127)
    data = np.array([[1, 1, 1, 2], [2, 2, 1, 1], [-2, -2, -1, -1]], np.int8).reshape(x.shape)
    assert run_one(step, (x, y), data).reshape(-1).tolist() == [1, 2, -2]


def test_the_zero_point_comes_before_the_rounding_of_onnx() -> None:
    # the mean is half a step: 0.5 + 3 = 3.5 → 4, 0.5 + 4 = 4.5 → 4
    x = codes("x", (1, 1, 2, 1), "uint8", 1.0, 0)
    for zero_point, code in ((3, 4), (4, 4)):
        y = codes("y", (1, 1, 1, 1), "uint8", 1.0, zero_point)
        rule = average_rule("onnx", QParams(1.0, 0), QParams(1.0, zero_point), 2)
        step = AveragePool("p", (0,), (1,), (1, 2), (1, 1), (0, 0, 0, 0), False, rule, 0, 255)
        assert run_one(step, (x, y), np.array([0, 1], np.uint8).reshape(x.shape)).item() == code


@pytest.mark.parametrize("axes", [(1, 2), (3,), (1,), (0, 1, 2, 3)])
@pytest.mark.parametrize("kind", ["mean", "sum"])
@pytest.mark.parametrize("keep", [True, False])
def test_mean_over_axes(axes: tuple[int, ...], kind: str, keep: bool) -> None:
    shape = (2, 3, 4, 5)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    left = kept if keep else tuple(size for axis, size in enumerate(shape) if axis not in axes)
    x, y = codes("x", shape, "uint8", 0.05, 100), codes("y", left, "int8", 0.04, -20)
    count = int(np.prod([shape[axis] for axis in axes]))
    data = random_codes(np.random.default_rng(0), x)
    acc = (data.astype(np.int64) - 100).sum(axes, keepdims=keep)
    factor = Fraction(x.scale) / Fraction(y.scale) / (count if kind == "mean" else 1)
    for profile in PROFILES:
        rule = mean_rule(profile, x.scale, y.scale, count, kind)
        result = run_one(Mean("m", (0,), (1,), axes, rule, -128, 127), (x, y), data)
        exact = np.clip(np.array([float(a * factor) for a in acc.reshape(-1)]) - 20, -128, 127)
        # rounding twice may add half of what the shift leaves, a quarter at most
        assert np.abs(result.reshape(-1) - exact).max() <= (0.75 if profile == "tflite" else 0.5 + 1e-4)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_extremes_over_axes(dtype: str) -> None:
    x, y = codes("x", (2, 3, 4, 5), dtype), codes("y", (2, 5), dtype)
    data = random_codes(np.random.default_rng(1), x)
    assert np.array_equal(run_one(ReduceMax("r", (0,), (1,), (1, 2)), (x, y), data), data.max((1, 2)))
    assert np.array_equal(run_one(ReduceMin("r", (0,), (1,), (1, 2)), (x, y), data), data.min((1, 2)))


@pytest.mark.parametrize(("last", "expected"), [(False, [1, 0]), (True, [3, 2])])
def test_arg_max_of_equal_codes(last: bool, expected: list[int]) -> None:
    x = codes("x", (2, 4), "int8")
    data = np.array([[-5, 7, 1, 7], [-1, -9, -1, -4]], np.int8)
    for shape in ((2,), (2, 1)):
        result = run_one(ArgMax("a", (0,), (1,), 1, last), (x, plain("y", shape, "int64")), data)
        assert result.dtype == np.int64
        assert result.reshape(-1).tolist() == expected


@pytest.mark.parametrize(("last", "expected"), [(False, [1, 0]), (True, [3, 2])])
def test_arg_min_of_equal_codes(last: bool, expected: list[int]) -> None:
    x = codes("x", (2, 4), "int8")
    data = np.array([[5, -128, 127, -128], [-9, -1, -9, -4]], np.int8)
    for shape in ((2,), (2, 1)):
        result = run_one(ArgMin("a", (0,), (1,), 1, last), (x, plain("y", shape, "int32")), data)
        assert result.dtype == np.int32
        assert result.reshape(-1).tolist() == expected
