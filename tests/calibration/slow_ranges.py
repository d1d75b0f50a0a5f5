"""The range methods once more, straight from their definitions and slowly: what the fast ones must equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range

Floats = npt.NDArray[np.float64]
Bins = npt.NDArray[np.int64]


def quantizer(chosen: Range, spec: QuantSpec) -> tuple[float, int, int]:
    """Scale, smallest and largest code minus zero point."""
    if spec.symmetric:
        return float(np.float32(chosen.max / (2 ** (spec.bits - 1) - 1))), 0, 2 ** (spec.bits - 1) - 1
    scale = float(np.float32((chosen.max - chosen.min) / (2**spec.bits - 1)))
    exact = spec.qmin - chosen.min / scale
    zero_point = math.floor(exact + 0.5) if exact >= 0 else math.ceil(exact - 0.5)
    return scale, spec.qmin - zero_point, spec.qmax - zero_point


class SlowErrors:
    """∫ (x − x̂)² dH by cutting every bin where x̂ changes; |x| alone for a symmetric code."""

    def __init__(self, statistics: TensorStatistics, spec: QuantSpec) -> None:
        self.spec = spec
        counts = np.concatenate([statistics.negative[::-1], statistics.positive])
        edges = np.arange(-4096, 4097) * statistics.width
        if spec.symmetric:
            counts, edges = statistics.positive + statistics.negative, edges[4096:]
        used = np.flatnonzero(counts)
        self.counts = counts[used[0] : used[-1] + 1].astype(np.float64)
        self.edges = edges[used[0] : used[-1] + 2]
        self.width = statistics.width

    def __call__(self, chosen: Range) -> float:
        scale, lowest, highest = quantizer(chosen, self.spec)
        borders = scale * (np.arange(lowest, highest) + 0.5)
        borders = borders[(borders > self.edges[0]) & (borders < self.edges[-1])]
        cuts = np.sort(np.concatenate([self.edges, borders]))
        middles = (cuts[1:] + cuts[:-1]) / 2
        codes = np.clip(np.rint(middles / scale), lowest, highest)
        density = self.counts[((middles - self.edges[0]) / self.width).astype(np.int64)] / self.width
        left, right = cuts[:-1] - scale * codes, cuts[1:] - scale * codes
        return float(np.sum(density * (right**3 - left**3) / 3))


def minmax(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    return bounded(statistics.minimum, statistics.maximum, spec)


def mean_minmax(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    if statistics.samples == statistics.finite:
        return bounded(statistics.minimum, statistics.maximum, spec)
    unit = Fraction(1, 2**149)
    low, high = (Fraction(s) * unit / statistics.samples for s in (statistics.minima, statistics.maxima))
    return bounded(float(low), float(high), spec)


def bounded(low: float, high: float, spec: QuantSpec) -> Range:
    if spec.symmetric:
        return Range(-max(abs(low), abs(high)), max(abs(low), abs(high)))
    return Range(min(low, 0.0), max(high, 0.0))


def percentile(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """99.999 %."""

    def bound(bins: list[int]) -> float:
        inside, allowed = statistics.count - sum(bins), Fraction(99999, 100000) * statistics.count
        for k, count in enumerate(bins):
            inside += count
            if inside >= allowed:
                return (k + 1) * statistics.width
        raise AssertionError("the last edge holds everything")

    if spec.symmetric:
        threshold = bound((statistics.positive + statistics.negative).tolist())
        return clipped_at(threshold, statistics, spec)
    low, high = bound(statistics.negative.tolist()), bound(statistics.positive.tolist())
    return Range(max(-low, min(statistics.minimum, 0.0)), min(high, max(statistics.maximum, 0.0)))


def clipped_at(threshold: float, statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """|x| ≤ T, within what was seen."""
    limit = min(threshold, max(abs(statistics.minimum), abs(statistics.maximum)))
    if spec.symmetric:
        return Range(-limit, limit)
    return Range(max(-limit, min(0.0, statistics.minimum)), min(limit, max(0.0, statistics.maximum)))


def one_sided(statistics: TensorStatistics, spec: QuantSpec) -> bool:
    return not spec.symmetric and not (statistics.minimum < 0 < statistics.maximum)


def magnitudes(statistics: TensorStatistics) -> Bins:
    """Counts of |x| up to the bin of the largest."""
    bins = statistics.positive + statistics.negative
    return bins[: int(np.flatnonzero(bins)[-1]) + 1]


def mse(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    error = SlowErrors(statistics, spec)
    low, high = min(statistics.minimum, 0.0), max(statistics.maximum, 0.0)
    if spec.symmetric or one_sided(statistics, spec):
        largest = max(-low, high)
        limits = [min(k * statistics.width, largest) for k in range(1, magnitudes(statistics).size + 1)]
        return last_best([clipped_at(limit, statistics, spec) for limit in limits], error)[0]
    down, up = ([k / 40 for k in range(1, 41)] for _ in range(2))
    for refinement in range(5):
        tried = [(a, b) for a in down for b in up]
        best, index = last_best([Range(low * a * a, high * b * b) for a, b in tried], error)
        step = 1 / 40 / 3 ** (refinement + 1)
        near = [{min(max(root + k * step, 1 / 160), 1.0) for k in range(-3, 4)} for root in tried[index]]
        down, up = sorted(near[0]), sorted(near[1])
    return best


def last_best(candidates: list[Range], error: Callable[[Range], float]) -> tuple[Range, int]:
    errors = [error(candidate) for candidate in candidates]
    index = max(k for k, e in enumerate(errors) if e == min(errors))
    return candidates[index], index


def divergence(histogram: Bins, kept: int, levels: int) -> float:
    """KL of one candidate, word by word as the method is described."""
    reference = histogram[:kept].astype(np.float64)
    reference[-1] += histogram[kept:].sum()
    filled = reference > 0
    group = np.arange(kept) * levels // kept  # of bin k: the last one with ceil(g·kept / levels) ≤ k
    sums = np.bincount(group, histogram[:kept], levels)
    sizes = np.bincount(group, filled, levels)
    candidate = sums[group[filled]] / sizes[group[filled]]
    if (candidate == 0).any():
        return math.inf
    p = reference[filled] / reference.sum()
    return float(np.sum(p * np.log(p / (candidate / candidate.sum()))))


def entropy(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    levels = 2**spec.bits if one_sided(statistics, spec) else 2 ** (spec.bits - 1)
    histogram = magnitudes(statistics).copy()
    histogram[0] = min(histogram[0], histogram[1])
    found = [divergence(histogram, kept, levels) for kept in range(levels, histogram.size + 1)]
    best = max(k for k, value in enumerate(found) if value <= min(found) + 1e-12)
    return clipped_at((levels + best + 0.5) * statistics.width, statistics, spec)


def aciq(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    histogram = magnitudes(statistics)
    total = sum(histogram.tolist())
    centres = [(k + 0.5) * statistics.width for k in range(histogram.size)]
    weighted = list(zip(histogram.tolist(), centres, strict=True))
    sigma = math.sqrt(sum(n * (c / statistics.width) ** 2 for n, c in weighted) / total) * statistics.width
    mean = sum(n * c for n, c in weighted) / total
    bits = spec.bits + one_sided(statistics, spec)
    limits = [sigma * best_ratio(gaussian_error, bits), mean * best_ratio(laplace_error, bits)]
    ranges = [clipped_at(limit, statistics, spec) for limit in sorted(limits)]
    return last_best(ranges, SlowErrors(statistics, spec))[0]


def gaussian_error(ratio: float, bits: int) -> float:
    """Of a standard normal distribution clipped at ``ratio``."""
    outside = math.erfc(ratio / math.sqrt(2))
    bell = math.sqrt(2 / math.pi) * math.exp(-(ratio**2) / 2)
    return (ratio**2 + 1) * outside - ratio * bell + ratio**2 / (3 * 4**bits)


def laplace_error(ratio: float, bits: int) -> float:
    """Of a Laplace distribution with b = 1."""
    return 2 * math.exp(-ratio) + ratio**2 / (3 * 4**bits)


def best_ratio(error: Callable[[float, int], float], bits: int) -> float:
    """The minimum, by thirds: to about 1e-7, for the curve is flat there."""
    low, high = 0.0, 40.0
    for _ in range(120):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if error(left, bits) > error(right, bits) else (low, right)
    return low


def aciq_tengine(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    largest = max(abs(statistics.minimum), abs(statistics.maximum))
    values = statistics.count / statistics.samples
    sigma = 2 * largest * 0.175 * (1 + (math.pi * math.log(4)) ** 0.5) / (2 * math.log(values)) ** 0.5
    return clipped_at(3.92403714 * sigma, statistics, spec)
