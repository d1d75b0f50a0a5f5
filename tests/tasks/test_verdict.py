"""What is kept of a branch, counted in loops; and the verdict, which every kind of damage moves."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from calib8.tasks.branches import Branch, Meaning, Piece
from calib8.tasks.kept import FOUND, kept
from calib8.tasks.kinds import KINDS, Kind
from calib8.tasks.limits import FIGURE_LIMITS, excess
from calib8.tasks.task_verdicts import TaskVerdict
from calib8.tasks.verdict import LIMITS, SIGNALS, BranchVerdict, Verdict, state_of, unjudged, verdict_of
from small_models import Array

RNG = np.random.default_rng(7)


def branch(kind: Kind, index: int = 0) -> Branch:
    return Branch(kind, kind, (Piece("y", index),), "named", "")


def share(kind: Kind, expected: list[Array], found: list[Array]) -> float | None:
    return kept(branch(kind), [[one] for one in expected], [[one] for one in found]).value


def test_scores_are_counted_above_the_threshold_on_both_sides() -> None:
    expected = [RNG.beta(0.3, 1.0, (1, 3, 50)) for _ in range(4)]
    found = [np.clip(one + RNG.normal(0.0, 0.1, one.shape), 0.0, 1.0) for one in expected]
    stay = new = above = others = same = places = 0
    for left, right in zip(expected, found, strict=True):
        for k in range(50):
            a, b = [left[0, c, k] for c in range(3)], [right[0, c, k] for c in range(3)]
            for x, y in zip(a, b, strict=True):
                above, others = above + (x > FOUND), others + (y > FOUND)
                stay, new = stay + (x > FOUND and y > FOUND), new + (x <= FOUND < y)
            if max(a) > FOUND:
                places, same = places + 1, same + (a.index(max(a)) == b.index(max(b)))
    told = kept(branch("scores"), [[one] for one in expected], [[one] for one in found])
    assert told.value == pytest.approx(min(stay / above, 1.0 - new / others, same / places))
    assert told.text == (
        f"{100 * stay / above:.1f} % of the scores above 0.25 stay there, {100 * new / others:.1f} % of them "
        f"are new, {100 * same / places:.1f} % keep the class"
    )


def test_all_scores_at_once_is_no_gain() -> None:
    expected = [np.full((1, 100, 1), 0.1)]
    expected[0][0, :5] = 0.9
    assert share("scores", expected, [np.full((1, 100, 1), 0.9)]) == pytest.approx(0.05)
    assert share("scores", expected, [np.full((1, 100, 1), 0.1)]) == 0.0
    nothing = kept(branch("scores"), [[np.zeros((1, 9, 1))]], [[np.zeros((1, 9, 1))]])
    assert nothing.value is None and "finds nothing above 0.25" in nothing.text


def test_logits_of_scores_go_through_sigmoid() -> None:
    logits = [RNG.normal(0.0, 3.0, (1, 40, 2))]
    noisy = [logits[0] + RNG.normal(0.0, 1.0, logits[0].shape)]
    told = [[1.0 / (1.0 + np.exp(-one)) for one in values] for values in (logits, noisy)]
    assert share("scores", logits, noisy) == pytest.approx(share("scores", *told))


def test_classes_vectors_and_maps() -> None:
    logits = [np.array([[0.0, 3.0, 1.0]]), np.array([[5.0, 3.0, 1.0]])]
    changed = [np.array([[4.0, 3.0, 1.0]]), np.array([[9.0, 3.0, 1.0]])]
    assert share("logits", logits, changed) == 0.5
    assert share("probabilities", [np.array([[0.6]])], [np.array([[0.4]])]) == 0.0
    vectors = [np.array([[3.0, 4.0]]), np.array([[1.0, 0.0]])]
    assert share("embedding", vectors, [np.array([[30.0, 40.0]]), np.array([[1.0, 1.0]])]) == (
        pytest.approx((1.0 + np.sqrt(0.5)) / 2.0)
    )
    left, right = np.zeros((1, 1, 4, 4)), np.zeros((1, 1, 4, 4))
    left[..., :2, :], right[..., 1:3, :] = 0.9, 0.8
    assert share("map", [left], [right]) == pytest.approx((4 / 12 + 4 / 12) / 2)
    assert share("map", [left], [left]) == 1.0


def test_lines_are_compared_without_repeats_and_blanks() -> None:
    def line(text: str) -> Array:
        return np.eye(4)[[" abc".index(letter) for letter in text]][None]

    expected = [line("  aab b c "), line(" a  b     ")]
    assert share("ctc", expected, [line(" aa bbb c "), line("a b       ")]) == 0.5
    assert share("ctc", expected, [line(" a  b  bcc"), line("aaa bbb   ")]) == 1.0
    turned = [np.swapaxes(one, 0, 1) for one in expected]
    assert share("ctc", turned, [np.swapaxes(line(" a  b  bcc"), 0, 1), turned[1]]) == 1.0


def test_decisions_are_sides_of_the_threshold() -> None:
    chance = [np.array([[0.4], [0.6]]), np.array([[0.9], [0.1]])]
    assert share("decisions", chance, [np.array([[0.5], [0.51]]), np.array([[0.2], [0.3]])]) == 0.75
    sums = [np.array([[-0.4, 0.6]]), np.array([[0.9, -3.0]])]
    assert share("decisions", sums, [np.array([[0.1, 0.1]]), np.array([[0.1, -0.1]])]) == 0.75


def test_the_rest_is_told_in_decibels() -> None:
    expected = [RNG.normal(size=(1, 4, 30)) for _ in range(3)]
    found = [one * 1.01 for one in expected]
    counted = {"scores", "objectness", "logits", "probabilities", "embedding", "map", "ctc", "decisions"}
    for kind in set(KINDS) - counted:
        assert share(kind, expected, found) == pytest.approx(40.0)
    assert share("other", expected, [one * np.nan for one in expected]) == 0.0
    assert share("other", expected, [one[:, :2] for one in expected]) is None


def test_the_worst_branch_gives_the_verdict() -> None:
    meaning = Meaning((branch("boxes", 0), branch("scores", 1)), "detect")
    boxes, scores = RNG.uniform(0.0, 300.0, (1, 4, 90)), RNG.beta(0.3, 1.0, (1, 3, 90))
    expected = [[np.roll(boxes, place, 2), np.roll(scores, place, 2)] for place in range(3)]
    states = []
    for noise, gain in ((0.0, 1.0), (0.0, 0.9), (0.0, 0.3), (200.0, 1.0)):
        found = [[one + RNG.normal(0.0, noise or 1e-9, one.shape), other * gain] for one, other in expected]
        verdict = verdict_of(meaning, expected, found)
        states.append(verdict.state)
        assert verdict.branches[0].state == verdict.state and verdict.samples == 3
    assert states == ["kept", "damaged", "ruined", "ruined"]
    assert verdict.text.startswith("ruined: boxes: ") and "scores kept: 100.0 % of" in verdict.text
    assert verdict.text.endswith("on 3 samples held back")
    shared = verdict_of(meaning, expected, expected, shared=True)
    assert shared.text.endswith("on the 3 samples it was made from: no proof")


def test_the_excess_says_how_far_from_kept() -> None:
    """Of shares, of shares where one object decides much, of decibels; the worst of what gives the word."""
    assert excess((0.97, 0.8), 0.94) == pytest.approx(2.0)
    assert excess((0.97, 0.8), 0.92, 1 / 25) == pytest.approx(2.0)
    assert excess((20.0, 10.0), 14.0) == pytest.approx(10 ** (6 / 20))
    assert excess((20.0, 10.0), -math.inf) == 1e100
    assert excess((0.97, 0.8), 0.97) == pytest.approx(1.0) and excess((0.97, 0.8), None) == 0.0
    for limits in (*LIMITS.values(), *FIGURE_LIMITS.values()):
        assert excess(limits, limits[0]) == pytest.approx(1.0) and excess(limits, limits[1]) > 1.5
    worst = BranchVerdict("y", "other", "damaged", 1.0, "", 2.5)
    other = BranchVerdict("z", "other", "damaged", 1.0, "", 2.0)
    assert Verdict("damaged", (other, worst), 9).excess == 2.5 and Verdict("unknown", (), 0).excess == 0.0
    read = TaskVerdict("objects", "detect", ("y",), "damaged", {}, 99, "", "recall", 1.5)
    assert Verdict("damaged", (worst, other), 9, tasks=(read,)).excess == 2.0, "a judge has read 'y'"


def test_without_samples_the_verdict_says_so() -> None:
    meaning = Meaning((branch("logits"),), "classify")
    assert verdict_of(meaning, [], []).text == "not judged: no sample was held back"
    assert unjudged("no data").state == "unknown"
    quiet = verdict_of(Meaning((branch("scores"),)), [[np.zeros((1, 9, 1))]], [[np.zeros((1, 9, 1))]])
    assert quiet.state == "unknown" and "finds nothing" in quiet.text


def test_limits_are_in_order_and_every_figure_has_a_word() -> None:
    for enough, least in (*LIMITS.values(), SIGNALS):
        assert enough > least
    for kind, value in itertools.product(KINDS, (-10.0, 0.5, 0.97, 18.0, 40.0)):
        assert state_of(kind, value) in ("kept", "damaged", "ruined")
    assert [state_of("embedding", value) for value in (0.999, 0.98, 0.9)] == ["kept", "damaged", "ruined"]


@pytest.mark.parametrize("shape", [(), (0, 5), (0, 4, 5), (0, 2, 3, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_without_rows_tell_nothing_and_raise_nothing(kind: Kind, shape: tuple[int, ...]) -> None:
    """Whatever the user says that they are; a single number still has a size."""
    nothing = np.zeros(shape, np.float32)
    assert kept(branch(kind), [[nothing]], [[nothing]]).value is None


@pytest.mark.parametrize("kind", ["ctc", "logits", "embedding"])
def test_outputs_of_one_axis_are_one_sample_or_as_many_as_numbers(kind: Kind) -> None:
    row = np.array([0.1, 0.9, 0.3], np.float32)
    assert kept(branch(kind), [[row]], [[row]]).value == pytest.approx(1.0)
