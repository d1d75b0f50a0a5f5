"""Bounds: exact on examples by hand, and holding as often as they say on samples drawn from known laws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calib8.tuning.evidence import (
    Margins,
    Z,
    _counts,
    _near,
    _pairs,
    change_bound,
    counted_limit,
    margins,
    ratio_bound_db,
    runner_up,
    samples_to_count,
)


def test_margins_of_rows_of_scores() -> None:
    real = np.array([[3.0, 1.0, 2.5], [0.0, 4.0, 1.0]], np.float32)
    coded = np.array([[2.8, 1.2, 2.9], [0.0, 4.0, 1.0]], np.float32)
    found = margins(real, coded)
    assert found.margin == pytest.approx([0.5, 3.0])
    assert found.loss == pytest.approx([0.6, 0.0], abs=1e-6)
    assert found.spread == pytest.approx([np.std([-0.2, 0.2, 0.4]), 0.0], abs=1e-6)
    best, second = runner_up(real)
    assert best.tolist() == [0, 1] and second.tolist() == [2, 2]


def test_no_difference_is_no_change() -> None:
    scores = np.random.default_rng(0).normal(size=(50, 10))
    assert change_bound(margins(scores, scores), np.ones(50)) == 0.0


def test_scores_that_are_not_finite_change_everything() -> None:
    scores = np.random.default_rng(0).normal(size=(50, 10))
    broken = scores.copy()
    broken[3, 4] = np.nan
    assert change_bound(margins(scores, broken), np.ones(50)) == 1.0


def test_the_rate_by_plain_loops() -> None:
    rng = np.random.default_rng(1)
    n = 23
    found = Margins(rng.gamma(2.0, 1.0, n), rng.normal(0.0, 3.0, n), rng.gamma(5.0, 0.2, n))
    gain = rng.choice([-1.0, 0.0, 1.0], n)
    t, u = found.margin / found.spread, found.loss / found.spread
    matrix = np.array([[g * (step >= distance) for step in u] for distance, g in zip(t, gain, strict=True)])
    variance = (np.var(matrix.mean(1), ddof=1) + np.var(matrix.mean(0), ddof=1)) / n
    k = max(2, n // 4)
    order = np.argsort(t)[:k]
    taken = np.maximum(u, 0.0)
    share = (k - 1) / (n * t[order[-1]]) * taken.mean()
    centre = gain[order].mean()
    relative = 1 / (k - 1) + np.var(taken, ddof=1) / (n * taken.mean() ** 2)
    error = share * math.sqrt(centre**2 * relative + np.var(gain[order], ddof=1) / k)
    assert _pairs(t, u, gain) == pytest.approx((matrix.mean(), math.sqrt(variance)), rel=1e-12)
    assert _near(t, u, gain) == pytest.approx((share * centre, error), rel=1e-12)
    assert change_bound(found, gain) >= max(
        matrix.mean() + Z * math.sqrt(variance), share * centre + Z * error
    ) * (1.0 - 1e-12)


def test_the_counts_are_those_of_drawn_ones() -> None:
    rng = np.random.default_rng(2)
    mean, error, n = 0.01, 0.004, 400
    shape = (mean / error) ** 2
    drawn = rng.poisson(rng.gamma(shape, n * mean / shape, 400_000))
    found = _counts((mean, error), n)
    assert found.sum() == pytest.approx(1.0)
    for count in range(12):
        assert found[count] == pytest.approx(np.mean(drawn == count), abs=0.003)
    poisson = _counts((mean, 0.0), n)
    assert poisson[2] == pytest.approx(math.exp(-4.0) * 8.0, rel=1e-6)
    assert _counts((0.0, 0.0), n).tolist() == [1.0]


@pytest.mark.parametrize("n", [40, 200])
@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_as_many_other_samples_keep_to_the_bound_as_often_as_it_says(n: int, noise: float) -> None:
    rng = np.random.default_rng(5)

    def drawn() -> tuple[np.ndarray, np.ndarray]:
        real = rng.normal(0.0, 1.0, (n, 10))
        return real, real + rng.normal(0.0, noise, real.shape)

    bounds, changed = [], []
    for _ in range(400):
        bounds.append(change_bound(margins(*drawn()), np.ones(n)))
        real, coded = drawn()
        changed.append(np.mean(real.argmax(1) != coded.argmax(1)))
    assert np.mean(np.array(changed) <= np.array(bounds)) >= 0.93
    assert np.median(bounds) < 2.0 * np.mean(changed) + 4.0 / n, "and it is of use"


def test_wins_make_up_for_losses() -> None:
    rng = np.random.default_rng(8)
    real = rng.normal(0.0, 1.0, (300, 10))
    found = margins(real, real + rng.normal(0.0, 0.1, real.shape))
    lose, both = np.ones(300), np.where(np.arange(300) % 2 == 0, 1.0, -1.0)
    assert 0.0 < change_bound(found, both) < change_bound(found, lose)
    assert change_bound(found, -lose) <= 0.0


def test_the_sqnr_of_as_many_other_samples_keeps_to_the_bound_as_often_as_it_says() -> None:
    rng = np.random.default_rng(6)

    def drawn() -> tuple[np.ndarray, np.ndarray]:
        return rng.gamma(5.0, 1.0, 60), 0.01 * rng.gamma(2.0, 1.0, 60)

    held = 0
    for _ in range(600):
        value, bound = ratio_bound_db(*drawn())
        assert bound <= value
        held += ratio_bound_db(*drawn())[0] >= bound
    assert 0.92 <= held / 600 < 0.99


def test_sqnr_by_hand_and_at_its_ends() -> None:
    value, bound = ratio_bound_db(np.array([100.0, 300.0]), np.array([1.0, 3.0]))
    assert value == pytest.approx(20.0) and bound == pytest.approx(20.0)
    assert ratio_bound_db(np.ones(3), np.zeros(3)) == (120.0, 120.0)
    assert ratio_bound_db(np.ones(3), np.array([0.0, np.inf, 1.0])) == (-120.0, -120.0)
    assert ratio_bound_db(np.zeros(3), np.ones(3)) == (-120.0, -120.0)
    assert ratio_bound_db(np.zeros(3), np.zeros(3)) == (120.0, 120.0)


def test_what_counting_alone_proves() -> None:
    assert counted_limit(200) == pytest.approx(0.05 ** (1 / 200))
    assert samples_to_count(0.995) == 598
    assert counted_limit(598) >= 0.995 > counted_limit(597)
    assert samples_to_count(0.0) == 1
