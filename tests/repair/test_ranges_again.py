"""Behind an equalization that took away most of the noise, ranges are chosen for the new model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from small_candidates import candidate_of, quality, scaled

import calib8
from calib8.autorange.check import Check
from calib8.autorange.samples import ChosenSamples
from calib8.int8_model import other_tables
from calib8.repair import held_back, search
from calib8.repair import ranges_again as ranges_again_module
from calib8.repair.by_effort import UNCLIPPED, repair_by_effort
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.equalize_through import equalize_through_functions
from calib8.repair.ranges_again import ranges_again
from calib8.repair.repairs import EFFORTS, REPAIRS, Effort, Repair
from calib8.repair.result import Repaired
from calib8.repair.step import Step
from calib8.scheme import target_scheme
from calib8.table import CalibrationTable, Range
from small_models import normal, onnx_model
from small_nets import Net

AGAIN = "ranges mse-behind again"
FACTOR = 500.0


def pictures(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """Runs of one image of 16 × 16 each."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        coarse = np.kron(rng.normal(size=(1, 4, 4, 4)), np.ones((4, 4)))
        found.append({"x": (coarse + rng.normal(size=(1, 4, 16, 16)) * 0.3).astype(np.float32)})
    return found


@cache
def planted() -> onnx.ModelProto:
    """Five layers; a channel of the second one is far larger than the others, its readers' weights small."""
    net = Net(shape=("N", 4, 16, 16))
    tensor, channels = "x", 4
    for place in range(5):
        tensor, channels = net.conv(tensor, channels, 8, name=f"layer{place}", bias=False), 8
        tensor = net.op("Mul", tensor, net.op("Sigmoid", tensor))
    pooled = net.op("GlobalAveragePool", tensor)
    model = net.model(net.conv(pooled, 8, 10, kernel=1, name="last"))
    scaled(model, "layer1", 1, np.s_[5], FACTOR)
    scaled(model, "layer2", 1, np.s_[:, 5], 1.0 / FACTOR)
    return model


@cache
def beginning() -> tuple[Candidate, dict[str, CalibrationTable]]:
    """What the default begins from, and the tables that it has."""
    found = calib8.calibrate(planted(), pictures(40, seed=1), threads=1)
    start = Candidate(found.prepared.model, found.table, target_scheme("onnxruntime"))
    return start, other_tables(found, start, None)


def repaired(start: Candidate, tables: Mapping[str, CalibrationTable]) -> Repaired:
    runs = tuple(pictures(40, seed=1))
    held = ChosenSamples(runs[:20], runs[20:], shared=False)
    return repair_by_effort(start, held, "balanced", tables=tables, threads=1)


@cache
def by_default() -> Repaired:
    return repaired(*beginning())


def again(done: Repaired) -> list[Step]:
    return [step for step in done.steps if step.name == AGAIN]


def test_what_the_large_channel_made_of_the_ranges_does_not_stay() -> None:
    """On images that nothing has seen, nearly as good as from ranges of one method, or better."""
    done = by_default()
    (step,) = again(done)
    assert step.kept and step.after_db > step.before_db + 5.0
    start, tables = beginning()
    other = repaired(replace(start, table=tables["ranges mse-behind"]), {})
    fresh = pictures(40, seed=2)
    assert quality(done.candidate, fresh) > quality(other.candidate, fresh) - 1.0


def test_the_ranges_are_those_of_the_method_for_the_equalized_model() -> None:
    """Of every tensor, whether equalization changed it or not."""
    done, (_, tables) = by_default(), beginning()
    runs = pictures(40, seed=1)
    once_more = ranges_again({"ranges mse": tables["ranges mse-behind"]}, done.table)
    assert once_more is not None and once_more.name == "ranges mse again"
    equalized, _ = equalize_through_functions(
        Candidate(done.candidate.model, done.table, done.candidate.scheme), RepairData(tuple(runs), threads=1)
    )
    found, report = once_more(done.candidate, RepairData(tuple(runs), threads=1))
    assert not report.layers and equalized.model is done.candidate.model, "nothing left to equalize"
    expected = calib8.calibrate(ir.to_proto(done.candidate.model), runs, method="mse-behind", threads=1)
    left, right = ranges(found.table), ranges(expected.table)
    common = left.keys() & right.keys()
    assert len(common) == len(left) - 1, "one is inside of what is a chain for the model before repairs"
    assert {name: left[name] for name in common} == {name: right[name] for name in common}


def ranges(table: CalibrationTable) -> dict[str, Range]:
    return {name: entry.range for name, entry in table.entries.items()}


@pytest.fixture(scope="module")
def plain() -> Candidate:
    model = onnx_model("float[N,4] x", "float[N,3] y", "y = MatMul(x, w)", {"w": normal(4, 3)})
    return candidate_of(model, samples().scored)[0]


def samples() -> ChosenSamples:
    runs = tuple({"x": normal(1, 4, seed=seed)} for seed in range(16))
    return ChosenSamples(runs[:8], runs[8:], shared=False)


def wider(table: CalibrationTable) -> CalibrationTable:
    """Other ranges for the same tensors."""
    entries = {
        name: replace(entry, range=Range(2.0 * entry.range.min, 2.0 * entry.range.max))
        for name, entry in table.entries.items()
    }
    return replace(table, entries=entries)


def marking(name: str) -> Repair:
    """A repair that leaves its name, so that the judge knows it."""

    def repair(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
        return replace(candidate, floats=candidate.floats | {name}), RepairReport((name,))

    return repair


def judging(monkeypatch: pytest.MonkeyPatch, gains: Mapping[str, float], stages: str, other: float) -> None:
    """Repairs that gain so much in stages of one each, and other ranges that do behind them, −9 dB before."""

    def judged(judge: held_back.Judge, one: Candidate) -> Check:
        figure = 20.0 + sum(gains[name] for name in one.floats)
        if one.table.entries["x"].range.max > LIMIT:
            figure += other if one.floats else -9.0
        return Check("", figure, figure, figure, 8, figure)

    def corrected(one: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
        return one, RepairReport(())

    monkeypatch.setattr(held_back.Judge, "quality", judged)
    monkeypatch.setattr(search, "correct_biases", corrected)
    for name in gains:
        monkeypatch.setitem(REPAIRS, name, marking(name))  # type: ignore[arg-type]
    plan = Effort(stages=tuple(((name,),) for name in stages.split()), finish=())
    monkeypatch.setitem(EFFORTS, "balanced", plan)  # type: ignore[arg-type]


LIMIT = 1.5 * max(float(run["x"].max()) for run in samples().scored)


@pytest.mark.parametrize(
    ("gains", "other", "tried"),
    [
        ({"equalize-through": 2.9}, 5.0, []),
        ({"equalize-through": 3.1}, 5.0, [True]),
        ({"cle": 3.1}, 0.0, [True]),
        ({"cle": 3.1}, -0.01, [False]),
        ({"equalize-groups": 3.1}, -9.0, [False]),
        ({"round": 9.0}, 5.0, []),
        ({"equalize-groups": 2.0, "equalize-through": 2.0}, 5.0, [True]),
        ({"equalize-groups": 4.0, "equalize-through": 4.0}, 5.0, [True]),
        ({"equalize-groups": 4.0, "equalize-through": 4.0}, -5.0, [False, False]),
        ({"equalize-groups": 4.0, "equalize-through": 2.0}, -5.0, [False]),
        ({"equalize-groups": 4.0, "equalize-through": -2.0}, -5.0, [False]),
    ],
)
def test_ranges_are_chosen_again_where_most_of_the_noise_went_since(
    plain: Candidate,
    monkeypatch: pytest.MonkeyPatch,
    gains: Mapping[str, float],
    other: float,
    tried: list[bool],
) -> None:
    """Those of one method stay where nothing is lost by them: the choice among many owes much to chance."""
    judging(monkeypatch, gains, " ".join(gains), other)
    tables = {"ranges mse-behind": wider(plain.table)}
    found = repair_by_effort(plain, samples(), "balanced", tables=tables, threads=1)
    assert [step.kept for step in again(found)] == tried
    assert (found.candidate.table.entries["x"].range.max > LIMIT) == any(tried)
    assert found.table is plain.table, "what was chosen for the model before repairs"


@pytest.mark.parametrize("offered", ["nothing", "the same", "only what clips nothing"])
def test_without_other_ranges_none_are_tried(
    plain: Candidate, monkeypatch: pytest.MonkeyPatch, offered: str
) -> None:
    judging(monkeypatch, {"cle": 9.0}, "cle", 5.0)
    tables = {
        "nothing": {},
        "the same": {"ranges mse-behind": replace(plain.table)},
        "only what clips nothing": {UNCLIPPED: wider(plain.table)},
    }[offered]
    found = repair_by_effort(plain, samples(), "balanced", tables=tables, threads=1)
    assert found.candidate.floats == {"cle"}
    assert not [step for step in found.steps if step.name.endswith("again")]


def test_ranges_that_are_there_already_are_not_judged(
    plain: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equalization may leave the very ranges that would be chosen."""
    judging(monkeypatch, {"cle": 9.0}, "cle", 5.0)
    tables = {"ranges mse-behind": wider(plain.table)}

    def repair(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
        table = replace(candidate.table, entries=dict(tables["ranges mse-behind"].entries))
        return replace(candidate, floats=frozenset({"cle"}), table=table), RepairReport(("cle",))

    monkeypatch.setitem(REPAIRS, "cle", repair)  # type: ignore[arg-type]
    monkeypatch.setattr(ranges_again_module, "refitted", lambda candidate, *rest: candidate)
    found = repair_by_effort(plain, samples(), "balanced", tables=tables, threads=1)
    assert found.candidate.floats == {"cle"}
    (step,) = again(found)
    assert not step.kept and step.after is step.before
