"""Bins of other tools: each as its tool computes it, value by value; counting natively and in parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_variants import distributions

from calib8._core.layouts import KeyCounter, count
from calib8.calibration.layouts import LAYOUTS, MXNET, NCNN, PYTHON, TENGINE, TENSORRT, Layout, LayoutCounts
from calib8.errors import CalibrationError

f32 = np.float32
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def tensorrt_bin(x: float, a: float) -> int:
    """In exact integers: both are multiples of 2^-149."""
    unit = 2.0**-149
    numerator, denominator = int(abs(x) / unit), int(a / unit)
    return min(numerator * 2048 // denominator, 2047) if x else -1


def ncnn_bin(x: float, a: float) -> int:
    return min(int(f32(f32(f32(abs(x)) / f32(a)) * f32(2048))), 2047) if x else -1


def tengine_bin(x: float, a: float) -> int:
    if not x:
        return -1
    with np.errstate(divide="ignore", over="ignore"):
        quotient = float(f32(f32(abs(x)) / f32(f32(a) / f32(2047))))
    return math.floor(min(quotient, 2047.0) + 0.5)


def histogram_bin(x: float, low: float, high: float, bins: int) -> int:
    """The edges of numpy.linspace in float64, rounded to float32; the last bin holds its upper edge."""
    edges = np.linspace(np.float64(low), np.float64(high), bins + 1).astype(f32)
    for bin_ in range(bins - 1, -1, -1):
        if x >= edges[bin_]:
            return bin_
    return -1


SCALAR: dict[Layout, Callable[[float, float], int]] = {
    TENSORRT: tensorrt_bin,
    NCNN: ncnn_bin,
    TENGINE: tengine_bin,
    PYTHON: lambda x, a: histogram_bin(x, 0.0, a, 2048),
    MXNET: lambda x, a: histogram_bin(x, -a, a, 8001),
}


def native(layout: Layout, limit: float, *parts: np.ndarray, threads: int = 1) -> KeyCounter:
    counter = layout.counter(limit)
    for part in parts:
        count([(counter, part)], threads)
    return counter


def name_of(layout: Layout) -> str:
    return layout.name


@pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
def test_a_bin_is_what_the_tool_computes(layout: Layout) -> None:
    values = np.random.default_rng(1).standard_normal(60).astype(f32)
    values[:3] = 0.0, -0.0, values.min()
    limit = float(np.abs(values).max())
    assert layout.index(values, limit).tolist() == [SCALAR[layout](float(x), limit) for x in values]


@pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
@pytest.mark.parametrize("limit", [1.0, 4.7321, 2.0**-149, 1e-40, 3e-36, 1.7e38, 3.4e38, 2047.0, 3.0e-8])
def test_edges_are_where_the_bin_changes(layout: Layout, limit: float) -> None:
    limit = float(f32(limit))
    edges = layout.edges(limit)
    assert edges.shape == (layout.bins + 1,) and (np.diff(edges) >= 0).all()
    bits = np.where(edges < 0, (-1 - edges) | 0x80000000, edges).astype(np.uint32)
    at = np.unique(bits[:-1].view(f32))
    around = np.concatenate([at, np.nextafter(at, f32(np.inf)), np.nextafter(at, f32(-np.inf))])
    around = around[np.abs(around) <= f32(limit)]
    found = native(layout, limit, around)
    assert found.outside == 0
    assert np.array_equal(found.bins, LayoutCounts.from_values(layout, limit, around).bins)


@pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
@pytest.mark.parametrize("name", distributions())
def test_native_counts_are_those_of_the_definition(layout: Layout, name: str) -> None:
    values = distributions()[name]
    limit = float(np.abs(values).max())
    expected = LayoutCounts.from_values(layout, limit, values)
    found = native(layout, limit, values)
    assert np.array_equal(found.bins, expected.bins)
    assert found.outside == 0 and found.below == values.size - expected.bins.sum()


@pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
@given(values=st.lists(FLOATS, min_size=1, max_size=40).filter(any))
def test_any_values(layout: Layout, values: list[float]) -> None:
    array = np.array(values, f32)
    limit = float(np.abs(array).max())
    expected = LayoutCounts.from_values(layout, limit, array)
    assert np.array_equal(native(layout, limit, array).bins, expected.bins)


@pytest.mark.parametrize("layout", [PYTHON, MXNET], ids=name_of)
def test_numpy_makes_the_same_histogram(layout: Layout) -> None:
    """With edges in float32, as NumPy 1 made them; they are passed because NumPy 2 rounds others."""
    values = distributions()["normal"]
    limit = float(np.abs(values).max())
    low = -limit if layout is MXNET else 0.0
    edges = np.linspace(np.float64(low), np.float64(limit), layout.bins + 1).astype(f32)
    expected, _ = np.histogram(values, edges)
    assert np.array_equal(native(layout, limit, values).bins, expected)


@pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
def test_threads_and_parts_change_nothing(layout: Layout) -> None:
    values = np.random.default_rng(3).standard_normal(300_001).astype(f32)
    limit = float(np.abs(values).max())
    whole = native(layout, limit, values)
    for threads in (2, 3, 7):
        assert np.array_equal(native(layout, limit, values, threads=threads).bins, whole.bins)
    cuts = [0, 1, 70_000, 70_001, 200_000, values.size]
    parts = [values[a:b] for a, b in pairwise(cuts)]
    assert np.array_equal(native(layout, limit, *reversed(parts), threads=2).bins, whole.bins)
    counted = [LayoutCounts.from_values(layout, limit, part) for part in parts]
    merged = counted[3].merge(counted[0]).merge(counted[4]).merge(counted[1].merge(counted[2]))
    assert merged == LayoutCounts(layout, limit, whole.bins)


def test_many_tensors_at_once() -> None:
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal(size).astype(f32) for size in (5, 200_000, 1, 90_000, 7)]
    limits = [float(np.abs(a).max()) for a in arrays]
    counters = [MXNET.counter(limit) for limit in limits]
    count(list(zip(counters, arrays, strict=True)), 3)
    for counter, array, limit in zip(counters, arrays, limits, strict=True):
        assert np.array_equal(counter.bins, LayoutCounts.from_values(MXNET, limit, array).bins)


def test_values_beyond_the_limit_and_nan_are_told() -> None:
    values = np.array([0.5, 1.0, 1.1, -1.1, np.nan, -np.nan, np.inf, -np.inf, 0.0], f32)
    counter = native(NCNN, 1.0, values)
    assert (counter.bins.sum(), counter.below, counter.outside) == (2, 1, 6)
    counter = native(MXNET, 1.0, values)
    assert counter.bins.sum() == 3 and counter.below + counter.outside == 6


def test_a_wrong_limit_is_refused() -> None:
    for bad in (f32([1.5]), f32([np.nan]), np.array([0.5])):
        with pytest.raises(CalibrationError, match="Give the limit of these very values"):
            LayoutCounts.from_values(NCNN, 1.0, bad)


def test_only_counts_of_the_same_bins_add_up() -> None:
    one = LayoutCounts.from_values(NCNN, 1.0, f32([0.5]))
    for other in (
        LayoutCounts.from_values(NCNN, 2.0, f32([0.5])),
        LayoutCounts.from_values(TENGINE, 1.0, f32([0.5])),
    ):
        assert one != other
        with pytest.raises(CalibrationError, match="do not add up"):
            one.merge(other)


def test_counts_that_fit_no_layout_are_refused() -> None:
    for bins in (np.zeros(2047, np.int64), np.zeros(2048, np.int32), np.full(2048, -1, np.int64)):
        with pytest.raises(ValueError, match="bins are"):
            LayoutCounts(NCNN, 1.0, bins)
    assert not LayoutCounts(NCNN, 1.0, np.zeros(2048, np.int64)).bins.flags.writeable


def test_the_native_counter_refuses_what_it_cannot_count() -> None:
    for edges in (np.array([1], np.int32), np.array([3, 1], np.int32)):
        with pytest.raises(ValueError, match="ascending"):
            KeyCounter(edges, True, 1.0, 0.0)
    counter = NCNN.counter(1.0)
    for threads in (0, 257):
        with pytest.raises(ValueError, match="threads"):
            count([(counter, f32([1.0]))], threads)
    with pytest.raises(TypeError):
        count([(counter, np.array([1.0]))], 1)
