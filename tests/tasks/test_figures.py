"""Figures of branches against loops over their definitions, and what the soft minimum promises."""

from __future__ import annotations

import numpy as np
import pytest
from heads import ssd, yolo8

from calib8.autorange.check import Check, Expected, judged
from calib8.tasks.figures import branch_figures, soft_minimum
from calib8.tasks.meaning import meaning_of
from small_models import Array


def decibels(signal: float, noise: float) -> float:
    return float(10.0 * np.log10(signal / noise))


def test_the_soft_minimum_is_the_worst_where_it_is_far_behind_and_never_more() -> None:
    assert soft_minimum([12.0]) == 12.0 and soft_minimum([]) == 0.0
    assert soft_minimum([10.0, 32.0]) == pytest.approx(10.0, abs=1e-3)
    assert soft_minimum([10.0, 10.0]) == pytest.approx(10.0 - 5.0 * np.log10(2.0))
    assert soft_minimum([32.0, 10.0]) == soft_minimum([10.0, 32.0])
    assert soft_minimum([-np.inf, 10.0]) == -np.inf
    rng = np.random.default_rng(0)
    for figures in rng.uniform(0.0, 60.0, (50, 4)):
        found = soft_minimum(list(figures))
        assert found <= figures.min()
        for place in range(4):  # a gain of any branch is a gain, that of the worst one the most
            more = figures.copy()
            more[place] += 1.0
            assert soft_minimum(list(more)) > found
    lost, won = soft_minimum([9.5, 37.0]), soft_minimum([10.0, 32.0])
    assert lost < won  # five decibels of the boxes are not worth half a one of the scores


def runs_of(noises: tuple[float, float], runs: int = 6) -> tuple[list[list[Array]], list[list[Array]]]:
    """Outputs of a YOLOv8 head: boxes that lie at their anchors, scores; and the same with noise."""
    rng = np.random.default_rng(3)
    anchors = rng.uniform(0.0, 300.0, (1, 4, 20))
    expected, found = [], []
    for _ in range(runs):
        boxes = anchors + rng.normal(0.0, 10.0, anchors.shape)
        scores = rng.beta(0.2, 2.0, (1, 9, 20))
        expected.append([np.concatenate([boxes, scores], axis=1).astype(np.float32)])
        boxes = boxes + rng.normal(0.0, noises[0], boxes.shape)
        scores = scores + rng.normal(0.0, noises[1], scores.shape)
        found.append([np.concatenate([boxes, scores], axis=1).astype(np.float32)])
    return expected, found


def checked(expected: list[list[Array]], found: list[list[Array]]) -> Check:
    meaning = meaning_of(yolo8())
    reference = Expected.of(expected, meaning)
    energies = np.array([reference.energies(index, outputs) for index, outputs in enumerate(found)])
    return judged("x", energies, meaning, reference.signals)


def test_figures_of_branches_are_those_of_loops() -> None:
    expected, found = runs_of((3.0, 0.05))
    check = checked(expected, found)
    for name, part in (("boxes", slice(0, 4)), ("scores", slice(4, 13))):
        signals, noises = [], []
        for left, right in zip(expected, found, strict=True):
            r, y = (array[0][:, part].astype(np.float64) for array in (left, right))
            signals.append(sum(float(value) ** 2 for value in r.flat))
            noises.append(sum(float(a - b) ** 2 for a, b in zip(r.flat, y.flat, strict=True)))
        branch = check.branch(name)
        assert branch.sqnr_db == pytest.approx(decibels(sum(signals), sum(noises)))
        single = [decibels(*one) for one in zip(signals, noises, strict=True)]
        assert branch.typical_db == pytest.approx(np.mean(single))
    whole = [np.sum((a[0] - b[0]).astype(np.float64) ** 2) for a, b in zip(expected, found, strict=True)]
    power = sum(float(np.sum(a[0].astype(np.float64) ** 2)) for a in expected)
    assert check.evaluated_db == pytest.approx(decibels(power, sum(map(float, whole))), rel=1e-5)


def test_boxes_do_not_hide_what_happens_to_scores() -> None:
    better_boxes, better_scores = checked(*runs_of((1.0, 0.08))), checked(*runs_of((3.0, 0.02)))
    assert better_boxes.evaluated_db > better_scores.evaluated_db + 5.0
    assert better_boxes.sqnr_db < better_scores.sqnr_db


def test_what_never_changes_is_no_signal() -> None:
    expected, found = runs_of((0.0, 0.05))
    for run, other in zip(expected, found, strict=True):
        run[0][:, :4], other[0][:, :4] = 100.0, 101.0
    check = checked(expected, found)
    assert check.branch("boxes").sqnr_db == pytest.approx(40.0, abs=0.1)
    signal, noise = 0.0, 0.0
    for run, other in zip(expected, found, strict=True):
        scores = run[0][:, 4:].astype(np.float64)
        signal += float(np.sum((scores - np.mean([one[0][:, 4:] for one in expected], axis=0)) ** 2))
        noise += float(np.sum((scores - other[0][:, 4:]) ** 2))
    assert check.total_db == pytest.approx(decibels(signal * 6 / 5, noise), rel=1e-5)


def test_runs_of_different_shapes_count_with_all_their_signal() -> None:
    expected, found = runs_of((3.0, 0.05))
    assert Expected.of(expected, meaning_of(yolo8())).signals is not None
    expected[0] = [expected[0][0][:, :, :10]]
    assert Expected.of(expected, meaning_of(yolo8())).signals is None
    assert Expected.of(found[:3], meaning_of(yolo8())).signals is None


def test_one_branch_is_judged_as_if_there_were_none() -> None:
    rng = np.random.default_rng(1)
    energies = np.exp(rng.normal(0.0, 4.0, (30, 1, 2)))
    single = meaning_of(ssd(1, "Sigmoid"), branches={"boxes": "unused"})
    assert len(single.judged) == 1
    plain, alone = judged("x", energies), judged("x", energies, None, None)
    assert plain == alone and plain.branches == ()
    both = np.concatenate([np.ones((30, 1, 2)), energies], axis=1)
    found = judged("x", both, single)
    assert (found.sqnr_db, found.typical_db, found.total_db) == (
        plain.sqnr_db, plain.typical_db, plain.total_db,
    )  # fmt: skip


def test_runs_without_anything_to_find_do_not_decide_the_typical_figure() -> None:
    energies = np.array([[[100.0, 1.0]], [[100.0, 1.0]], [[0.1, 0.1]]])
    [figures] = branch_figures(["scores"], energies)
    assert figures.typical_db == pytest.approx(20.0)
    assert figures.sqnr_db == pytest.approx(decibels(200.1, 2.1))
    assert branch_figures(["quiet"], np.zeros((3, 1, 2))) == ()
    assert branch_figures(["broken"], np.full((3, 1, 2), np.nan))[0].sqnr_db == -np.inf
