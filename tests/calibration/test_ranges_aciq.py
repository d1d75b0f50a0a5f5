"""ACIQ ranges: published ratios and vectors, the distribution that is told apart, limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calib8.calibration.ranges.aciq import aciq, gaussian_ratio, laplace_ratio
from calib8.calibration.ranges.aciq_tengine import aciq_tengine
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import INT8, INT8_SYMMETRIC, UINT8, QuantSpec, activation_qparams
from calib8.table import Range

GAUSS = [1.23991, 1.71064, 2.15159, 2.55914, 2.93620, 3.28691, 3.61511, 3.92404, 4.21633]
LAPLACE = [1.8628, 2.8307, 3.8972, 5.0286, 6.2048, 7.4131, 8.6456, 9.8968, 11.1627]


def test_published_ratios() -> None:
    assert [gaussian_ratio(bits) for bits in range(1, 10)] == pytest.approx(GAUSS, abs=5.1e-6)
    assert [laplace_ratio(bits) for bits in range(1, 10)] == pytest.approx(LAPLACE, abs=5.1e-5)


@pytest.mark.parametrize("bits", range(1, 25))
def test_the_ratios_solve_their_equations_and_do_not_hang_on_the_last_digits(bits: int) -> None:
    t, u, power = gaussian_ratio(bits), laplace_ratio(bits), 4.0**bits
    bell = math.sqrt(2 / math.pi) * math.exp(-t * t / 2)
    assert t * (math.erfc(t / math.sqrt(2)) + 1 / (3 * power)) == pytest.approx(bell, rel=1e-9)
    assert u * math.exp(u) == pytest.approx(3 * power, rel=1e-9)
    assert float(f"{t:.12g}") == t and float(f"{u:.12g}") == u


def statistics_of(values: np.ndarray, samples: int = 1) -> TensorStatistics:
    return TensorStatistics.from_values(values.astype(np.float32), samples)


@pytest.mark.parametrize("bits", [4, 8])
def test_gauss_and_laplace_are_told_apart(bits: int) -> None:
    rng = np.random.default_rng(8)
    normal, laplace = rng.standard_normal(400_000), rng.laplace(size=400_000)
    spec = QuantSpec(bits, signed=True, symmetric=True)
    assert aciq(statistics_of(normal), spec).max == pytest.approx(gaussian_ratio(bits), rel=0.01)
    assert aciq(statistics_of(laplace), spec).max == pytest.approx(laplace_ratio(bits), rel=0.01)


def test_one_side_has_a_bit_more_and_zeros_do_not_count() -> None:
    normal = np.random.default_rng(9).standard_normal(400_000)
    relu = statistics_of(np.maximum(normal, 0))
    assert aciq(relu, UINT8).max == pytest.approx(gaussian_ratio(9), rel=0.01)
    assert aciq(relu, INT8_SYMMETRIC).max == pytest.approx(gaussian_ratio(8), rel=0.01)
    assert aciq(relu, UINT8).min == 0.0
    assert aciq(statistics_of(-np.maximum(normal, 0)), INT8) == Range(-aciq(relu, UINT8).max, 0.0)
    assert aciq(statistics_of(normal), UINT8).max == pytest.approx(gaussian_ratio(8), rel=0.01)
    mostly_zero = np.where(np.arange(normal.size) % 10, 0.0, normal)
    assert aciq(statistics_of(mostly_zero), INT8_SYMMETRIC).max == pytest.approx(gaussian_ratio(8), rel=0.03)


def test_nothing_beyond_what_was_seen() -> None:
    uniform = statistics_of(np.linspace(-0.25, 1.0, 10_001))
    for spec in (UINT8, INT8):
        assert aciq(uniform, spec) == Range(-0.25, 1.0)
    assert aciq(uniform, INT8_SYMMETRIC) == Range(-1.0, 1.0)


def test_published_vector_of_tengine() -> None:
    values = np.zeros(2 * 100_352)
    values[7], values[-3] = -3.0, 2.5
    chosen = aciq_tengine(statistics_of(values, samples=2), INT8_SYMMETRIC)
    assert chosen.max == pytest.approx(2.6501567, abs=1.2e-7)
    assert activation_qparams(chosen.min, chosen.max, INT8_SYMMETRIC).scale == pytest.approx(
        0.0208673756, rel=1e-7
    )
    assert aciq_tengine(statistics_of(values, samples=2), UINT8) == Range(chosen.min, 2.5)


@pytest.mark.parametrize(("size", "share"), [(50_176, 0.911), (802_816, 0.813), (8000, 1.0)])
def test_published_shares_of_tengine(size: int, share: float) -> None:
    values = np.zeros(size)
    values[0] = 1.0
    assert aciq_tengine(statistics_of(values), UINT8).max == pytest.approx(share, abs=6e-4)


@pytest.mark.parametrize("size", [1, 2, 100, 1000, 7900])
def test_small_tensors_of_tengine_are_not_clipped(size: int) -> None:
    values = np.linspace(0.25, 1, 4 * size)
    assert aciq_tengine(statistics_of(values, samples=4), UINT8) == Range(0.0, 1.0)


@pytest.mark.parametrize(("size", "largest", "scale"), [(784, 0.93726, 0.008570), (10, 8.131175, 0.126488)])
def test_symmetric_scales_of_small_tensors_are_those_of_the_tool(
    size: int, largest: float, scale: float
) -> None:
    """The input and the output of a network as Tengine's quant_tool scaled them, with six decimals."""
    values = np.linspace(0, largest, size)
    chosen = aciq_tengine(statistics_of(values), INT8_SYMMETRIC)
    assert chosen.max / 127 == pytest.approx(scale, abs=2e-6)
    assert chosen.min == -chosen.max


def test_a_single_value_is_its_own_threshold() -> None:
    assert aciq_tengine(statistics_of(np.array([2.5])), INT8_SYMMETRIC) == Range(-2.5, 2.5)


def test_other_bits_of_tengine_take_the_ratio_of_their_own() -> None:
    values = np.zeros(100_352)
    values[0] = 3.0
    eight, four = (aciq_tengine(statistics_of(values), QuantSpec(bits)).max for bits in (8, 4))
    assert four / eight == pytest.approx(2.55913646 / 3.92403714, rel=1e-6)
