"""Where tensors get wider codes there is a second search, from ranges that clip nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import onnx_ir as ir
import pytest
from small_candidates import candidate_of, scaled

import calib8
from calib8.autorange.check import Check
from calib8.autorange.samples import ChosenSamples
from calib8.int8_model import other_tables
from calib8.progress import silent
from calib8.repair import by_effort, enough, floats
from calib8.repair.by_effort import UNCLIPPED, repair_by_effort, same_ranges
from calib8.repair.candidate import Candidate
from calib8.repair.held_back import Judge
from calib8.repair.search import NOT_WORTH_IT
from calib8.table import CalibrationTable
from calib8.tasks.meaning import meaning_of
from calib8.tasks.verdict import BranchVerdict, State, Verdict
from small_models import Array, normal
from small_nets import Net


def loud(seed: int, factor: float) -> dict[str, Array]:
    factors = np.array([factor, 1, 1, 1], np.float32).reshape(1, 4, 1, 1)
    return {"x": normal(1, 4, 8, 8, seed=seed) * factors}


def samples(factor: float) -> ChosenSamples:
    runs = tuple(loud(seed, factor) for seed in range(40))
    return ChosenSamples(runs[:20], runs[20:], shared=False)


def start(factor: float) -> tuple[Candidate, CalibrationTable]:
    """Four layers behind an input with a loud channel for nobody, and ranges that clip nothing."""
    net = Net()
    first = net.op("Relu", net.conv("x", 4, 8, name="first"))
    second = net.op("Relu", net.conv(first, 8, 8, name="second"))
    third = net.op("Relu", net.conv(second, 8, 32, name="third"))
    model = net.model(net.conv(third, 32, 4, name="last"))
    scaled(model, "first", 1, np.s_[:, 0], 0.0)
    runs = [*samples(factor).scored, *samples(factor).held_back]
    clipped, unclipped = (candidate_of(model, runs, method=name)[0] for name in ("mse", "minmax"))
    return clipped, unclipped.table


@pytest.fixture(autouse=True)
def whole_layers_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With four layers, each of them is more than the usual budget."""
    monkeypatch.setattr(floats, "BUDGET", 0.3)


def test_ranges_that_clip_nothing_are_taken_where_they_are_next_to_as_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    candidate, unclipped = start(100.0)
    monkeypatch.setattr(by_effort, "CLIPPING_DB", 30.0)
    found = repair_by_effort(candidate, samples(100.0), "balanced", tables={UNCLIPPED: unclipped}, threads=1)
    first, *others = found.steps
    assert first.name == UNCLIPPED and first.kept and "clip nothing" in first.notes[0]
    assert found.table == unclipped
    assert any(step.name == "floats" and step.kept for step in others)
    alone = repair_by_effort(replace(candidate, table=unclipped), samples(100.0), "balanced", threads=1)
    assert found.candidate.coded.qparams == alone.candidate.coded.qparams


@pytest.mark.slow
def test_ranges_that_clip_nothing_are_left_out_where_they_are_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    candidate, unclipped = start(100.0)
    monkeypatch.setattr(by_effort, "CLIPPING_DB", -30.0)
    found = repair_by_effort(candidate, samples(100.0), "balanced", tables={UNCLIPPED: unclipped}, threads=1)
    alone = repair_by_effort(candidate, samples(100.0), "balanced", threads=1)
    assert found.steps[-1].name == UNCLIPPED and not found.steps[-1].kept
    assert found.steps[:-1] == alone.steps and found.table == alone.table
    assert found.candidate.coded.qparams == alone.candidate.coded.qparams


def test_without_wider_codes_there_is_one_search() -> None:
    candidate, unclipped = start(1.0)
    found = repair_by_effort(candidate, samples(1.0), "balanced", tables={UNCLIPPED: unclipped}, threads=1)
    assert UNCLIPPED not in [step.name for step in found.steps]
    assert not found.candidate.floats


def test_the_same_ranges_are_searched_from_once() -> None:
    candidate, unclipped = start(100.0)
    same = replace(candidate, table=unclipped)
    found = repair_by_effort(same, samples(100.0), "balanced", tables={UNCLIPPED: unclipped}, threads=1)
    assert found.candidate.floats and UNCLIPPED not in [step.name for step in found.steps]


def verdict(word: str, excess: str = "3") -> Verdict:
    state: State = next(name for name in get_args(State) if name == word)
    return Verdict(state, (BranchVerdict("y", "other", state, 0.0, "", float(excess)),), 40)


def six_layers() -> Candidate:
    """Of the same work, side by side; a weight for a channel that is 0 takes the codes of all others."""
    net = Net()
    names = [f"layer{place}" for place in range(6)]
    found, *others = [net.conv("x", 4, 4, name=name) for name in names]
    for other in others:
        found = net.op("Add", found, other)
    model = net.model(found)
    for name in names:
        scaled(model, name, 1, np.s_[:, 0], 100.0)
    return candidate_of(model, [*samples(0.0).scored], method="mse")[0]


def layers_of(candidate: Candidate) -> list[str]:
    """Those in float, without the additions between them."""
    return [name for name in candidate.floats if name.startswith("layer")]


@pytest.mark.parametrize(
    ("verdicts", "tried", "kept"),
    [
        ("kept", 1, 1),
        pytest.param("unknown kept", 1, 1, marks=pytest.mark.slow),
        ("damaged damaged damaged damaged kept", 4, 1),
        ("damaged kept", 2, 2),
        pytest.param("damaged damaged kept", 3, 3, marks=pytest.mark.slow),
        ("ruined damaged damaged damaged", 4, 2),
        pytest.param("ruined damaged damaged kept", 4, 4, marks=pytest.mark.slow),
        ("damaged:5 damaged:4.1 damaged:3.9 damaged:3.8", 4, 3),
        pytest.param("damaged:5 damaged:4 damaged:3.3 damaged:3.25", 4, 2, marks=pytest.mark.slow),
        pytest.param("ruined:5 damaged:9 damaged:8 damaged:7.3", 4, 2, marks=pytest.mark.slow),
        pytest.param("damaged:5 ruined:2 ruined:1.5 ruined:1.2", 4, 1, marks=pytest.mark.slow),
    ],
)
def test_wider_codes_may_cost_more_for_a_better_verdict(
    monkeypatch: pytest.MonkeyPatch, verdicts: str, tried: int, kept: int
) -> None:
    """The verdict with one layer in float is the first one, and so on; its excess behind a colon."""
    monkeypatch.setattr(floats, "BUDGET", 0.17)  # one layer fits
    monkeypatch.setattr(enough, "ENOUGH_DB", 100.0)
    told = [verdict(*one.split(":")) for one in verdicts.split()]
    monkeypatch.setattr(Judge, "verdict", lambda judge, judged: told[len(layers_of(judged)) - 1])
    found = repair_by_effort(six_layers(), samples(0.0), "balanced", threads=1)
    steps = [step for step in found.steps if step.names == ("floats",)]
    assert len(steps) == tried and [step.kept for step in steps] == [True] * kept + [False] * (tried - kept)
    assert found.candidate.floats == {layer for step in steps if step.kept for layer in step.layers}
    assert len(layers_of(found.candidate)) == kept
    assert [NOT_WORTH_IT in step.notes for step in steps] == [not step.kept for step in steps]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("word", "taken"), [("kept", False), ("unknown", False), ("damaged", True)])
def test_what_has_enough_decibels_gets_wider_codes_where_the_verdict_is_bad(
    monkeypatch: pytest.MonkeyPatch, word: str, taken: bool
) -> None:
    """A detector may lose objects with scores of 30 dB."""
    candidate = six_layers()
    judge = Judge(samples(0.0), 64, 1, silent)
    monkeypatch.setattr(floats, "BUDGET", 0.17)
    monkeypatch.setattr(enough, "ENOUGH_DB", judge.quality(candidate).sqnr_db - 9.0)
    told = {0: verdict(word), 1: verdict("kept")}
    monkeypatch.setattr(Judge, "verdict", lambda judge, judged: told[len(judged.floats)])
    found = repair_by_effort(candidate, samples(0.0), "balanced", threads=1)
    assert bool(found.candidate.floats) == taken
    steps = [step.kept for step in found.steps if step.names == ("floats",)]
    assert steps == ([False, True] if taken else [False])


def test_the_word_is_that_of_the_verdict() -> None:
    for factor, word in ((1.0, "kept"), (100.0, "ruined")):
        candidate, _ = start(factor)
        output = candidate.model.graph.outputs[0].name or ""
        meaning = meaning_of(candidate.model, branches={output: "other"})
        judge = Judge(samples(factor), 20, 1, silent, meaning)
        assert (judge.quality(candidate).sqnr_db > 20.0) == (word == "kept")
        assert judge.verdict(candidate).state == word
        assert (judge.verdict(candidate).excess > 1.0) == (word == "ruined")
        assert replace(judge, meaning=None).verdict(candidate).state == "unknown"


@pytest.mark.parametrize("behind", [0.0, 0.8])
def test_the_second_search_never_costs_what_the_first_one_found(
    monkeypatch: pytest.MonkeyPatch, behind: float
) -> None:
    """What is a little behind the first search and below no repairs at all is not taken."""
    candidate, unclipped = start(100.0)
    right = Judge.quality

    def told(self: Judge, judged: Candidate) -> Check:
        found = right(self, judged)
        first, second = (30.7, 30.7 - behind) if judged.floats else (30.0, 29.0)
        return replace(found, sqnr_db=second if same_ranges(judged.table, unclipped) else first)

    monkeypatch.setattr(Judge, "quality", told)
    found = repair_by_effort(candidate, samples(100.0), "balanced", tables={UNCLIPPED: unclipped}, threads=1)
    assert found.candidate.floats
    assert same_ranges(found.table, unclipped) == (behind == 0.0)


def test_the_default_offers_ranges_that_clip_nothing() -> None:
    candidate, _ = start(100.0)
    found = calib8.calibrate(ir.to_proto(candidate.model), [dict(run) for run in samples(100.0).scored])
    offered = other_tables(found, replace(candidate, model=found.prepared.model), None)
    assert list(offered) == [UNCLIPPED, "ranges mse-behind"], "the last one is the plain one to compare with"
    assert all(entry.clipped == 0.0 for entry in offered[UNCLIPPED].entries.values())
    assert offered[UNCLIPPED].inputs == found.table.inputs
