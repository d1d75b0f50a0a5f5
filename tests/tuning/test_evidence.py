"""Bounds: exact on examples by hand, and holding as often as they say on samples drawn from known laws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calib8.tuning.evidence import (
    Z,
    _near,
    _pairs,
    change_bound,
    counted_limit,
    losses,
    margins,
    ratio_bound_db,
    runner_up,
    samples_to_count,
)


def test_margins_of_rows_of_scores() -> None:
    real = np.array([[3.0, 1.0, 2.5], [0.0, 4.0, 1.0]], np.float32)
    coded = np.array([[2.8, 1.2, 2.9], [0.0, 4.0, 1.0]], np.float32)
    assert margins(real) == pytest.approx([0.5, 3.0])
    assert losses(real, coded) == pytest.approx([0.6, 0.0], abs=1e-6)
    best, second = runner_up(real)
    assert best.tolist() == [0, 1] and second.tolist() == [2, 2]


def test_margins_of_scores_that_are_all_below_zero() -> None:
    """Logarithms of probabilities: the second best class is one of them."""
    real = np.array([[-1.0, -3.0, -4.0], [-9.0, -7.5, -7.0]])
    assert margins(real) == pytest.approx([2.0, 0.5])
    assert losses(real, real - 5.0) == pytest.approx([0.0, 0.0])


def test_where_the_smallest_margins_are_zero_any_loss_may_change_all() -> None:
    """Nothing tells how dense margins lie beside them."""
    margin = np.concatenate([np.zeros(40), np.full(160, 50.0)])  # k = 34
    assert change_bound(margin, np.ones(200), np.full(20, 0.01)) == 1.0
    assert change_bound(margin, np.zeros(200), np.full(20, 0.01)) == 0.0


@pytest.mark.parametrize("share", [0.0, 0.04, 0.05, 0.06, 0.3, 0.5, 0.9, 0.95, 0.951, 0.99])
def test_so_many_samples_prove_a_share_by_counting(share: float) -> None:
    """The fewest of which none differs with a chance of at most one in twenty."""
    count = samples_to_count(share)
    assert share**count <= 0.05 + 1e-12
    assert count == 1 or share ** (count - 1) > 0.05


def test_no_difference_is_no_change() -> None:
    scores = np.random.default_rng(0).normal(size=(50, 10))
    scores[0, :2] = 9.0  # a margin of 0
    assert change_bound(margins(scores), np.ones(50), losses(scores, scores)) == 0.0


def test_scores_that_are_not_finite_change_everything() -> None:
    scores = np.random.default_rng(0).normal(size=(50, 10))
    broken = scores.copy()
    broken[3, 4] = np.nan
    assert change_bound(margins(scores), np.ones(50), losses(scores, broken)) == 1.0


def test_the_rate_by_plain_loops() -> None:
    rng = np.random.default_rng(1)
    margin, loss = rng.gamma(2.0, 1.0, 40), rng.normal(0.0, 3.0, 23)
    gain = rng.choice([-1.0, 0.0, 1.0], 40)
    pairs = [g * (step > distance) for distance, g in zip(margin, gain, strict=True) for step in loss]
    k = 11  # 40 ** (2 / 3)
    order = np.argsort(margin)[:k]
    taken = np.maximum(loss, 0.0)
    share = (k - 1) / (40 * margin[order[-1]]) * taken.mean()
    centre = gain[order].mean()
    ratio = math.sqrt(1 / (k - 1) + np.var(taken, ddof=1) / (23 * taken.mean() ** 2))
    relative = (math.exp(Z * ratio) - 1) / Z
    error = share * math.sqrt(centre**2 * relative**2 + np.var(gain[order], ddof=1) / k)
    assert _pairs(margin, gain, loss) == pytest.approx(np.mean(pairs), rel=1e-12)
    assert _near(margin, gain, loss) == pytest.approx((share * centre, error), rel=1e-12)
    assert change_bound(margin, gain, loss) == pytest.approx(max(np.mean(pairs), share * centre + Z * error))


def drawn(rng: np.random.Generator, n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores [n, 10] in float and in int8."""
    real = rng.normal(0.0, 1.0, (n, 10))
    return real, real + rng.normal(0.0, noise, real.shape)


@pytest.mark.parametrize("n", [40, 200])
@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_the_share_of_all_samples_keeps_to_the_bound_as_often_as_it_says(n: int, noise: float) -> None:
    rng = np.random.default_rng(5)
    real, coded = drawn(rng, 200_000, noise)
    changed = float(np.mean(real.argmax(1) != coded.argmax(1)))
    bounds = []
    for _ in range(400):
        real, coded = drawn(rng, n, noise)
        bounds.append(change_bound(margins(real), np.ones(n), losses(real, coded)))
    assert np.mean(np.array(bounds) >= changed) >= 0.93
    assert np.median(bounds) < 2.5 * changed, "and it is of use"


def test_margins_of_more_samples_make_the_bound_tighter() -> None:
    rng = np.random.default_rng(11)
    few, more = [], []
    for _ in range(200):
        real, coded = drawn(rng, 50, 0.05)
        others, loss = drawn(rng, 150, 0.05)[0], losses(real, coded)
        few.append(change_bound(margins(real), np.ones(50), loss))
        more.append(change_bound(margins(np.concatenate([real, others])), np.ones(200), loss))
    assert np.mean(more) < 0.9 * np.mean(few) and np.std(more) < np.std(few)


def test_margins_that_crowd_towards_zero_are_seen() -> None:
    """One in twenty samples is nearly undecided: the smallest margins do not tell, the pairs do."""
    rng = np.random.default_rng(12)
    margin = np.where(rng.random(2000) < 0.05, 0.0, 5.0) + rng.random(2000) * 0.01
    loss = rng.normal(0.0, 0.5, 2000)
    mean, error = _near(margin, np.ones(2000), loss)
    assert mean + Z * error < 0.024 < change_bound(margin, np.ones(2000), loss)


def test_wins_make_up_for_losses() -> None:
    rng = np.random.default_rng(8)
    real, coded = drawn(rng, 300, 0.1)
    margin, loss = margins(real), losses(real, coded)
    lose, both = np.ones(300), np.where(np.arange(300) % 2 == 0, 1.0, -1.0)
    assert 0.0 < change_bound(margin, both, loss) < change_bound(margin, lose, loss)
    assert change_bound(margin, -lose, loss) <= 0.0


def test_the_sqnr_of_all_samples_keeps_to_the_bound_as_often_as_it_says() -> None:
    rng = np.random.default_rng(6)
    whole, held = -10.0 * math.log10(0.02 / 5.0), 0
    for _ in range(600):
        value, bound = ratio_bound_db(rng.gamma(5.0, 1.0, 60), 0.01 * rng.gamma(2.0, 1.0, 60))
        assert bound <= value
        held += whole >= bound
    assert 0.90 <= held / 600 < 0.98


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
