"""Jackknife bounds: by hand for means, and holding as often as they say on samples drawn from known laws."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from calib8.tuning.group_bounds import GROUPS, counted_bound, jackknife_bound, mean_of, most_likely

CERTAIN = 0.95


def test_of_a_mean_it_is_students_bound() -> None:
    values = [0.9, 0.95, 1.0, 0.85, 0.92, 0.97, 0.99, 0.88, 0.91, 0.93]
    value, bound = jackknife_bound(10, lambda copies: mean_of(values, copies))
    error = np.std(values, ddof=1) / math.sqrt(10)
    assert value == pytest.approx(np.mean(values), abs=1e-15)
    assert bound == pytest.approx(np.mean(values) - 1.833 * error, abs=1e-12)


def test_many_samples_make_equal_groups() -> None:
    values = np.random.default_rng(1).random(100).tolist()
    _, bound = jackknife_bound(100, lambda copies: mean_of(values, copies))
    means = [np.mean(values[group::GROUPS]) for group in range(GROUPS)]
    expected = np.mean(values) - 1.729 * np.std(means, ddof=1) / math.sqrt(GROUPS)
    assert bound == pytest.approx(expected, abs=1e-12)


def test_what_cannot_be_told_without_a_group_has_no_bound() -> None:
    def needs_the_first(copies: Sequence[int]) -> float:
        return 0.9 if copies[0] else math.nan

    assert jackknife_bound(12, needs_the_first) == (0.9, 0.0)


@pytest.mark.parametrize(("failed", "exact"), [(0, 2.996), (1, 4.744), (2, 6.296), (5, 10.513), (20, 29.062)])
def test_likely_failures_are_those_of_poissons_law(failed: int, exact: float) -> None:
    assert most_likely(failed) == pytest.approx(exact, rel=0.01)
    chance = sum(math.exp(-exact) * exact**k / math.factorial(k) for k in range(failed + 1))
    assert chance == pytest.approx(1 - CERTAIN, abs=1e-3)


def test_counting_alone() -> None:
    assert counted_bound(1.0, 300) == pytest.approx(0.99, abs=2e-4)
    assert counted_bound(0.99, 100) == pytest.approx(1 - 4.744 / 100, abs=1e-3)
    assert counted_bound(1.0, 0) == counted_bound(0.0, 3) == 0.0


def crowded(rng: np.random.Generator, images: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Boxes and found boxes of images; those of one image are found or lost alike."""
    boxes = rng.integers(0, 7, images)
    return boxes, rng.binomial(boxes, rng.beta(8 * share, 8 * (1 - share), images))


@pytest.mark.parametrize("share", [0.9, 0.97])
def test_shares_of_boxes_hold_nineteen_times_in_twenty(share: float) -> None:
    rng, kept, draws = np.random.default_rng(5), 0, 400
    for _ in range(draws):
        boxes, found = crowded(rng, 150, share)

        def recall(copies: Sequence[int], boxes: np.ndarray = boxes, found: np.ndarray = found) -> float:
            return float(found @ np.asarray(copies) / (boxes @ np.asarray(copies)))

        value, bound = jackknife_bound(150, recall)
        kept += min(bound, counted_bound(value, int(boxes.sum()))) <= share
    assert kept / draws >= CERTAIN - 0.02


def test_counting_is_needed_where_little_fails() -> None:
    """Of samples without a failure the jackknife alone promises everything."""
    rng, share = np.random.default_rng(6), 0.995
    alone = both = 0
    for _ in range(300):
        lines = (rng.random(100) < share).astype(float)
        value, bound = jackknife_bound(100, lambda copies, lines=lines: mean_of(lines.tolist(), copies))
        alone += bound <= share
        both += min(bound, counted_bound(value, 100)) <= share
    assert alone / 300 < 0.6 and both / 300 >= CERTAIN - 0.02
