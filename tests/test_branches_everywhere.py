"""Every judgement of a detector tells of its branches, and searches look at the worst of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from calib8.analysis.branch_losses import branch_losses
from calib8.analysis.damage import Damage
from calib8.analysis.diagnose import diagnose
from calib8.analysis.findings import LayerLoss, _suspects
from calib8.autorange.check import Check
from calib8.autorange.samples import choose_samples
from calib8.dissection.partly_coded import partly_coded
from calib8.repair import held_back, search
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.floor import Found, finds_fewer
from calib8.repair.repairs import REPAIRS
from calib8.tasks.branches import Branch, Meaning
from calib8.tasks.figures import BranchFigures
from calib8.tasks.limits import FEWEST
from calib8.tasks.meaning import meaning_of
from calib8.tasks.seen import analysable
from calib8.tasks.verdict import WORDS
from detector_nets import detector, pictures
from small_models import run


@pytest.fixture(scope="module")
def data() -> list[dict[str, np.ndarray]]:
    return [{"x": one[None]} for one in pictures(40)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, data: list[dict[str, np.ndarray]]) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("detector")
    onnx.save(detector(), folder / "float.onnx")
    calib8.quantize(folder / "float.onnx", data, effort="fast", threads=1).save(folder / "int8.onnx")
    return folder / "float.onnx", folder / "int8.onnx"


def decibels(left: np.ndarray, right: np.ndarray) -> float:
    wide = left.astype(np.float64)
    return float(10.0 * np.log10(np.sum(wide**2) / np.sum((wide - right) ** 2)))


def test_evaluate_and_compare_tell_each_branch(
    files: tuple[Path, Path], data: list[dict[str, np.ndarray]]
) -> None:
    outputs = [np.concatenate([run(onnx.load(path), one)[0] for one in data]) for path in files]
    expected = {"boxes": decibels(outputs[0][:, :4], outputs[1][:, :4]),
                "scores": decibels(outputs[0][:, 4:], outputs[1][:, 4:])}  # fmt: skip
    of_float, of_int8 = calib8.evaluate(files, data, threads=1)
    assert of_float.branches == ()
    assert {one.name: one.sqnr_db for one in of_int8.branches} == pytest.approx(expected, abs=0.2)
    assert of_int8.worst_branch is not None and of_int8.worst_branch.name == "scores"
    assert of_int8.sqnr_db == pytest.approx(decibels(*outputs), abs=0.2)
    assert of_int8.sqnr_db is not None and of_int8.sqnr_db > expected["scores"] + 5.0
    assert of_int8.sqnr_cell.endswith(" scores") and "SQNR of scores" in repr(of_int8)
    found = calib8.compare(*files, data, threads=1)
    assert "worst branch scores" in repr(found) and "outputs" not in repr(found)
    assert {one.name: one.distance.sqnr_db for one in found.branches} == pytest.approx(expected, abs=0.2)
    assert found.branches[0].name == "scores"
    named = calib8.evaluate(files, data, branches={"y": "map"}, threads=1)[1]
    assert [(one.name, one.kind) for one in named.branches] == [("map", "map")]


def test_diagnose_and_auto_judge_by_the_worst_branch(
    files: tuple[Path, Path], data: list[dict[str, np.ndarray]]
) -> None:
    found = diagnose(*files, data, threads=1)
    assert {one.name for one in found.figures.branches} == {"boxes", "scores"}
    scores = found.figures.branch("scores")
    assert scores is not None and found.sqnr_db < scores.sqnr_db + 3.0 < found.figures.evaluated_db
    report = calib8.calibrate(files[0], data, threads=1).auto
    assert report is not None
    assert all({one.name for one in check.branches} == {"boxes", "scores"} for check in report.checks)
    alone = calib8.calibrate(files[0], data, threads=1, branches={"y": "other"}).auto
    assert alone is not None and not any(check.branches for check in alone.checks)


def test_diagnose_names_what_ruins_each_branch_and_what_is_still_found(
    files: tuple[Path, Path], data: list[dict[str, np.ndarray]]
) -> None:
    """Far too wide a range of what only the scores are made of, and of what only the boxes are."""
    for tensor, moved, branch, other in (
        ("classes", "rc", "scores", "boxes"), ("box", "rb", "boxes", "scores"),
    ):  # fmt: skip
        given = {tensor: (-300.0, 300.0)}
        coded = calib8.quantize(files[0], data, effort="fast", ranges=given, threads=1).model
        found = diagnose(files[0], ir.to_proto(coded), data, threads=1)
        told = {one.name: one for one in found.branches}
        worst = told[branch].culprits[0]
        assert worst.tensor in (tensor, moved) and worst.share > 0.5
        assert worst.tensor not in [one.tensor for one in told[other].culprits]
        [loss] = [loss for loss in found.layers if loss.row.tensor == worst.tensor]
        assert worst.sqnr_db == loss.damage.branches[branch]
        figures = {one.name: one.sqnr_db for one in found.figures.branches}
        assert [one.name for one in found.branches] == sorted(figures, key=lambda name: figures[name])
        assert worst.share == pytest.approx(min(1, 10 ** ((figures[branch] - worst.sqnr_db) / 10)))
    told_by_judge = calib8.evaluate(files, data[:32], task="detect", threads=1)[1].task
    again = diagnose(*files, data[:32], threads=1).task
    assert again is not None and told_by_judge is not None
    assert again.samples == 32 and again.against_float == pytest.approx(dict(told_by_judge.against_float))
    assert diagnose(*files, data, threads=1, branches={"y": "other"}).task is None


def test_layers_that_only_the_worst_branch_accuses_are_suspects_too() -> None:
    """Eight layers cost the boxes most; of five others two cost the scores more than these do."""
    row: Any = None
    boxes = [
        LayerLoss(row, Damage(None, None, 20.0 + n, {"boxes": 10.0, "scores": 30.0}), None) for n in range(8)
    ]
    scores = [
        LayerLoss(row, Damage(None, None, 29.0 + n, {"boxes": 40.0, "scores": figure}), None)
        for n, figure in enumerate((35.0, 29.0, 31.0, 28.0, 40.0))
    ]
    figures = (BranchFigures("boxes", 25.0, 25.0), BranchFigures("scores", 12.0, 12.0))
    check = Check("", 12.0, 12.0, 12.0, 8, 20.0, figures)
    found = _suspects([*boxes, *scores], check)
    assert found[:8] == boxes and found[8:] == [scores[3], scores[1]]
    assert _suspects([*boxes, *scores], replace(check, branches=())) == boxes


def test_the_worst_layers_of_a_branch_come_first_and_innocent_ones_not_at_all() -> None:
    """Seven layers, of which one leaves more than ten times less noise than all together."""
    losses = []
    for n, figure in enumerate((21.0, 15.0, 30.5, 18.0, 28.0, 25.0, 29.9)):
        row: Any = SimpleNamespace(node=f"n{n}", tensor=f"t{n}")
        losses.append(LayerLoss(row, Damage(None, None, 9.0, {"scores": figure}), None))
    figures = (BranchFigures("boxes", 25.0, 25.0), BranchFigures("scores", 20.0, 20.0))
    check = Check("", 12.0, 12.0, 12.0, 8, 20.0, figures)
    branches = tuple(Branch(kind, kind, (), "sure", "") for kind in ("boxes", "scores"))
    first, second = branch_losses(check, Meaning(branches), losses)
    assert (first.name, second.name, second.culprits) == ("scores", "boxes", ())
    assert [one.node for one in first.culprits] == ["n1", "n3", "n0", "n5", "n4"]
    shares = [1.0, 1.0, 10**-0.1, 10**-0.5, 10**-0.8]
    assert [one.share for one in first.culprits] == pytest.approx(shares)
    few = branch_losses(check, Meaning(branches), [losses[2], losses[6]])[0]
    assert [one.node for one in few.culprits] == ["n6"]


def test_what_a_layer_costs_a_branch_is_measured(
    files: tuple[Path, Path], data: list[dict[str, np.ndarray]]
) -> None:
    """Against the sums over the outputs of two graphs: without any codes, and with those of one layer."""
    found = diagnose(*files, data, threads=1)
    parts, runs = found.dissection, found.dissection.runs
    tensor = next(name for name in parts.tensors if name in ("f", "f0"))
    [loss] = [loss for loss in found.layers if loss.row.tensor == tensor]
    layers = [name for name in parts.layers if name == loss.row.node]
    graph = partly_coded(parts.model, parts.constants, tensors=(tensor,), layers=layers)
    bare, coded = ([run(ir.to_proto(model), feeds)[0] for feeds in runs] for model in (parts.plain, graph))
    whole, part = np.concatenate(bare), np.concatenate(coded)
    expected = {"boxes": decibels(whole[:, :4], part[:, :4]), "scores": decibels(whole[:, 4:], part[:, 4:])}
    assert loss.damage.branches == pytest.approx(expected, abs=0.1)


def test_the_verdict_tells_each_branch_and_where_no_sample_judged(
    files: tuple[Path, Path], data: list[dict[str, np.ndarray]]
) -> None:
    made = calib8.quantize(files[0], data, effort="fast", threads=1)
    assert made.verdict is not None and {one.name for one in made.verdict.branches} == {"boxes", "scores"}
    assert made.verdict.samples == 32 and made.repaired is not None and made.repaired.held is None
    few = calib8.quantize(files[0], data[:8], effort="fast", threads=1).verdict
    assert few is not None and few.state == "unknown" and "too few to prove a repair on" in few.text
    none = calib8.quantize(files[0], data, repair=("none",), method="minmax", threads=1).verdict
    assert none is not None and none.text == "not judged: no sample was held back to judge with"


def test_the_verdict_is_the_judges_on_the_samples_held_back(
    files: tuple[Path, Path], data: list[dict[str, np.ndarray]], tmp_path: Path
) -> None:
    """What ``evaluate`` with a task says of the same samples; threads and batches change nothing."""
    made = calib8.quantize(files[0], data, effort="fast", threads=1)
    assert made.verdict is not None and made.calibration is not None
    assert made.calibration.dataset is not None
    [told] = made.verdict.tasks
    held = choose_samples(made.calibration.dataset, 1, scored=8, held_back=32).held_back
    made.save(tmp_path / "int8.onnx")
    beside = calib8.evaluate([files[0], tmp_path / "int8.onnx"], [dict(run) for run in held], task="detect")
    assert beside[1].task is not None and told.figures == pytest.approx(dict(beside[1].task.against_float))
    assert told.task == "detect" and told.counted >= FEWEST and told.branches == ("boxes", "scores")
    assert made.verdict.text.startswith(f"{WORDS[told.state]}: {told.text}; on {len(held)} samples held back")
    other = calib8.quantize(files[0], data[::-1], effort="fast", threads=2, batch=5).verdict
    assert other == made.verdict


def ruin_scores(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """Ranges that leave nothing of the scores; boxes hardly notice."""
    entries = dict(candidate.table.entries)
    for name in ("scores", "rc", "classes"):
        if name in entries:
            held = entries[name].range
            entries[name] = replace(entries[name], range=type(held)(held.min * 4.0, held.max * 4.0))
    return replace(candidate, table=replace(candidate.table, entries=entries)), RepairReport(("classes",))


def test_a_repair_that_costs_scores_is_not_kept(
    files: tuple[Path, Path], data: list[dict[str, np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REPAIRS, "round", ruin_scores)  # type: ignore[arg-type]
    found = calib8.quantize(files[0], data, method="mse", threads=1).repaired
    assert found is not None
    [step] = [step for step in found.steps if step.name == "round"]
    before, after = step.before.branch("scores"), step.after.branch("scores")
    assert before is not None and after is not None and after.sqnr_db < before.sqnr_db - 1.0
    assert not step.kept


def test_scores_stay_above_the_floor_of_plain_ranges(
    files: tuple[Path, Path], data: list[dict[str, np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a search believes to gain: what leaves less of the scores than plain ranges is not taken."""
    right = held_back.Judge.quality
    seen = list[float]()

    def flattering(self: held_back.Judge, candidate: Candidate) -> Check:
        """Every model is better than the one before, and leaves 1 dB less of the scores."""
        right(self, candidate)
        seen.append(20.0 + len(seen))
        scores = BranchFigures("scores", 30.0 - len(seen), 30.0 - len(seen))
        return Check("", seen[-1], seen[-1], seen[-1], 16, seen[-1], (scores,))

    monkeypatch.setattr(held_back.Judge, "quality", flattering)
    made = calib8.quantize(files[0], data, threads=1)
    found = made.repaired
    assert found is not None
    assert {step.name for step in found.steps if step.kept} <= {"ranges mse-behind", "bias"}
    assert any(step.name == "round" and not step.kept for step in found.steps)


def test_a_task_that_does_not_fit_is_refused_everywhere(
    files: tuple[Path, Path], data: list[dict[str, np.ndarray]], tmp_path: Path
) -> None:
    calls = {
        "quantize": lambda: calib8.quantize(files[0], data, task="embed", threads=1),
        "compare": lambda: calib8.compare(*files, data, task="embed", threads=1),
        "tune": lambda: calib8.tune(files[0], data, tmp_path / "t.onnx", min_sqnr=20, task="embed"),
        "tune by the task": lambda: calib8.tune(files[0], data, tmp_path / "t.onnx", min_cosine=0.9),
        "evaluate": lambda: calib8.evaluate(files, data, task="embed", threads=1),
    }
    for name, call in calls.items():
        with pytest.raises(calib8.UsageError, match="no output fits it; the model has y") as refused:
            call()
        assert "branches={'NAME': 'embedding'}" in str(refused.value), name


def test_tune_promises_the_worst_branch(
    files: tuple[Path, Path], data: list[dict[str, np.ndarray]], tmp_path: Path
) -> None:
    found = calib8.tune(files[0], data, tmp_path / "t.onnx", min_sqnr=5.0, effort="fast", threads=1)
    figures = found.best.figures
    assert figures.sqnr_db == min(figures.branches.values()) == figures.branches["scores"]
    assert figures.branches["boxes"] > figures.branches["scores"] + 5.0
    again = calib8.tune(files[0], data, tmp_path / "t.onnx", min_sqnr=5.0, effort="fast", threads=1)
    assert again.best == found.best  # read from the folder


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("shares", "fewer"), [([0.90, 0.95], True), ([0.94, 0.95], False), ([0.96, 0.95], False)]
)
def test_a_result_that_finds_fewer_goes_back_to_plain_ranges(
    files: tuple[Path, Path],
    data: list[dict[str, np.ndarray]],
    monkeypatch: pytest.MonkeyPatch,
    shares: list[float],
    fewer: bool,
) -> None:
    """Every model looks better than the one before; ``shares`` are those of the result and the plain one."""
    right, seen = held_back.Judge.quality, list[float]()

    def rising(self: held_back.Judge, candidate: Candidate) -> Check:
        right(self, candidate)
        seen.append(20.0 + len(seen))
        return Check("", seen[-1], seen[-1], seen[-1], 16, seen[-1], (BranchFigures("scores", 30.0, 30.0),))

    monkeypatch.setattr(held_back.Judge, "quality", rising)
    monkeypatch.setattr(held_back.Judge, "found", lambda self, candidate, meaning: steady(shares.pop(0)))
    found = calib8.quantize(files[0], data, method="mse", threads=1).repaired
    assert found is not None and shares == []
    kept = {step.name for step in found.steps if step.kept}
    assert (kept == {"bias"}) == fewer and ("round" in kept) != fewer
    assert any(search.BELOW_FLOOR in step.notes for step in found.steps) == fewer


def steady(share: float) -> Found:
    """The same share in each of 16 runs."""
    return Found(np.full((1, 16, 2), (100.0 * share, 100.0)))


def test_what_stays_found_is_counted_by_run() -> None:
    meaning = meaning_of(analysable(ir.from_proto(detector())))
    expected = [[np.concatenate([np.zeros((1, 4, 64)), np.full((1, 3, 64), 0.5)], axis=1)]]
    fewer = [[expected[0][0].copy()]]
    fewer[0][0][:, 4:, :16] = 0.2
    found = Found.of(meaning, expected * 2, fewer + expected)
    assert found.counts.tolist() == [[[2 * 3 * 48, 3 * (64 + 48)], [2 * 3 * 64, 2 * 3 * 64]]]
    assert found.share() == pytest.approx([2 * 112 / 240])
    assert found.share(without=0) == pytest.approx([1.0])


def test_fewer_is_more_than_chance() -> None:
    assert finds_fewer(steady(0.90), steady(0.93)) and not finds_fewer(steady(0.92), steady(0.93))
    one_of_many = np.full((1, 16, 2), (10.0, 10.0))
    one_of_many[0, 3, 0] = 6.0  # 0.025 less, all of it in one picture
    whole = Found(np.full((1, 16, 2), (10.0, 10.0)))
    assert not finds_fewer(Found(one_of_many), whole)
    several = np.full((1, 16, 2), (10.0, 10.0))
    several[0, 3:7, 0] = 6.0
    assert finds_fewer(Found(several), whole)
    nothing = Found(np.zeros((1, 16, 2)))
    assert not finds_fewer(nothing, nothing)
