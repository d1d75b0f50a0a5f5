"""Every one-pass method equals its definition, computed slowly and on its own, on stored distributions."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import slow_ranges
from slow_ranges import Floats, SlowErrors, divergence, magnitudes
from stored import NAMES, stored

from calib8.calibration.ranges import METHODS, choose_range
from calib8.calibration.ranges.entropy import kl_divergences, kl_threshold
from calib8.calibration.ranges.mse import range_errors, thresholds
from calib8.qparams import INT8, INT8_SYMMETRIC, UINT8, QuantSpec

SPECS = [UINT8, INT8_SYMMETRIC]
EXACT = {
    "minmax": slow_ranges.minmax,
    "mean-minmax": slow_ranges.mean_minmax,
    "percentile": slow_ranges.percentile,
    "entropy": slow_ranges.entropy,
}
SEARCHED = [(name, UINT8) for name in NAMES] + [
    (name, INT8_SYMMETRIC) for name in ("normal", "outlier_30", "relu6", "tiny")
]


def test_the_distributions_are_there() -> None:
    assert len(NAMES) == 11 and "constant" in NAMES
    assert stored("tiny").magnitude < 1e-28 and stored("huge").magnitude > 1e30
    assert stored("half_normal_zeros").zeros > 0.4 * stored("half_normal_zeros").count


@pytest.mark.one_in(2)
@pytest.mark.parametrize("spec", SPECS, ids=["uint8", "symmetric"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", EXACT)
def test_the_range_is_that_of_the_definition(method: str, name: str, spec: QuantSpec) -> None:
    statistics = stored(name)
    definition = slow_ranges.minmax if name == "constant" else EXACT[method]
    assert choose_range(statistics, spec, METHODS[method]) == definition(statistics, spec)


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "spec"), SEARCHED)
def test_mse_is_that_of_the_definition(name: str, spec: QuantSpec) -> None:
    statistics = stored(name)
    expected = (slow_ranges.minmax if name == "constant" else slow_ranges.mse)(statistics, spec)
    chosen = choose_range(statistics, spec, METHODS["mse"])
    assert (chosen.min, chosen.max) == pytest.approx((expected.min, expected.max), rel=1e-14)


@pytest.mark.parametrize("spec", [*SPECS, QuantSpec(4)], ids=["uint8", "symmetric", "uint4"])
@pytest.mark.parametrize("name", NAMES)
def test_aciq_is_that_of_the_definition(name: str, spec: QuantSpec) -> None:
    statistics = stored(name)
    slow = slow_ranges.minmax if name == "constant" else slow_ranges.aciq
    expected = slow(statistics, spec)
    chosen = choose_range(statistics, spec, METHODS["aciq"])
    assert (chosen.min, chosen.max) == pytest.approx((expected.min, expected.max), rel=1e-6)


@pytest.mark.parametrize("spec", SPECS, ids=["uint8", "symmetric"])
@pytest.mark.parametrize("name", NAMES)
def test_aciq_tengine_is_that_of_the_definition(name: str, spec: QuantSpec) -> None:
    statistics = stored(name)
    slow = slow_ranges.minmax if name == "constant" else slow_ranges.aciq_tengine
    expected = slow(statistics, spec)
    chosen = choose_range(statistics, spec, METHODS["aciq-tengine"])
    assert (chosen.min, chosen.max) == pytest.approx((expected.min, expected.max), rel=1e-7)
    if name not in ("constant", "uniform"):  # whose values of the other sign reach less far than T
        assert chosen.magnitude < statistics.magnitude


@pytest.mark.parametrize("levels", [2, 100, 128, 255, 256])
@pytest.mark.parametrize("name", NAMES)
def test_divergences_are_those_of_the_definition(name: str, levels: int) -> None:
    histogram = magnitudes(stored(name))
    fast = kl_divergences(histogram, levels)
    chosen = range(levels, histogram.size + 1, 41)
    slow = [divergence(histogram, kept, levels) for kept in chosen]
    np.testing.assert_allclose(fast[:: chosen.step], slow, rtol=0, atol=1e-12)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("spec", [UINT8, INT8, INT8_SYMMETRIC, QuantSpec(4)])
@pytest.mark.parametrize("name", NAMES)
def test_errors_are_those_of_the_definition(name: str, spec: QuantSpec) -> None:
    statistics = stored(name)
    limits = thresholds(statistics)[::61]
    share = 1.0 if spec.symmetric else 0.4
    ranges = [slow_ranges.Range(-share * limit, limit) for limit in limits]
    fast = range_errors(-share * limits, limits, statistics, spec)
    slow = [SlowErrors(statistics, spec)(chosen) for chosen in ranges]
    np.testing.assert_allclose(fast, slow, rtol=1e-8)


def test_of_equal_divergences_the_widest_range_counts() -> None:
    """Behind the last value all candidates are the same."""
    histogram = np.array([5, 5, 0, 0, 0], np.int64)
    assert np.all(kl_divergences(histogram, 2) < 1e-12)
    assert kl_threshold(histogram, 1.0, 2) == 5.5


@pytest.mark.parametrize("spec", SPECS, ids=["uint8", "symmetric"])
def test_of_equal_errors_the_widest_range_counts(spec: QuantSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["calib8.calibration.ranges.mse"], "range_errors", no_errors)
    for name in ("normal", "relu6"):
        assert choose_range(stored(name), spec, METHODS["mse"]) == slow_ranges.minmax(stored(name), spec)


def no_errors(minima: Floats, *rest: object) -> Floats:
    return np.zeros(minima.size)
