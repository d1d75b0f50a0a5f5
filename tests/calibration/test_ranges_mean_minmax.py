"""Mean min-max: exact means of the samples' extremes, whatever the order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from calib8.calibration.ranges import choose_range
from calib8.calibration.ranges.mean_minmax import mean_minmax
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import INT8, INT8_SYMMETRIC, UINT8, QuantSpec
from calib8.table import Range


def of_samples(*rows: list[float]) -> TensorStatistics:
    return TensorStatistics.from_values(np.array(rows, np.float32), len(rows))


def test_the_means_of_the_extremes() -> None:
    statistics = of_samples([-1.0, 0.5, 2.0], [-0.5, 0.0, 3.0], [-2.0, 0.25, 1.0])
    assert mean_minmax(statistics, UINT8) == Range(-3.5 / 3, 2.0)
    assert mean_minmax(statistics, INT8_SYMMETRIC) == Range(-2.0, 2.0)


def test_one_odd_sample_counts_as_one() -> None:
    rows = [[0.0, 1.0]] * 99 + [[0.0, 101.0]]
    assert mean_minmax(of_samples(*rows), UINT8) == Range(0.0, 2.0)


def test_values_of_one_sign_keep_zero() -> None:
    assert mean_minmax(of_samples([1.0, 3.0], [2.0, 5.0]), INT8) == Range(0.0, 4.0)
    assert mean_minmax(of_samples([-1.0, -3.0], [-2.0, -5.0]), INT8) == Range(-4.0, 0.0)


def test_the_sum_is_exact_in_any_order() -> None:
    rng = np.random.default_rng(3)
    rows = (rng.standard_normal((200, 5)) * 10.0 ** rng.integers(-20, 20, (200, 1))).astype(np.float32)
    exact = Fraction(sum(Fraction(float(row.max())) for row in rows), len(rows))
    parts = [TensorStatistics.from_values(row) for row in rows]
    for order in (range(200), rng.permutation(200)):
        total = TensorStatistics.empty()
        for index in order:
            total = total.merge(parts[index])
        assert mean_minmax(total, UINT8).max == float(exact)


@pytest.mark.parametrize(
    "rows",
    [([1.0], [-1.0]), ([1e-40], [0.0], [1.0], [-1.0]), ([1.0], [-1.0 + 2**-10]), ([0.001], [-1.0], [1.0])],
)
@pytest.mark.parametrize("spec", [UINT8, INT8_SYMMETRIC])
def test_one_value_a_sample_is_not_averaged_away(rows: tuple[list[float], ...], spec: QuantSpec) -> None:
    values = [value for row in rows for value in row]
    extremes = Range(-1.0, 1.0) if spec.symmetric else Range(min(values), max(values))
    assert choose_range(of_samples(*rows), spec, mean_minmax) == extremes
    two_values = of_samples(*([value, value] for value in values))
    assert mean_minmax(two_values, spec).magnitude < 0.001


def test_what_cancels_out_is_not_clipped() -> None:
    statistics = of_samples([1.0, 1.0], [-1.0, -1.0])
    assert mean_minmax(statistics, UINT8).magnitude == 0.0
    assert choose_range(statistics, UINT8, mean_minmax) == Range(-1.0, 1.0)


def test_no_bins_are_needed() -> None:
    binned = of_samples([-1.0, 2.0], [-3.0, 4.0])
    without = TensorStatistics(
        **{name: getattr(binned, name) for name in ("nans", "positive_infs", "negative_infs")},
        count=4,
        zeros=0,
        minimum=-3.0,
        maximum=4.0,
        exponent=binned.exponent,
        positive=np.zeros_like(binned.positive),
        negative=np.zeros_like(binned.negative),
        samples=2,
        minima=binned.minima,
        maxima=binned.maxima,
        binned=False,
    )
    assert mean_minmax(without, UINT8) == pytest.approx(mean_minmax(binned, UINT8)) == Range(-2.0, 3.0)
