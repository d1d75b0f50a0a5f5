"""The floor under the scores of a detector: what a step may cost them, and what stays in the end."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from small_candidates import candidate_of

from calib8.autorange.check import Check
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.floor import NO_FLOOR, Floor
from calib8.repair.held_back import Judge
from calib8.repair.search import Judged, Search
from calib8.repair.step import Step
from calib8.tasks.figures import BranchFigures
from small_models import normal, onnx_model


@pytest.fixture(scope="module")
def plain() -> Candidate:
    model = onnx_model("float[N,4] x", "float[N,3] y", "y = MatMul(x, w)", {"w": normal(4, 3)})
    return candidate_of(model, [{"x": normal(1, 4, seed=seed)} for seed in range(8)])[0]


def scores(figure: float) -> Check:
    branches = (BranchFigures("scores", figure, figure), BranchFigures("boxes", 40.0, 40.0))
    return Check("", figure, figure, figure, 8, figure, branches)


FLOOR = Floor({"scores": 20.0})


@pytest.mark.parametrize(
    ("before", "now", "allowed"),
    [
        (25.0, 20.0, True),
        (25.0, 19.9, False),
        (20.0, 19.9, False),
        (18.0, 18.0, True),
        (18.0, 19.0, True),
        (18.0, 17.9, False),
        (18.0, 25.0, True),
    ],
)
def test_a_step_takes_scores_to_the_floor_at_most(before: float, now: float, allowed: bool) -> None:
    """What is below it already must at least not fall."""
    assert FLOOR.allows(scores(now), scores(before)) == allowed
    assert NO_FLOOR.allows(scores(now), scores(before))


@pytest.mark.parametrize(("figure", "holds"), [(20.0, True), (19.9, False), (21.0, True)])
def test_in_the_end_scores_are_on_the_floor_or_above(figure: float, holds: bool) -> None:
    assert FLOOR.holds(scores(figure)) == holds
    assert NO_FLOOR.holds(scores(figure))


def test_scores_that_are_not_finite_are_below_every_floor() -> None:
    lost = Check("", 0.0, 0.0, 0.0, 8, 0.0)
    assert not FLOOR.holds(lost) and not FLOOR.allows(lost, scores(18.0))


def judged(candidate: Candidate, before: Check, corrected: Candidate, behind: Check) -> Search:
    """A search whose judge knows two models."""
    known = {id(candidate): before, id(corrected): behind}
    judge = SimpleNamespace(quality=lambda one: known[id(one)], meaning=None)
    return Search(cast(Judge, judge), cast(RepairData, None))


def noisy(total: float, figure: float) -> Check:
    return Check("", total, total, total, 8, total, (BranchFigures("scores", figure, figure),))


@pytest.mark.parametrize(("floor", "corrected"), [(FLOOR, True), (NO_FLOOR, False)])
def test_biases_are_corrected_where_scores_would_be_below_the_floor_else(
    plain: Candidate, floor: Floor, corrected: bool
) -> None:
    """Though all branches together gain nothing by it."""
    other = replace(plain)
    before, behind = noisy(30.05, 18.0), noisy(30.0, 22.0)
    search = judged(plain, before, other, behind)
    search.floor = floor
    found = search.finish(Judged(plain, other, RepairReport(("layer",)), behind), before, ("bias",))
    assert (found.candidate is other) == corrected
    assert [step.kept for step in search.steps] == [corrected]


def test_of_all_that_was_found_the_plain_model_keeps_its_ranges_alone(plain: Candidate) -> None:
    other = replace(plain)
    search = judged(plain, noisy(30.0, 22.0), other, noisy(31.0, 23.0))
    ranges, wide, coded = (
        Step((name,), noisy(29.0, 21.0), noisy(30.0, 22.0), True, (), ())
        for name in ("good", "wide", "round")
    )
    search.steps = [ranges, wide, coded]
    wider = replace(plain.table, entries={})
    found = search.back_to(
        Judged(plain, other, RepairReport(("layer",)), noisy(31.0, 23.0)),
        {"good": plain.table, "wide": wider},
    )
    assert found.candidate is other
    assert [(step.name, step.kept) for step in search.steps] == [
        ("good", True), ("wide", False), ("round", False), ("bias", True),
    ]  # fmt: skip
