"""Objects beside those of the truth: who takes whom, against loops that follow the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calib8.tasks.judges.average_precision import Sided
from calib8.tasks.judges.objects import Truths, compared, precisions


def slowly(scores: Any, kinds: Any, truths: Truths, likeness: Any, least_score: float, least: float) -> Any:
    """Truth by truth: the best object takes its nearest free truth, then the next object."""
    counted = [g for g in range(len(truths.crowd)) if not truths.crowd[g] and not truths.void[g]]
    each = dict.fromkeys(counted, 0.0)
    free = set(counted)
    for d in range(len(scores)):
        if scores[d] <= least_score:
            continue
        near = [(likeness[d][g], -g) for g in free if truths.objects.classes[g] == kinds[d]]
        if near and max(near)[0] > 0.0 and max(near)[0] >= least:
            taken = -max(near)[1]
            each[taken] = likeness[d][taken]
            free.remove(taken)
    return list(each.values()), int(sum(scores > least_score))


@pytest.mark.parametrize("least", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(20))
def test_who_takes_whom_as_in_loops(seed: int, least: float) -> None:
    rng = np.random.default_rng(seed)
    many, wanted = int(rng.integers(0, 9)), int(rng.integers(0, 7))
    scores = np.sort(rng.random(many))[::-1]
    kinds, areas = rng.integers(0, 2, many), rng.uniform(1, 100, many)
    likeness = np.round(rng.random((many, wanted)), 1)
    truths = Truths(
        Sided(rng.integers(0, 2, wanted), rng.uniform(1, 100, wanted)), rng.random(wanted) < 0.2,
        rng.random(wanted) < 0.2, labelled=True,
    )  # fmt: skip
    record = compared(scores, Sided(kinds, areas), truths, likeness, least_score=0.25, least=least, most=100)
    each, claimed = slowly(scores, kinds, truths, likeness, 0.25, least)
    assert (list(record.each), record.claimed) == (each, claimed)
    assert record.truths == len(each) and record.found == sum(value > 0 for value in each)


@pytest.mark.parametrize("labelled", [False, True])
def test_no_fewer_count_than_fp32_has(labelled: bool) -> None:
    """What finds all of FP32's objects has a mAP of 1, however many there are. Labels keep COCO's limit."""
    many = 12
    kinds, areas = np.zeros(many, np.int64), np.full(many, 50.0)
    none = np.zeros(many, np.bool_)
    truths = Truths(Sided(kinds, areas), none, none, labelled)
    scores, likeness = np.linspace(0.9, 0.5, many), np.eye(many)
    record = compared(scores, Sided(kinds, areas), truths, likeness, least_score=0.25, least=0.5, most=10)
    assert precisions([record])["map50"] == pytest.approx(1.0 if not labelled else 84 / 101)
