"""What is drawn of a tensor is what was counted and chosen."""

from __future__ import annotations

import numpy as np
import pytest
from example_statistics import distributions, statistics_of
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calib8.calibration.choose import choose_table
from calib8.calibration.ranges import BEHIND, METHODS
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.errors import TableError
from calib8.qparams import INT8_SYMMETRIC, UINT8
from calib8.report.pictures import DRAWN_BINS, drawn_histogram, pictures
from calib8.table import CalibrationTable, Range, TableEntry

DRAWN = [name for name in METHODS if name != BEHIND]
"""All that need nothing but the statistics."""


@given(
    hnp.arrays(
        np.float32,
        st.integers(0, 40),
        elements=st.floats(-100, 100, width=32) | st.floats(-0.0009765625, 0.0009765625, width=32),
    )
)
def test_no_value_is_lost_or_moved_by_adding_bins(values: np.ndarray) -> None:
    histogram = drawn_histogram(TensorStatistics.from_values(values))
    assert len(histogram.counts) <= DRAWN_BINS
    expected = np.zeros(len(histogram.counts), int)
    for x in values[values != 0].tolist():
        step = int(abs(x) / histogram.width)  # a power of two: the quotient is exact
        expected[histogram.below + step if x > 0 else histogram.below - 1 - step] += 1
    assert list(histogram.counts) == expected.tolist()


def test_both_sides_share_the_bins_evenly() -> None:
    rng = np.random.default_rng(0)
    one = drawn_histogram(TensorStatistics.from_values(rng.uniform(0, 1, 9000).astype(np.float32)))
    both = drawn_histogram(TensorStatistics.from_values(rng.uniform(-1, 1, 9000).astype(np.float32)))
    assert (one.below, len(one.counts), one.width) == (0, 512, 1 / 512)
    assert (both.below, len(both.counts), both.width) == (256, 512, 1 / 256)


@pytest.mark.parametrize("spec", [UINT8, INT8_SYMMETRIC])
def test_a_picture_holds_every_method_and_the_chosen_range(spec) -> None:
    statistics = statistics_of(**distributions())
    table = choose_table(statistics, spec, "mse")
    shown = pictures(statistics, table, spec)
    assert [picture.name for picture in shown] == sorted(distributions())
    for picture in shown:
        assert [choice.method for choice in picture.methods] == DRAWN
        entry = table.entries[picture.name]
        assert (picture.chosen.range, picture.chosen.saturated) == (entry.range, entry.clipped)
        mse = next(choice for choice in picture.methods if choice.method == "mse")
        assert mse.range == entry.range
        assert picture.zeros + sum(picture.histogram.counts) == picture.count == entry.count


def test_lost_range() -> None:
    statistics = statistics_of(x=np.array([-2.0, 1.0, 6.0], np.float32), z=np.zeros(2, np.float32))
    for chosen, lost in ((Range(-2, 6), 0.0), (Range(-1, 3), 0.5), (Range(-9, 9), 0.0), (Range(0, 0), 1.0)):
        entries = {name: TableEntry(chosen, "given", 0.0, 3, 0, Range(-2, 6)) for name in statistics.tensors}
        x, z = pictures(statistics, CalibrationTable(statistics.model_hash, entries), UINT8)
        assert (x.lost, z.lost) == (lost, 0.0)


def test_a_table_of_something_else_is_refused() -> None:
    statistics = statistics_of(x=np.ones(3, np.float32))
    table = choose_table(statistics, UINT8, "minmax")
    with pytest.raises(TableError, match="another model"):
        pictures(statistics, CalibrationTable("f" * 64, table.entries), UINT8)
    more = {**table.entries, "y": table.entries["x"]}
    with pytest.raises(TableError, match=r"1 of 2 tensors are not in the statistics: 'y'"):
        pictures(statistics, CalibrationTable(table.model_hash, more), UINT8)
    with pytest.raises(TableError, match=r"1 of 1 tensors are not in the statistics: 'y'"):
        pictures(statistics, CalibrationTable("", {"y": table.entries["x"]}), UINT8)
    (foreign,) = pictures(statistics, CalibrationTable("", more), UINT8)
    assert foreign.name == "x"
    wider = statistics_of(x=np.ones(3, np.float32), y=np.ones(3, np.float32))
    assert [picture.name for picture in pictures(wider, table, UINT8)] == ["x"]


def test_the_share_is_that_of_the_statistics() -> None:
    statistics = statistics_of(x=np.array([1, 2, 3, 40], np.float32))
    entry = TableEntry(Range(-5, 5), "TensorRT cache", 0.0, 0, 0, Range(-5, 5))
    (shown,) = pictures(statistics, CalibrationTable("", {"x": entry}), INT8_SYMMETRIC)
    assert shown.chosen.saturated == 0.25


def test_a_tensor_with_nan_has_no_methods() -> None:
    values = np.array([1, 2, np.nan, -np.inf], np.float32)
    statistics = statistics_of(x=values, y=values[:2])
    entry = TableEntry(Range(-5, 5), "given", 0.0, 2, 0, Range(1, 2))
    table = CalibrationTable(statistics.model_hash, {"x": entry, "y": entry})
    x, y = pictures(statistics, table, UINT8)
    assert (x.count, x.others, x.methods, sum(x.histogram.counts)) == (2, 2, (), 2)
    assert (y.others, len(y.methods)) == (0, len(DRAWN))
