"""The floor under the scores of a detector: what a step may cost them, and what stays in the end."""

from __future__ import annotations

import pytest

from calib8.autorange.check import Check
from calib8.repair.floor import NO_FLOOR, Floor
from calib8.tasks.figures import BranchFigures


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
