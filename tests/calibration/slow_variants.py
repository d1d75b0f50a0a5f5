"""The entropy methods of other tools, bin by bin in plain loops, and the distributions to try them on."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float32]
Candidate = Callable[[list[int], int, int], float]

EPSILON = 1e-4


def distributions() -> dict[str, Values]:
    rng = np.random.default_rng(7)
    normal = rng.standard_normal(20_000)
    outlier = normal.copy()
    outlier[0] = 30.0
    laplace = rng.laplace(size=20_000)
    laplace[0] = 60.0
    found = {
        "normal": normal,
        "half-normal behind a relu": np.maximum(normal, 0.0),
        "one outlier": outlier,
        "laplace with an outlier": laplace,
        "relu6": np.clip(3.0 + 3.0 * normal, 0.0, 6.0),
        "lognormal": rng.lognormal(0.0, 1.0, 20_000),
        "uniform": rng.uniform(-1.0, 1.0, 20_000),
        "constant": np.full(100, 2.5),
        "two values": np.repeat([-1.0, 3.0], 50),
        "negative": -np.abs(normal) - 0.01,
        "tiny": 1e-30 * normal,
        "huge": 1e30 * normal,
    }
    return {name: values.astype(np.float32) for name, values in found.items()}


def ncnn(histogram: list[int], kept: int, levels: int) -> float:
    total = sum(histogram)
    shares = [count / total for count in histogram]
    p = [share + EPSILON for share in shares[:kept]]
    p[-1] += sum(shares[kept:])
    q = [EPSILON] * kept
    width = kept / levels
    for group in range(levels):
        covered = overlaps(group * width, (group + 1) * width)
        mean = sum(shares[k] * part for k, part in covered) / width
        for k, part in covered:
            q[k] += part * mean
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def tengine(histogram: list[int], kept: int, levels: int) -> float:
    """Sums in float32, those of a group with its border bins first, as the tool has them.

    A product that is added is not rounded before, in float32 as in the float64 of the logarithm.
    """
    single = np.float32
    total = added([single(count) for count in histogram[1:]])
    shares = [single(0.0)] + [single(count) / total for count in histogram[1:]]
    beyond = added(shares[levels:])
    for cut in range(levels, kept):
        beyond -= shares[cut]
    p, q = shares[:kept], [single(0.0)] * kept
    p[-1] += beyond
    for group in range(levels):
        low, high = Fraction(group * kept, levels), Fraction((group + 1) * kept, levels)
        covered = [(k, single(float(part))) for k, part in overlaps(low, high)]
        covered.sort(key=lambda each: each[1] == 1.0)
        filled = added([part for k, part in covered if shares[k] > 0])
        share = single(0.0)
        for k, part in covered:
            share = fused(shares[k], part, share)
        for k, part in covered if filled else ():
            q[k] = fused(share / filled, part, q[k]) if shares[k] > 0 else q[k]
    result = single(0.0)
    for a, b in zip(p, q, strict=True):
        if a < 0 and b > 0:
            return math.inf  # the tool has no number there, and goes on
        if a != 0:
            result = fused(a, math.log(a / b), result) if b > 0 else result + single(1.0)
    return float(result)


def fused(a: np.float32, b: np.float32 | float, c: np.float32) -> np.float32:
    """a · b + c, in float32 rounded once; in float64 first where b is one."""
    if b == 1.0:
        return np.float32(a + c)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    near = np.float32(float(exact))
    if type(b) is float:
        return near
    around = (np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf)))
    return min(around, key=lambda one: (abs(Fraction(float(one)) - exact), int(one.view(np.int32)) & 1))


def added(values: list[np.float32]) -> np.float32:
    """The sum in float32, from the first value to the last."""
    result = np.float32(0.0)
    for value in values:
        result += value
    return result


def overlaps(start: Fraction | float, end: Fraction | float) -> list[tuple[int, Fraction | float]]:
    """Bins [k, k + 1] that the interval meets, and how much of each it covers."""
    bins = range(math.floor(start), math.ceil(end))
    return [(k, min(end, k + 1) - max(start, k)) for k in bins]


def smooth(histogram: list[int], kept: int, levels: int) -> float:
    """``histogram`` still has the bin that is dropped."""
    counts = histogram[1:]
    p = counts[:kept]
    p[-1] += sum(counts[kept:])
    width = kept // levels
    q = [0.0] * kept
    for group in range(levels):
        start = group * width
        last = group == levels - 1
        inside = counts[start:kept] if last else counts[start : start + width]
        stop = kept - 1 if last else start + width
        filled = sum(value != 0 for value in p[start:stop])
        for k in range(start, stop):
            q[k] = sum(inside) / filled if filled else 0.0
    return scaled_divergence(smoothed([float(value) for value in p]), smoothed(q))


def mxnet(histogram: list[int], kept: int, levels: int) -> float:
    middle = len(histogram) // 2
    start, stop = middle - kept, middle + kept + 1
    p = [float(count) for count in histogram[start:stop]]
    p[0] += sum(histogram[:start])
    p[-1] += sum(histogram[stop:])
    sliced = [0, *histogram[start + 1 : stop]]
    width = len(sliced) // levels
    q = [0.0] * len(sliced)
    for group in range(levels):
        first = group * width
        end = len(sliced) if group == levels - 1 else first + width
        filled = sum(count != 0 for count in sliced[first:end])
        for k in range(first, end):
            if filled and p[k] > 0:
                q[k] = sum(sliced[first:end]) / filled
    return scaled_divergence(smoothed(p), smoothed(q))


def smoothed(values: list[float]) -> list[float] | None:
    zeros = sum(value == 0 for value in values)
    if zeros == len(values):
        return None
    taken = EPSILON * zeros / (len(values) - zeros)
    return [value - taken if value else EPSILON for value in values]


def scaled_divergence(p: list[float] | None, q: list[float] | None) -> float:
    if p is None or q is None:
        return math.inf
    sum_p, sum_q = sum(p), sum(q)
    return sum(a / sum_p * math.log((a / sum_p) / (b / sum_q)) for a, b in zip(p, q, strict=True))
