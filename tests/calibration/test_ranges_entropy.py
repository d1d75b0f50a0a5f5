"""Entropy ranges: published KL values, the search by definition as oracle, and the known pitfalls."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from calib8.calibration.ranges.entropy import entropy, kl_divergences, kl_threshold
from calib8.calibration.statistics import TensorStatistics
from calib8.qparams import INT8_SYMMETRIC, UINT8, QuantSpec

Values = npt.NDArray[np.float64]


def slow_divergence(histogram: npt.NDArray[np.int64], kept: int, levels: int) -> float:
    """KL of one candidate, word by word as the method is described."""
    reference = histogram[:kept].astype(np.float64)
    reference[-1] += histogram[kept:].sum()
    candidate = np.zeros(kept)
    for group in range(levels):
        bins = slice(-(-group * kept // levels), -(-(group + 1) * kept // levels))
        used = reference[bins] > 0
        if used.any():
            candidate[bins][used] = histogram[:kept][bins].sum() / np.count_nonzero(used)
    used = reference > 0
    if (candidate[used] == 0).any():
        return math.inf
    p = reference[used] / reference.sum()
    return float(np.sum(p * np.log(p / (candidate[used] / candidate.sum()))))


def test_published_worked_example_and_search() -> None:
    histogram = np.array([1, 0, 2, 3, 5, 3, 1, 7])
    expected = [math.inf, 0.252064, 0.432014, 0.28356, 0.148169, 0.113554, 0.150315]
    divergences = kl_divergences(histogram, 2)
    np.testing.assert_allclose(divergences, expected, atol=5e-7)
    assert divergences[-1] == pytest.approx(0.1503152653, abs=1e-10)
    assert slow_divergence(histogram, 8, 2) == pytest.approx(0.1503152653, abs=1e-10)
    # Bin 0 has one count and bin 1 none: the guard empties it.
    assert kl_threshold(np.array([1, 1, 2, 3, 5, 3, 1, 7]), 0.5, 2) < 8.5 * 0.5


def draw(kind: str) -> Values:
    rng = np.random.default_rng(11)
    normal = rng.standard_normal(20_000)
    draws = {
        "half-normal": np.abs(normal),
        "exponential": rng.exponential(size=20_000),
        "lognormal": np.exp(1.2 * normal),
        "uniform": rng.uniform(0, 1, 20_000),
        "zero spike": np.maximum(normal, 1e-4),
        "constant": np.full(100, 0.7),
        "outlier": np.append(rng.laplace(size=20_000), 60.0),
        "relu6": np.clip(3 * normal, 0, 6),
        "sparse": rng.choice([0.1, 0.35, 0.9, 1.7], 500),
        "tiny": normal * 1e-25,
        "below the smallest exponent": rng.uniform(0, 1, 9_000) * 2.0**-103,
        "huge": normal * 1e37,
    }
    return draws[kind]


KINDS = [
    "half-normal", "exponential", "lognormal", "uniform", "zero spike", "constant", "outlier", "relu6",
    "sparse", "tiny", "below the smallest exponent", "huge",
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("levels", [8, 128, 256])
def test_prefix_sums_equal_the_definition(kind: str, levels: int) -> None:
    statistics = TensorStatistics.from_values(draw(kind).astype(np.float32))
    histogram, _ = statistics.magnitude_histogram()
    fast = kl_divergences(histogram, levels)
    assert fast.shape == (histogram.size - levels + 1,)
    chosen = range(levels, histogram.size + 1, 13)
    slow = np.array([slow_divergence(histogram, kept, levels) for kept in chosen])
    np.testing.assert_allclose(fast[:: chosen.step], slow, rtol=0, atol=1e-10)
    if kind not in ("constant", "sparse"):
        assert np.isfinite(slow).any()


def test_threshold_is_the_middle_of_the_last_kept_bin() -> None:
    histogram, width = TensorStatistics.from_values(
        draw("exponential").astype(np.float32)
    ).magnitude_histogram()
    guarded = histogram.copy()
    guarded[0] = min(guarded[0], guarded[1])
    divergences = kl_divergences(guarded, 128)
    best = 128 + max(np.flatnonzero(divergences == divergences.min()))
    assert kl_threshold(histogram, width, 128) == (best + 0.5) * width


def test_published_thresholds() -> None:
    """4.27 for a half-normal with amax 4.73, 9.99 for an exponential with amax 12.6; tools differ by 10 %."""
    rng = np.random.default_rng(0)
    half_normal = np.abs(rng.standard_normal(200_000)).clip(max=4.73)
    half_normal[0] = 4.73
    exponential = rng.exponential(size=200_000).clip(max=12.60)
    exponential[0] = 12.60
    for values, expected in ((half_normal, 4.27), (exponential, 9.99)):
        statistics = TensorStatistics.from_values(values.astype(np.float32))
        assert entropy(statistics, INT8_SYMMETRIC).max == pytest.approx(expected, rel=0.1)


def test_zeros_do_not_decide() -> None:
    values = np.maximum(np.random.default_rng(1).standard_normal(200_000), 0).astype(np.float32)
    statistics = TensorStatistics.from_values(values)
    threshold = entropy(statistics, INT8_SYMMETRIC).max
    assert 0.85 * statistics.maximum < threshold <= statistics.maximum
    assert entropy(statistics, UINT8).max == pytest.approx(threshold, rel=0.1)
    # With the zeros in bin 0 and no guard the search would minimise their smearing and clip at about 2.
    histogram, width = statistics.magnitude_histogram()
    histogram[0] += statistics.zeros
    naive = (128 + int(np.argmin(kl_divergences(histogram, 128))) + 0.5) * width
    assert naive < 0.6 * threshold
    # The guard alone saves it where the zeros were replaced by tiny values.
    nearly = TensorStatistics.from_values(np.where(values == 0, np.float32(1e-6), values))
    assert entropy(nearly, INT8_SYMMETRIC).max == pytest.approx(threshold, rel=0.02)


def test_one_outlier_is_clipped() -> None:
    values = np.append(np.random.default_rng(2).laplace(size=200_000), 60.0).astype(np.float32)
    statistics = TensorStatistics.from_values(values)
    assert 5 < entropy(statistics, INT8_SYMMETRIC).max < 20
    chosen = entropy(statistics, UINT8)
    assert 5 < chosen.max < 20
    assert chosen.min == max(statistics.minimum, -chosen.max)


def test_spike_at_the_top_is_kept() -> None:
    statistics = TensorStatistics.from_values(draw("relu6").astype(np.float32))
    for spec in (UINT8, INT8_SYMMETRIC):
        assert entropy(statistics, spec).max == pytest.approx(6.0, rel=0.01)


def test_too_few_bins_to_search() -> None:
    low = TensorStatistics.from_values(np.array([1, 2, 3, 3], np.float32) * np.float32(2**-110))
    assert low.magnitude_histogram()[0].size < 128
    assert entropy(low, INT8_SYMMETRIC).max == low.magnitude
    wide = QuantSpec(bits=16, signed=True, symmetric=True)
    some = TensorStatistics.from_values(draw("exponential").astype(np.float32))
    assert entropy(some, wide).max == some.magnitude


def test_sides_and_bits() -> None:
    values = draw("exponential").astype(np.float32)
    positive, negative = TensorStatistics.from_values(values), TensorStatistics.from_values(-values)
    assert (entropy(positive, UINT8).min, entropy(negative, UINT8).max) == (0, 0)
    assert entropy(positive, UINT8).max == -entropy(negative, UINT8).min
    histogram, width = positive.magnitude_histogram()
    for bits in (4, 8):
        both_sides = QuantSpec(bits, signed=True, symmetric=True)
        assert entropy(positive, QuantSpec(bits)).max == kl_threshold(histogram, width, 1 << bits)
        assert entropy(positive, both_sides).max == kl_threshold(histogram, width, 1 << (bits - 1))
    narrow = TensorStatistics.from_values(np.append(values, np.float32(-0.1)))
    assert entropy(narrow, UINT8).min == pytest.approx(-0.1)
    assert entropy(narrow, QuantSpec(8, signed=True)) == entropy(narrow, UINT8)
