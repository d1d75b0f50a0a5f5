"""Error curves against loops that quantize every value, and against what the methods choose."""

from __future__ import annotations

import math

import numpy as np
import pytest
from example_statistics import distributions

from calib8.calibration.ranges.entropy import entropy
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import INT8, INT8_SYMMETRIC, UINT8, QuantSpec, activation_qparams, dequantize, quantize
from calib8.report.curves import POINTS, SMALLEST_KL, kl_curve, mse_curve

SPECS = {"uint8": UINT8, "int8": INT8, "int8-symmetric": INT8_SYMMETRIC, "int4": QuantSpec(4, True, True)}


def squared_error(values: np.ndarray, threshold: float, spec: QuantSpec) -> float:
    low, high = (-threshold, threshold)
    if not spec.symmetric:
        low, high = max(float(values.min()), low), min(float(values.max()), high)
    q = activation_qparams(min(low, 0.0), max(high, 0.0), spec)
    back = dequantize(quantize(values, q.scale, q.zero_point, spec), q.scale, q.zero_point)
    return float(np.mean((values.astype(np.float64) - back) ** 2))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("name", ["outlier", "relu", "negative", "relu6"])
def test_mse_is_that_of_quantizing_every_value(name: str, spec: QuantSpec) -> None:
    values = distributions()[name]
    curve = mse_curve(TensorStatistics.from_values(values), spec)
    if spec.symmetric:  # the code −2^(bits−1) beyond the range is not counted on
        values = np.abs(values)
    for place in (20, 150, 300, len(curve.thresholds) - 1):
        true = squared_error(values, curve.thresholds[place], spec)
        width = TensorStatistics.from_values(values).width
        assert curve.errors[place] == pytest.approx(true, rel=0.05, abs=width**2)


@pytest.mark.parametrize("name", distributions())
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_curves_are_finite_ascending_and_end_at_the_largest_magnitude(name: str, spec: QuantSpec) -> None:
    statistics = TensorStatistics.from_values(distributions()[name])
    mse, kl = mse_curve(statistics, spec), kl_curve(statistics, spec)
    for curve in (mse, kl):
        assert len(curve.thresholds) == len(curve.errors) <= POINTS
        assert all(map(math.isfinite, curve.errors))
        assert list(curve.thresholds) == sorted(curve.thresholds)
        assert not curve.thresholds or 0 < curve.thresholds[0] <= curve.thresholds[-1] <= statistics.magnitude
    assert (not mse.thresholds) == (name == "zeros")
    assert not mse.thresholds or mse.thresholds[-1] == statistics.magnitude
    assert not kl.errors or min(kl.errors) >= SMALLEST_KL


@pytest.mark.parametrize("name", ["outlier", "relu", "relu6", "negative"])
@pytest.mark.parametrize("spec", [UINT8, INT8_SYMMETRIC])
def test_the_smallest_divergence_is_where_entropy_cuts(name: str, spec: QuantSpec) -> None:
    statistics = TensorStatistics.from_values(distributions()[name])
    curve = kl_curve(statistics, spec)
    best = curve.thresholds[len(curve.errors) - 1 - int(np.argmin(curve.errors[::-1]))]
    assert best == pytest.approx(entropy(statistics, spec).magnitude, rel=1e-12)


def test_a_pile_of_values_next_to_zero_is_limited_as_entropy_does() -> None:
    values = np.random.default_rng(5).laplace(size=20000).astype(np.float32)
    leaky = np.where(values > 0, values, np.float32(1e-4) * values)
    leaky[7] = 60.0
    statistics = TensorStatistics.from_values(leaky)
    histogram, _ = statistics.magnitude_histogram()
    assert histogram[0] > 2 * histogram[1]
    curve = kl_curve(statistics, INT8_SYMMETRIC)
    best = curve.thresholds[len(curve.errors) - 1 - int(np.argmin(curve.errors[::-1]))]
    assert best == pytest.approx(entropy(statistics, INT8_SYMMETRIC).magnitude, rel=1e-12)


def test_too_few_bins_give_no_divergence() -> None:
    statistics = TensorStatistics.from_values(np.zeros(3, np.float32))
    assert kl_curve(statistics, UINT8).thresholds == ()
