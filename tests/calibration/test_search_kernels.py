"""The native searches themselves: the bits they give everywhere, their limits, and threads."""

from __future__ import annotations

import hashlib
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from stored import NAMES, stored

from calib8._core import search
from calib8.calibration.ranges.entropy import kl_divergences, kl_threshold
from calib8.calibration.ranges.mse import squared_errors

COUNTS = np.array([1, 0, 2, 3, 5, 3, 1, 7])
STEPS = np.array([0.5, 1.0])
LOWEST = np.zeros(2, np.int64)


def curve_bytes() -> bytes:
    """Both curves of all stored distributions, a sum of every candidate's bits."""
    parts = []
    for name in NAMES:
        histogram, _ = stored(name).magnitude_histogram()
        steps = np.arange(1, histogram.size + 1) / 255
        lowest = np.arange(histogram.size) % 3 - 1
        parts += [search.kl_divergences(histogram, levels) for levels in (100, 128, 256)]
        parts += [search.squared_errors(histogram, 0, steps, lowest, codes) for codes in (16, 256)]
    return b"".join(np.asarray(part, "<f8").tobytes() for part in parts)


def test_the_bits_are_those_of_every_other_machine() -> None:
    """Recorded on x86-64 with g++ 12; one bit more or less anywhere shows here. See search_check too."""
    assert hashlib.sha256(curve_bytes()).hexdigest()[:16] == "d15ca033a750a800"


def test_threads_give_the_same_bits() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert len({*pool.map(lambda _: curve_bytes(), range(4)), curve_bytes()}) == 1


def test_counts_up_to_the_limit() -> None:
    histogram = np.array([3, 5, 2, 9, 4, 1, 1, 6], np.int64)
    # Divergences do not depend on how many values there are.
    many = histogram << 57
    np.testing.assert_allclose(kl_divergences(many, 3), kl_divergences(histogram, 3), atol=1e-12)
    few, scaled = (squared_errors(h, 1.0, 0, STEPS, LOWEST, 4) for h in (histogram, many))
    np.testing.assert_allclose(scaled / 2.0**57, few, rtol=1e-12)
    with pytest.raises(ValueError, match="more than 2\\^62"):
        kl_divergences(histogram << 58, 3)


def test_a_single_level_and_a_level_a_bin() -> None:
    assert kl_divergences(COUNTS, 8).tolist() == pytest.approx([0.0], abs=1e-12)
    one = kl_divergences(COUNTS, 1)
    assert one.shape == (8,)
    p = np.array([1, 2, 3, 5, 3, 1, 7]) / 22
    assert one[-1] == pytest.approx(float(np.sum(p * np.log(p * 7))), abs=1e-12)


def test_equal_divergences_keep_most() -> None:
    """Values ±1 and 3 alone lose nothing at any threshold above both."""
    histogram = np.zeros(3073, np.int64)
    histogram[1024], histogram[3072] = 50, 50
    divergences = kl_divergences(histogram, 128)
    zero = np.flatnonzero(np.abs(divergences) < 1e-12)
    assert zero.size > 1
    assert kl_threshold(histogram, 1.0, 128) == 3073.5 == 128 + zero[-1] + 0.5


@pytest.mark.parametrize(
    ("counts", "levels", "message"),
    [
        (COUNTS, 0, "levels"),
        (COUNTS, 9, "levels"),
        (-COUNTS, 2, "negative"),
        (0 * COUNTS, 2, "all counts are 0"),
        (COUNTS[:0], 1, "levels"),
    ],
)
def test_divergences_refuse(counts: np.ndarray, levels: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search.kl_divergences(counts, levels)


@pytest.mark.parametrize(
    ("origin", "steps", "lowest", "codes", "message"),
    [
        (0, STEPS[:1], LOWEST, 4, "length"),
        (0, -STEPS, LOWEST, 4, "step"),
        (0, STEPS * math.nan, LOWEST, 4, "step"),
        (0, STEPS * math.inf, LOWEST, 4, "step"),
        (0, STEPS, LOWEST, 0, "codes"),
        (0, STEPS, LOWEST, 65537, "codes"),
        (0, STEPS, LOWEST - 65537, 4, "lowest"),
        (2**31, STEPS, LOWEST, 4, "origin"),
    ],
)
def test_errors_refuse(origin: int, steps: np.ndarray, lowest: np.ndarray, codes: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search.squared_errors(COUNTS, origin, steps, lowest, codes)


def test_other_arrays_are_refused() -> None:
    for counts in (COUNTS.astype(np.int32), COUNTS[::2], COUNTS[None]):
        with pytest.raises(TypeError):
            search.kl_divergences(counts, 2)
    assert kl_divergences(COUNTS[::2], 2).shape == (3,)


@pytest.mark.parametrize(
    ("lowest", "codes", "squared"),
    [(-1000, 3, 998.5**2 + 1 / 12), (1000, 3, 999.5**2 + 1 / 12), (-500, 1001, 1 / 12)],
)
def test_borders_beyond_the_histogram(lowest: int, codes: int, squared: float) -> None:
    """Codes far below, far above and on both sides of four values between 0 and 1."""
    counts = np.zeros(11, np.int64)
    counts[5] = 4
    [error] = search.squared_errors(counts, 5, np.array([1.0]), np.array([lowest]), codes)
    assert error == pytest.approx(4 * squared, rel=1e-9)
