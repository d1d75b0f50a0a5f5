"""What holds for every range method: degenerate and constant tensors, bounds, and the clipped share."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calib8.calibration.ranges import METHODS, WITHOUT_BINS, choose_range, clipped_share
from calib8.calibration.statistics import TensorStatistics
from calib8.qparams import INT8, INT8_SYMMETRIC, UINT8, QuantSpec, activation_qparams
from calib8.table import Range

INT4 = QuantSpec(bits=4, signed=True, symmetric=True)
UINT4 = QuantSpec(bits=4)
SPECS = [UINT8, INT8, INT8_SYMMETRIC, UINT4, INT4]


def statistics_of(*values: float) -> TensorStatistics:
    return TensorStatistics.from_values(np.array(values, np.float32))


def test_methods() -> None:
    expected = {"minmax", "mean-minmax", "percentile", "mse", "entropy", "aciq", "aciq-tengine"}
    assert expected <= set(METHODS) and set(METHODS) > WITHOUT_BINS


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spec", SPECS)
def test_degenerate_tensors_have_no_range(method: str, spec: QuantSpec) -> None:
    for values in ([], [0.0, -0.0], [math.nan, math.inf], [1e-42, -1e-40], [1e-38]):
        assert choose_range(statistics_of(*values), spec, METHODS[method]) == Range(0.0, 0.0), values


@pytest.mark.parametrize("method", METHODS)
def test_smallest_range_that_has_a_scale(method: str) -> None:
    smallest = 255 * 2.0**-126
    chosen = choose_range(statistics_of(smallest, smallest / 2), UINT8, METHODS[method])
    assert 0 < chosen.max <= smallest
    assert choose_range(statistics_of(smallest / 2), UINT8, METHODS[method]) == Range(0.0, 0.0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [0.7, -0.7, 1.0, 3e38, -1e-30])
def test_constant_tensors_are_not_clipped(method: str, value: float) -> None:
    statistics = statistics_of(*[value] * 50)
    exact = float(np.float32(value))
    for spec in (UINT8, INT8, UINT4):
        assert choose_range(statistics, spec, METHODS[method]) == Range(min(exact, 0.0), max(exact, 0.0))
    assert choose_range(statistics, INT8_SYMMETRIC, METHODS[method]) == Range(-abs(exact), abs(exact))
    assert clipped_share(statistics, choose_range(statistics, UINT8, METHODS[method])) == 0


def test_minmax() -> None:
    assert choose_range(statistics_of(-1, 2, math.inf), UINT8, METHODS["minmax"]) == Range(-1, 2)
    assert choose_range(statistics_of(1, 2), UINT8, METHODS["minmax"]) == Range(0, 2)
    assert choose_range(statistics_of(-3, -2), INT8, METHODS["minmax"]) == Range(-3, 0)
    assert choose_range(statistics_of(-3, 2), INT8_SYMMETRIC, METHODS["minmax"]) == Range(-3, 3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spec", SPECS)
@given(values=arrays(np.float32, st.integers(1, 40), elements=st.floats(width=32, allow_nan=False)))
@settings(derandomize=True, deadline=None, max_examples=12)
def test_bounds(method: str, spec: QuantSpec, values: npt.NDArray[np.float32]) -> None:
    statistics = TensorStatistics.from_values(values)
    chosen = choose_range(statistics, spec, METHODS[method])
    if spec.symmetric:
        assert chosen.min == -chosen.max
        assert chosen.max <= statistics.magnitude or method == "aciq-tengine"  # which has no limit for these
    else:
        assert min(statistics.minimum, 0) <= chosen.min <= 0 <= chosen.max <= max(statistics.maximum, 0)
    assert activation_qparams(chosen.min, chosen.max, spec).scale > 0
    assert 0 <= clipped_share(statistics, chosen) <= 1


@pytest.mark.parametrize("method", METHODS)
def test_sign_mirrors_the_range(method: str) -> None:
    values = np.random.default_rng(4).exponential(size=20_000).astype(np.float32)
    up = choose_range(TensorStatistics.from_values(values), INT8, METHODS[method])
    down = choose_range(TensorStatistics.from_values(-values), INT8, METHODS[method])
    assert (down.min, down.max) == (pytest.approx(-up.max, rel=0.02), 0)


def test_clipped_share() -> None:
    values = np.random.default_rng(5).standard_normal(50_000).astype(np.float32)
    statistics = TensorStatistics.from_values(values)
    for chosen in (Range(-1, 1), Range(-0.3, 2.7), Range(0, 3), Range(-9, 9), Range(0, 0)):
        exact = float(np.mean((values < chosen.min) | (values > chosen.max)))
        assert clipped_share(statistics, chosen) == pytest.approx(exact, abs=1e-3)
    assert clipped_share(statistics, Range(statistics.minimum, statistics.maximum)) == 0
    below_the_largest = Range(-9, float(np.nextafter(np.float32(statistics.maximum), np.float32(0))))
    assert clipped_share(statistics, below_the_largest) == 1 / values.size
    assert clipped_share(TensorStatistics.empty(), Range(0, 0)) == 0
    assert clipped_share(statistics_of(math.inf, math.nan, 2, 1), Range(0, 1.5)) == 0.5
