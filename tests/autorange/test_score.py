"""Scores: geometric mean and sums over runs, quiet runs, dead readers, outputs that are not finite."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.autorange import score as module
from calib8.autorange.score import SMALLEST_ERROR, Scores, contenders, reading_scores, score_candidates
from calib8.qparams import UINT8, QParams
from small_models import graph, normal

SIGNALS = np.array([1.0, 1.0, 100.0])


def test_one_odd_run_decides_the_sum_but_not_the_geometric_mean() -> None:
    clipping, wide = [1e-4, 1e-4, 10.0], [1e-2, 1e-2, 1.0]
    typical, total = reading_scores(np.array([clipping, wide]).T, SIGNALS)
    assert typical == pytest.approx([np.mean(np.log([1e-4, 1e-4, 0.1])), np.log(1e-2)])
    assert total == pytest.approx(np.log([10.0002 / 102, 1.02 / 102]))
    assert typical[0] < typical[1] and total[0] > total[1]


def test_no_error_counts_as_90_db() -> None:
    typical, total = reading_scores(np.array([[0.0, 1e-3]] * 3), SIGNALS)
    assert typical[0] == total[0] == np.log(SMALLEST_ERROR)
    assert np.argmin(typical) == np.argmin(total) == 0


def test_a_silent_run_does_not_blow_up() -> None:
    typical, _ = reading_scores(np.array([[1e-3], [1e-3]]), np.array([1.0, 0.0]))
    assert np.isfinite(typical).all()


def test_a_reader_that_is_always_zero_says_nothing() -> None:
    typical, total = reading_scores(np.array([[0.0, 1.0]]), np.zeros(1))
    assert typical.tolist() == total.tolist() == [0.0, 0.0]


def test_what_is_not_finite_loses() -> None:
    typical, total = reading_scores(np.array([[np.inf, 1.0], [1.0, 1.0]]), np.ones(2))
    assert np.isinf(typical[0]) and np.isinf(total[0]) and np.isfinite(typical[1])


def test_readers_add_up() -> None:
    constants = {"w": normal(3, 4, 1, 1), "u": normal(5, 4, 1, 1, seed=1)}
    runs = [{"x": normal(1, 4, 5, 5, seed=seed)} for seed in range(3)]
    candidates = {"x": [QParams(0.02, 128), QParams(0.2, 128)]}

    def scores(outputs: str, body: str) -> np.ndarray:
        used = {name: array for name, array in constants.items() if f", {name})" in body}
        model = graph("float[1,4,5,5] x", outputs, body, used)
        return score_candidates(model, candidates, UINT8, runs, 1)["x"].typical

    first = scores("float[1,3,5,5] y", "y = Conv(x, w)")
    second = scores("float[1,5,5,5] z", "z = Conv(x, u)")
    both = scores("float[1,3,5,5] y, float[1,5,5,5] z", "y = Conv(x, w) z = Conv(x, u)")
    assert both == pytest.approx(first + second, rel=1e-5)


def test_single_candidates_need_no_score() -> None:
    model = graph("float[1,4] x", "float[1,4] y", "y = Relu(x)")
    assert score_candidates(model, {"x": [QParams(0.1, 0)]}, UINT8, [{"x": normal(1, 4)}], 1) == {}


def test_the_first_and_what_is_near_the_best_by_either_score_go_on() -> None:
    decibel = np.log(10.0) / 10.0
    typical, total = np.array([9.0, 0.0, 1.8, 2.2, 5.0, np.inf]), np.array([9.0, 3.0, 5.0, 5.0, 0.0, 0.1])
    assert contenders(Scores(typical * decibel, total * decibel, 2)) == [0, 1, 2, 4, 5]
    assert contenders(Scores(typical * decibel, total * decibel, 1)) == [0, 1, 4, 5]


def test_what_falls_behind_is_scored_on_no_more_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = graph("float[1,4,5,5] x", "float[1,3,5,5] y", "y = Conv(x, w)", {"w": normal(3, 4, 1, 1)})
    runs = [{"x": normal(1, 4, 5, 5, seed=seed)} for seed in range(20)]
    candidates = {"x": [QParams(scale, 128) for scale in (0.2, 0.03, 0.031, 0.5, 0.001)]}
    seen: list[int] = []
    found = score_candidates(model, candidates, UINT8, runs, 1, seen.append)["x"]
    monkeypatch.setattr(module, "FIRST", len(runs))
    whole = score_candidates(model, candidates, UINT8, runs, 1)["x"]
    assert sum(seen) == len(runs)
    assert np.isinf(found.typical).tolist() == np.isinf(found.total).tolist() == [False] * 3 + [True] * 2
    assert found.typical[:3] == pytest.approx(whole.typical[:3], rel=1e-6)
    assert found.total[:3] == pytest.approx(whole.total[:3], rel=1e-6)
    assert np.isfinite(whole.typical).all()
