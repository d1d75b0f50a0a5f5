"""MSE ranges: a published 4-bit vector, the true quantizer as oracle, and searches that find the optimum."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from calib8.calibration.ranges.mse import mse, squared_errors
from calib8.calibration.statistics import TensorStatistics
from calib8.qparams import INT8, INT8_SYMMETRIC, UINT8, QuantSpec, activation_qparams, dequantize, quantize
from calib8.table import Range

COUNTS = [10, 20, 30, 20, 10, 5, 3, 1, 0, 1]
ERRORS = [0.03236531, 0.01591224, 0.0077449, 0.0039449, 0.00187959, 0.0031, 0.00096939, 0.00112041, 0.0017]
INT4 = QuantSpec(bits=4, signed=True, symmetric=True)

Values = npt.NDArray[np.float32]


def test_published_vector() -> None:
    parts = 100_001  # values sit at the centres of the ten bins, in cells too narrow to matter
    histogram = np.zeros(10 * parts, np.int64)
    histogram[parts // 2 :: parts] = COUNTS
    thresholds = np.arange(2, 11) * 0.1
    errors = squared_errors(histogram, 0.1 / parts, 0, thresholds / 7, np.zeros(9, np.int64), 8) / 100
    np.testing.assert_allclose(errors, ERRORS, atol=5e-8)
    assert int(np.argmin(errors)) == 6


def true_error(values: Values, chosen: Range, spec: QuantSpec) -> float:
    q = activation_qparams(chosen.min, chosen.max, spec)
    codes = quantize(values, q.scale, q.zero_point, spec)
    restored = dequantize(codes.astype(np.int64), q.scale, q.zero_point)
    return float(np.mean((values.astype(np.float64) - restored) ** 2))


def sample(kind: str) -> Values:
    rng = np.random.default_rng(7)
    normal = rng.standard_normal(60_000)
    draw = {
        "relu": np.maximum(normal, 0),
        "negative": -(np.abs(normal) ** 1.5),
        "skewed": np.where(normal > 0, normal * 3, normal * 0.4) + 0.2,
        "laplace": rng.laplace(size=60_000),
        "outlier": np.append(rng.laplace(size=60_000), [25.0]),
        "leaky": np.where(normal > 0, normal, 0.01 * normal),
        "uniform": rng.uniform(-1, 2, 60_000),
        "relu6": np.clip(normal * 3, 0, 6),
        "shifted": normal * 0.01 + 5,
    }
    return draw[kind].astype(np.float32)


KINDS = ["relu", "negative", "skewed", "laplace", "outlier", "leaky", "uniform", "relu6", "shifted"]
SPECS = [UINT8, INT8, QuantSpec(bits=4), QuantSpec(bits=4, signed=True)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spec", SPECS)
def test_modelled_error_is_the_error_of_the_quantizer(kind: str, spec: QuantSpec) -> None:
    values = sample(kind)
    statistics = TensorStatistics.from_values(values)
    histogram, width, origin = statistics.signed_histogram()
    low, high = min(statistics.minimum, 0.0), max(statistics.maximum, 0.0)
    for share in (1.0, 0.8, 0.5):
        chosen = Range(low * share, high * share**2)
        q = activation_qparams(chosen.min, chosen.max, spec)
        lowest = np.array([spec.qmin - q.zero_point])
        codes = spec.qmax - spec.qmin + 1
        modelled = squared_errors(histogram, width, origin, np.array([q.scale]), lowest, codes) / values.size
        assert modelled[0] == pytest.approx(true_error(values, chosen, spec), rel=0.03), share


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spec", SPECS)
def test_search_finds_the_optimum_of_the_data(kind: str, spec: QuantSpec) -> None:
    values = sample(kind)
    statistics = TensorStatistics.from_values(values)
    low, high = min(statistics.minimum, 0.0), max(statistics.maximum, 0.0)
    found = mse(statistics, spec)
    assert low <= found.min <= 0 <= found.max <= high
    rng = np.random.default_rng(1)
    tried = [Range(low * a, high * b) for a, b in rng.uniform(0.02, 1, (60, 2))]
    tried += [Range(low * a, high * a) for a in np.linspace(0.02, 1, 40)]
    best = min(true_error(values, chosen, spec) for chosen in tried if chosen.min < chosen.max)
    assert true_error(values, found, spec) <= best * 1.03


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spec", [INT8_SYMMETRIC, INT4])
def test_symmetric_search(kind: str, spec: QuantSpec) -> None:
    values = np.abs(sample(kind))
    statistics = TensorStatistics.from_values(sample(kind))
    found = mse(statistics, spec)
    assert found.min == -found.max and 0 < found.max <= statistics.magnitude
    shares = np.linspace(0.02, 1, 200) * statistics.magnitude
    best = min(true_error(values, Range(-t, t), spec) for t in shares)
    assert true_error(values, found, spec) <= best * 1.03


def test_four_bits_clip_more_than_eight() -> None:
    statistics = TensorStatistics.from_values(sample("laplace"))
    assert mse(statistics, INT4).max < 0.7 * mse(statistics, INT8_SYMMETRIC).max


def test_two_values_are_kept_exactly() -> None:
    statistics = TensorStatistics.from_values(np.array([-1.0, 3.0] * 50, np.float32))
    chosen = mse(statistics, UINT8)
    assert chosen.max == pytest.approx(3.0, rel=0.02)
    assert chosen.min == pytest.approx(-1.0, rel=0.05)


def test_huge_and_tiny_magnitudes() -> None:
    for factor in (1e-27, 1e33):
        values = (sample("laplace").astype(np.float64) * factor).astype(np.float32)
        unscaled = mse(TensorStatistics.from_values(sample("laplace")), UINT8)
        scaled = mse(TensorStatistics.from_values(values), UINT8)
        assert scaled.max / factor == pytest.approx(unscaled.max, rel=0.05)
