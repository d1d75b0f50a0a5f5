"""Entropy as other tools define it: equal to plain loops, and to thresholds published or known of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from slow_variants import Candidate, distributions, mxnet, ncnn, smooth, tengine

from calib8._core import layouts as native
from calib8.calibration.layouts import TENSORRT, LayoutCounts, equal_edges
from calib8.calibration.ranges import choose_range
from calib8.calibration.ranges.entropy import kl_threshold
from calib8.calibration.ranges.smallest import first_smallest, last_smallest
from calib8.calibration.ranges.two_pass import TWO_PASS_METHODS
from calib8.calibration.statistics import TensorStatistics
from calib8.qparams import INT8_SYMMETRIC, UINT8, QuantSpec, activation_qparams
from calib8.table import Range

Values = npt.NDArray[np.float32]
Curve = Callable[[npt.NDArray[np.int64], int], npt.NDArray[np.float64]]

DATA = distributions()


def counted(method: str, values: Values) -> LayoutCounts:
    layout = TWO_PASS_METHODS[method].layout
    return LayoutCounts.from_values(layout, float(np.abs(values).max()), values)


def chosen(method: str, values: Values, spec: QuantSpec = INT8_SYMMETRIC) -> Range:
    choose = TWO_PASS_METHODS[method].choose
    return choose(counted(method, values), TensorStatistics.from_values(values), spec)


def without_first(curve: Curve) -> Curve:
    """What the methods do with their first bin before they ask for the divergences."""
    return lambda bins, levels: curve(bins[1:].copy(), levels)


def first_emptied(curve: Curve) -> Curve:
    return lambda bins, levels: curve(np.concatenate([[0], bins[1:]]), levels)


VARIANTS: dict[str, tuple[Curve, Candidate]] = {
    "entropy-ncnn": (native.divergences_ncnn, ncnn),
    "entropy-tengine": (first_emptied(native.divergences_tengine), tengine),
    "entropy-smooth": (without_first(native.divergences_smooth), smooth),
    "entropy-mxnet": (native.divergences_mxnet, mxnet),
}


def first_kept(method: str, levels: int) -> int:
    return levels // 2 if method == "entropy-mxnet" else levels


@pytest.mark.parametrize("method", VARIANTS)
@pytest.mark.parametrize("seed", range(20))
def test_every_candidate_of_small_histograms_is_the_slow_one(method: str, seed: int) -> None:
    """Sparse and dense ones, counts of one to a million, empty ends; every number of kept bins."""
    rng = np.random.default_rng(seed)
    size, levels = [(40, 8), (33, 4), (71, 16), (129, 2)][seed % 4]
    if method == "entropy-mxnet":
        size, levels = size | 1, levels - 1 if levels > 2 else 3
    bins = rng.integers(0, [2, 5, 200, 10**6][seed // 4 % 4], size)
    bins[rng.random(size) < rng.choice([0.0, 0.3, 0.9])] = 0
    bins[[size // 2, size - 1]] += 1
    curve, slow = VARIANTS[method]
    found = curve(bins, levels)
    first = first_kept(method, levels)
    last = size // 2 if method == "entropy-mxnet" else size - (2 if method == "entropy-smooth" else 1)
    assert found.size == last - first + 1
    expected = [slow(bins.tolist(), kept, levels) for kept in range(first, last + 1)]
    exact = method == "entropy-tengine"  # which is rounded after every step
    np.testing.assert_allclose(found, expected, rtol=0.0 if exact else 1e-11, atol=0.0 if exact else 1e-12)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("method", VARIANTS)
@pytest.mark.parametrize("name", DATA)
def test_the_threshold_is_that_of_the_slow_search(method: str, name: str) -> None:
    """Compared at every 97th candidate and around the chosen one, of which none may be smaller."""
    values = DATA[name]
    counts = counted(method, values)
    statistics = TensorStatistics.from_values(values)
    levels = 255 if method == "entropy-mxnet" else 128
    curve, slow = VARIANTS[method]
    first = first_kept(method, levels)
    used = counts.bins[1:] if method == "entropy-smooth" else counts.bins
    found = curve(counts.bins, levels) if used.any() else np.full(1, np.inf)
    best = first_smallest(found)
    near = range(max(best - 2, 0), min(best + 3, found.size))
    bins = counts.bins.tolist()
    tried = sorted({*range(0, found.size, 97), *near, found.size - 1})
    expected = np.array([slow(bins, first + index, levels) for index in tried])
    exact = method == "entropy-tengine"
    np.testing.assert_allclose(
        found[tried], expected, rtol=0.0 if exact else 1e-10, atol=0.0 if exact else 1e-11
    )
    threshold = TWO_PASS_METHODS[method].choose(counts, statistics, INT8_SYMMETRIC).max
    if not np.isfinite(expected).any():
        assert threshold == counts.limit
        return
    assert expected[tried.index(best)] <= expected.min() + 1e-11
    assert threshold == threshold_of(method, first + best, counts.limit)


def threshold_of(method: str, kept: int, limit: float) -> float:
    if method == "entropy-mxnet":
        return float(np.linspace(-limit, limit, 8002).astype(np.float32)[4000 + kept + 1])
    if method == "entropy-smooth":
        return (kept + 0.5) * limit / 2048
    return float(np.float32(kept + 0.5) * np.float32(limit) / np.float32(2048))


@pytest.mark.parametrize("name", DATA)
def test_tensorrt_is_the_entropy_search_on_equal_bins(name: str) -> None:
    counts = counted("entropy-tensorrt-exact", DATA[name])
    expected = kl_threshold(counts.bins, counts.limit / 2048, 128)
    assert chosen("entropy-tensorrt-exact", DATA[name]) == Range(-expected, expected)


def test_the_half_bin_of_published_caches() -> None:
    """``prob: 3c010a14`` and ``data: 3c008912``: tensors up to 1 that kept 2048 and 2040 bins."""
    top = np.zeros(2048, np.int64)
    top[[10, 2047]] = 1000
    spiked = LayoutCounts(TENSORRT, 1.0, top)
    statistics = TensorStatistics.from_values(np.float32([0.005, 1.0]))
    found = TWO_PASS_METHODS["entropy-tensorrt-exact"].choose(spiked, statistics, INT8_SYMMETRIC)
    assert found.max == 2048.5 / 2048
    scale = activation_qparams(found.min, found.max, INT8_SYMMETRIC).scale
    assert int(np.float32(scale).view(np.uint32)) == 0x3C010A14
    for kept, scale_bits in ((2048, 0x3C010A14), (2040, 0x3C008912)):
        limit = (kept + 0.5) / 2048
        qparams = activation_qparams(-limit, limit, INT8_SYMMETRIC)
        assert int(np.float32(qparams.scale).view(np.uint32)) == scale_bits


@pytest.mark.parametrize(
    ("method", "expected"),
    [("entropy-tensorrt-exact", 4.27), ("entropy-ncnn", 4.18), ("entropy-mxnet", 4.06)],
)
def test_thresholds_known_of_the_tools(method: str, expected: float) -> None:
    """On 200,000 magnitudes of a normal distribution up to 4.73."""
    values = np.abs(np.random.default_rng(0).standard_normal(200_000)).astype(np.float32)
    assert chosen(method, values).max == pytest.approx(expected, abs=0.005)


def test_tengine_chooses_by_its_float32_sums() -> None:
    """On the same values the tool keeps 1945 bins; exact sums would keep 1801, so flat is the curve."""
    values = np.abs(np.random.default_rng(0).standard_normal(200_000)).astype(np.float32)
    found = chosen("entropy-tengine", values).max
    assert found == pytest.approx(1945.5 / 2048 * float(values.max()), rel=1e-7)
    divergences = VARIANTS["entropy-tengine"][0](counted("entropy-tengine", values).bins, 128)
    assert divergences[1801 - 128] < divergences.min() + 2e-3


@pytest.mark.parametrize("method", TWO_PASS_METHODS)
def test_uniform_values_are_not_clipped(method: str) -> None:
    values = np.random.default_rng(6).uniform(-1, 1, 200_000).astype(np.float32)
    assert chosen(method, values).max == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("method", TWO_PASS_METHODS)
def test_an_outlier_is_clipped(method: str) -> None:
    assert chosen(method, DATA["laplace with an outlier"]).max < 20


@pytest.mark.parametrize("method", ["entropy-tensorrt-exact", "entropy-ncnn", "entropy-tengine"])
def test_zeros_do_not_matter(method: str) -> None:
    positive = np.abs(DATA["normal"])
    padded = np.concatenate([positive, np.zeros(50_000, np.float32)])
    assert chosen(method, positive) == chosen(method, padded)


def test_mxnet_has_511_levels_for_unsigned_values() -> None:
    values = np.abs(DATA["normal"])
    counts = counted("entropy-mxnet", values)
    for spec, levels in ((UINT8, 511), (INT8_SYMMETRIC, 255)):
        best = levels // 2 + first_smallest(native.divergences_mxnet(counts.bins, levels))
        edge = float(equal_edges(-counts.limit, counts.limit, 8001)[4000 + best + 1])
        assert chosen("entropy-mxnet", values, spec).max == edge
    assert chosen("entropy-mxnet", -values, UINT8).min == chosen("entropy-mxnet", -values).min


@pytest.mark.parametrize("method", TWO_PASS_METHODS)
def test_an_asymmetric_range_ends_at_what_was_seen(method: str) -> None:
    values = np.concatenate([DATA["one outlier"], np.float32([-0.5])])
    values = np.maximum(values, -0.5)
    symmetric, found = chosen(method, values), chosen(method, values, UINT8)
    assert found.min == max(-0.5, symmetric.min)
    assert found.max == min(float(values.max()), symmetric.max)


@pytest.mark.parametrize("method", TWO_PASS_METHODS)
def test_more_levels_than_bins_clip_nothing(method: str) -> None:
    spec = QuantSpec(bits=16, signed=True, symmetric=True)
    assert chosen(method, DATA["normal"], spec).max == float(np.abs(DATA["normal"]).max())


@pytest.mark.parametrize("method", TWO_PASS_METHODS)
def test_a_constant_is_not_clipped(method: str) -> None:
    """Some of the tools would; the choice of a range does not ask them."""
    values = DATA["constant"]
    counts = counted(method, values)
    bound = lambda statistics, spec: TWO_PASS_METHODS[method].choose(counts, statistics, spec)  # noqa: E731
    assert choose_range(TensorStatistics.from_values(values), INT8_SYMMETRIC, bound) == Range(-2.5, 2.5)


def test_the_python_form_needs_positive_values() -> None:
    values = DATA["negative"]
    assert chosen("entropy-smooth", values) == Range(float(values.min()), -float(values.min()))


@pytest.mark.parametrize("name", ["ncnn", "tengine", "smooth", "mxnet"])
def test_divergences_refuse_what_is_no_histogram(name: str) -> None:
    function = getattr(native, f"divergences_{name}")
    with pytest.raises(ValueError, match="all counts are 0"):
        function(np.zeros(2048, np.int64), 128)
    with pytest.raises(ValueError, match="negative"):
        function(np.full(2048, -1, np.int64), 128)
    with pytest.raises(ValueError, match="levels"):
        function(np.ones(2048, np.int64), 1)
    with pytest.raises(TypeError):
        function(np.ones(2048, np.int32), 128)
    assert function(np.ones(7, np.int64), 128).size == 0


@pytest.mark.parametrize("count", [1, 3, 63, 64, 65, 4097, 10**9, 10**15])
def test_counts_of_any_size(count: int) -> None:
    """Through the own logarithm and the series for large counts."""
    bins = np.array([3, count, 1, 0, count, 2, 0, 1], np.int64)
    for method, (curve, slow) in VARIANTS.items():
        if method != "entropy-mxnet":
            expected = [slow(bins.tolist(), kept, 2) for kept in range(2, 7)]
            np.testing.assert_allclose(curve(bins, 2)[:5], expected, rtol=1e-9, atol=1e-12)
    odd = np.append(bins, count)
    expected = [mxnet(odd.tolist(), kept, 3) for kept in range(1, 5)]
    np.testing.assert_allclose(native.divergences_mxnet(odd, 3), expected, rtol=1e-9, atol=1e-12)


def test_of_equal_divergences_the_first_or_the_last_counts() -> None:
    divergences = np.array([2.0, 1.0 + 5e-13, 1.0, 1.0, 3.0, np.inf])
    assert first_smallest(divergences) == 1
    assert last_smallest(divergences) == 3
