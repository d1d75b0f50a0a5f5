"""Percentile ranges: the upper-edge rule on a published histogram, exactness at 100, both tails."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calib8.calibration.ranges.percentile import allowed_outside, percentile
from calib8.calibration.statistics import TensorStatistics
from calib8.errors import UsageError
from calib8.qparams import INT8, INT8_SYMMETRIC, UINT8

COUNTS = [10, 20, 30, 20, 10, 5, 3, 1, 0, 1]


def published() -> TensorStatistics:
    """The ten bins of width 0.1, each about 410 of ours, with its values at its centre."""
    values = np.repeat((np.arange(10) + 0.5) * 0.1, COUNTS).astype(np.float32)
    return TensorStatistics.from_values(values)


@pytest.mark.parametrize(("percent", "bin_index"), [(90, 4), (95, 5), (99, 7), (99.9, 9)])
def test_published_vector(percent: float, bin_index: int) -> None:
    chosen = percentile(published(), UINT8, percent)
    centre = (bin_index + 0.5) * 0.1
    # The upper edge of the fine bin that holds the value, or the value itself where it is the largest.
    assert centre * (1 - 1e-6) <= chosen.max <= centre + 1 / 4096
    assert chosen.min == 0


def test_upper_edge_is_returned() -> None:
    statistics = TensorStatistics.from_values(np.array([0.25, 0.5, 0.5, 0.75], np.float32))
    assert percentile(statistics, UINT8, 25).max == 0.25 + 2**-12
    assert percentile(statistics, UINT8, 26).max == 0.5 + 2**-12
    assert percentile(statistics, UINT8, 75).max == 0.5 + 2**-12
    assert percentile(statistics, UINT8, 75.0001).max == 0.75
    assert percentile(statistics, INT8_SYMMETRIC, 75).min == -0.5 - 2**-12


def test_zeros_count() -> None:
    values = np.zeros(1000, np.float32)
    values[:2] = [1.0, 0.5]
    statistics = TensorStatistics.from_values(values)
    assert percentile(statistics, UINT8, 99.9).max == 0.5 + 2**-11
    assert percentile(statistics, UINT8, 99.95).max == 1.0
    assert percentile(statistics, UINT8, 50).max == 2**-11  # never an empty range


def test_two_tails() -> None:
    values = np.concatenate([np.linspace(-1, 3, 4001), [-50.0, 80.0]]).astype(np.float32)
    chosen = percentile(TensorStatistics.from_values(values), INT8, 99.95)
    assert -1.0 - 2**-5 <= chosen.min <= -0.998
    assert 2.998 <= chosen.max <= 3.0 + 2**-5


@pytest.mark.parametrize("percent", [0.0, -1.0, 100.001, float("nan")])
def test_percent_out_of_range(percent: float) -> None:
    with pytest.raises(UsageError, match="percent"):
        percentile(published(), UINT8, percent)


def test_percent_is_taken_as_a_decimal() -> None:
    assert allowed_outside(1000, 99.9) == 1
    assert allowed_outside(10**12, 99.999) == 10**7
    assert allowed_outside(999, 99.9) == 0
    assert allowed_outside(7, 100) == 0


@given(
    values=arrays(np.float32, st.integers(2, 80), elements=st.floats(-1e6, 1e6, width=32)),
    percent=st.sampled_from([50.0, 90.0, 99.0, 99.999, 100.0]),
)
@settings(derandomize=True, deadline=None)
def test_no_more_is_clipped_than_allowed(values: np.ndarray, percent: float) -> None:
    values[0] = 1.5
    statistics = TensorStatistics.from_values(values)
    allowed = allowed_outside(values.size, percent)
    chosen = percentile(statistics, INT8, percent)
    assert np.count_nonzero(values > chosen.max) <= allowed
    assert np.count_nonzero(values < chosen.min) <= allowed
    assert chosen.max <= max(values.max(), 0) and chosen.min >= min(values.min(), 0)
    symmetric = percentile(statistics, INT8_SYMMETRIC, percent)
    assert np.count_nonzero(np.abs(values) > symmetric.max) <= allowed
    if percent == 100:
        assert (chosen.min, chosen.max) == (min(values.min(), 0), max(values.max(), 0))
        assert symmetric.max == np.abs(values).max()
