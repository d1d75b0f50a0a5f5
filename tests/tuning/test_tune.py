"""Promises on small networks: kept with no layer in float, with exactly the one it takes, or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from tuned_nets import (
    COARSE,
    added_net,
    deep_net,
    even_net,
    float_classes,
    inputs,
    one_coarse_layer,
    unequal_net,
)

import calib8
from calib8.errors import Calib8Error, DataError, OutputError, TableError, UsageError
from calib8.model.metadata import read_metadata
from calib8.tuning.judging import Figures, Judge
from calib8.tuning.trial import Settings
from calib8.tuning.tune import Tuning

Tune = Callable[..., Tuning]

BOUNDED = np.clip(inputs(), -1.0, 1.0)
"""Samples of which none is cut off by the range of others."""


def test_nothing_is_in_float_where_nothing_has_to_be(tune: Tune, tmp_path: Path) -> None:
    found = tune(even_net(), min_sqnr=20.0)
    assert found.kept and found.complete and found.path == tmp_path / "out.onnx"
    [trial] = found.trials
    assert trial is found.best and trial.cost == 0.0 and trial.settings.floats == ()
    assert trial.figures.value >= trial.figures.bound >= 20.0
    assert (found.calibrated, found.judged) == (24, 24)
    metadata = read_metadata(found.path)
    assert metadata["promise"] == "SQNR of at least 20 dB" and float(metadata["float_macs"]) == 0.0


def test_nodes_that_a_repair_added_become_float_with_the_layers_around_them(tune: Tune) -> None:
    """Factors before and behind the HardSwish, of which the model as it was given knows nothing."""
    found = tune(unequal_net(), effort="balanced", min_sqnr=44.5)
    tried = [node for trial in found.trials for node in trial.settings.floats]
    assert found.kept and {"c0/restored", "x1/scaled"} <= set(tried)
    assert found.best is not None and 0.0 < found.best.cost < 1.0
    session = calib8.InferenceSession(found.path)
    assert np.isfinite(session.run(None, {"x": inputs(1)})[0]).all()


def test_samples_that_the_float_model_knows_by_heart_are_noted(tune: Tune, tmp_path: Path) -> None:
    right = np.array(float_classes(even_net(), inputs()))
    known, others = {"x": inputs(), "labels": right}, {"x": inputs(), "labels": (right + 1) % 5}
    asked: dict[str, Any] = {"min_agreement": 20.0}

    def noted(data: Any, place: str, **options: Any) -> bool:
        found = tune(even_net(), data, work=tmp_path / place, **options)
        return any("100.00 % of the samples that judge: they may be" in note for note in found.notes)

    assert noted(known, "a", **asked) and noted(known, "b", max_drop=90.0)
    assert not noted(others, "c", **asked), "wrong on all of them"
    assert not noted({"x": inputs()}, "d", **asked), "no labels"
    assert not noted(known, "e", min_sqnr=5.0), "margins do not matter"
    assert not noted({"x": BOUNDED}, "f", **asked, judge_data=known), "chosen by the user"


def test_exactly_the_layer_that_has_to_be_in_float_is(tune: Tune, tmp_path: Path) -> None:
    found = tune(one_coarse_layer(), min_sqnr=20.0)
    assert found.kept
    assert not found.trials[0].kept
    assert COARSE in found.best.settings.floats
    assert found.best.cost == pytest.approx(144 / (108 + 144 + 180))
    assert COARSE in read_metadata(found.path)["keep_float"]
    ops = Counter(node.op_type for node in onnx.load(found.path).graph.node)
    assert ops["Conv"] == 3 and ops["QuantizeLinear"] > 0
    float_path = tmp_path / "float.onnx"
    onnx.save(one_coarse_layer(), float_path)
    unseen = [{"x": sample[None]} for sample in inputs(32, seed=9)]
    [_, seen] = calib8.evaluate([float_path, found.path], unseen, threads=1)
    assert seen.sqnr_db is not None and seen.sqnr_db >= 20.0


def test_a_promise_that_cannot_be_kept_leaves_the_closest_model_in_the_folder(
    tune: Tune, tmp_path: Path
) -> None:
    found = tune(even_net(), min_sqnr=119.0)
    assert not found.kept and found.complete
    assert found.path == tmp_path / "out.onnx.tune" / "closest.onnx" and found.path.exists()
    assert not (tmp_path / "out.onnx").exists()
    best = max(trial.figures.bound for trial in found.trials)
    assert found.best.figures.bound == best < 119.0
    assert all(trial.cost < 1.0 for trial in found.trials), "a float model is no int8 model"


def test_agreement_and_drop_are_promises_too(tune: Tune, tmp_path: Path) -> None:
    samples = inputs(96)
    labelled = [
        ({"x": sample[None]}, label)
        for sample, label in zip(samples, float_classes(even_net(), samples), strict=True)
    ]
    agreed = tune(even_net(), labelled, min_agreement=80.0, work=tmp_path / "a")
    assert agreed.kept and agreed.best.figures.agreement == agreed.best.figures.value >= 80.0
    dropped = tune(even_net(), labelled, max_drop=20.0, work=tmp_path / "d")
    assert dropped.kept and dropped.float_top1 == 100.0
    figures = dropped.best.figures
    assert figures.top1 is not None and figures.value == pytest.approx(100.0 - figures.top1)
    assert figures.value <= figures.bound <= 20.0


def test_a_second_run_goes_on_where_the_first_was_and_writes_the_same(tune: Tune, tmp_path: Path) -> None:
    first = tune(one_coarse_layer(), min_sqnr=20.0)
    content = first.path.read_bytes()
    first.path.unlink()
    again = tune(one_coarse_layer(), min_sqnr=20.0, threads=2)
    assert again.trials == first.trials and again.path.read_bytes() == content
    shuffled = inputs()[::-1].copy()
    other = tune(one_coarse_layer(), shuffled, min_sqnr=20.0, output=tmp_path / "other.onnx")
    assert other.path.read_bytes() == content, "the order of the samples does not matter"


def test_samples_to_judge_with_do_not_calibrate(tune: Tune) -> None:
    judges = inputs(16, seed=3)
    found = tune(even_net(), np.concatenate([inputs(30), judges]), judge_data=judges, min_sqnr=10.0)
    assert (found.calibrated, found.judged) == (30, 16)
    assert any("16 samples did not calibrate" in note for note in found.notes)


def test_repairs_are_searched_before_layers_become_float(tune: Tune) -> None:
    repaired = tune(one_coarse_layer(), min_sqnr=20.0, effort="best")
    assert [trial.settings.effort for trial in repaired.trials] == ["fast", "balanced"]
    assert repaired.kept and repaired.best.cost == 0.0


def test_layers_become_float_where_no_effort_keeps_the_promise(tune: Tune) -> None:
    found = tune(one_coarse_layer(), min_sqnr=31.5, effort="best")
    efforts = [trial.settings.effort for trial in found.trials]
    assert efforts[:3] == ["fast", "balanced", "best"]
    assert not any(trial.settings.floats for trial in found.trials[:3])
    assert found.kept and 0.0 < found.best.cost < 1.0
    assert not (found.work / "closest.onnx").exists(), "what came closest before is gone"


def test_additions_in_float_cost_nothing_and_are_tried_first(tune: Tune) -> None:
    found = tune(added_net(), BOUNDED, min_sqnr=119.0)
    whole, sums = found.trials[:2]
    assert whole.settings.floats == () and sums.settings.floats == ("s0", "s1", "s2")
    assert sums.cost == 0.0
    assert sums.figures.sqnr_db > whole.figures.sqnr_db + 0.3
    ops = Counter(node.op_type for node in onnx.load(found.path).graph.node)
    assert ops["Add"] == 3


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which goes on by 10 seconds with every model that is judged, and stands still otherwise."""
    now, judge = [0.0], Judge.figures

    def figures(self: Judge, model: ir.Model) -> Figures:
        found = judge(self, model)
        now[0] += 10.0
        return found

    monkeypatch.setattr("calib8.tuning.clock.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(Judge, "figures", figures)
    return now


def asked(found: Tuning) -> list[tuple[Settings, Figures]]:
    return [(trial.settings, trial.figures) for trial in found.trials]


@pytest.mark.slow
@pytest.mark.usefixtures("seconds")
def test_a_budget_ends_the_search_and_a_larger_one_goes_on(tune: Tune, tmp_path: Path) -> None:
    whole = tune(deep_net(), BOUNDED, min_sqnr=30.0, work=tmp_path / "whole")
    assert whole.kept and whole.complete and len(whole.trials) > 6
    content = whole.path.read_bytes()
    for budget, trials in (("25s", 3), ("25s", 3), ("45s", 5)):  # all runs together
        short = tune(deep_net(), BOUNDED, min_sqnr=30.0, budget=budget)
        assert not short.complete and any("the budget ended" in note for note in short.notes)
        assert asked(short) == asked(whole)[:trials]
    last = tune(deep_net(), BOUNDED, min_sqnr=30.0, budget="1h")
    assert last.complete and asked(last) == asked(whole) and last.path.read_bytes() == content
    assert not any("budget" in note for note in last.notes)


@pytest.mark.slow
@pytest.mark.usefixtures("seconds")
def test_a_search_that_came_to_its_end_is_complete_whatever_time_is_left(tune: Tune) -> None:
    first = tune(deep_net(), BOUNDED, min_sqnr=30.0)
    again = tune(deep_net(), BOUNDED, min_sqnr=30.0, budget="1s")
    assert again.complete and again.trials == first.trials and again.notes == first.notes


def test_a_trial_that_is_under_way_when_the_time_is_over_is_given_up(
    tune: Tune, tmp_path: Path, seconds: list[float]
) -> None:
    def slow(stage: str, done: int, total: int | None) -> None:
        if stage == "judging" and seconds[0] >= 10.0:  # the second model
            seconds[0] += 100.0

    found = tune(deep_net(), BOUNDED, min_sqnr=30.0, budget="100s", progress=slow)
    assert not found.complete and len(found.trials) == 1
    assert found.path == tmp_path / "out.onnx.tune" / "closest.onnx" and found.path.exists()
    whole = tune(deep_net(), BOUNDED, min_sqnr=30.0)
    assert whole.complete and whole.trials[0] == found.trials[0]


def test_a_budget_too_small_for_one_trial_is_refused(tune: Tune, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="over before the first trial") as nothing:
        tune(one_coarse_layer(), min_sqnr=20.0, budget="0.001s")
    assert not (tmp_path / "out.onnx").exists()
    assert nothing.value.cure == "Give more time"
    (tmp_path / "out.onnx.tune" / "statistics.part").write_bytes(b"some")
    with pytest.raises(UsageError, match="Give more time; what was gathered is kept"):
        tune(one_coarse_layer(), min_sqnr=20.0, budget="0.001s")


def test_what_does_not_keep_the_promise_does_not_stand_under_the_name_of_the_result(
    tune: Tune, tmp_path: Path
) -> None:
    out = tmp_path / "out.onnx"
    for name in ("out.earlier.onnx", "out.earlier-2.onnx"):
        out.write_bytes(name.encode())
        found = tune(even_net(), min_sqnr=119.0)
        assert not found.kept and not out.exists()
        assert (tmp_path / name).read_bytes() == name.encode()
        [note] = [note for note in found.notes if name in note]
        assert str(out) in note


def test_a_kept_promise_replaces_what_was_there(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "out.onnx").write_bytes(b"old")
    found = tune(even_net(), min_sqnr=20.0)
    assert found.kept and "promise" in read_metadata(found.path)
    assert not list(tmp_path.glob("*earlier*"))


def test_the_best_model_is_put_back_where_it_is_gone_or_another(tune: Tune, tmp_path: Path) -> None:
    kept = tune(even_net(), min_sqnr=20.0)
    content = kept.path.read_bytes()
    kept.path.write_bytes(b"another")
    assert tune(even_net(), min_sqnr=20.0, budget="0.001s").path.read_bytes() == content
    closest = tune(even_net(), min_sqnr=119.0, work=tmp_path / "w", output=tmp_path / "n.onnx").path
    content = closest.read_bytes()
    closest.unlink()
    again = tune(even_net(), min_sqnr=119.0, work=tmp_path / "w", output=tmp_path / "n.onnx", budget="0.001s")
    assert again.path == closest and closest.read_bytes() == content


def test_two_runs_do_not_search_in_one_folder(tune: Tune, tmp_path: Path) -> None:
    def second(stage: str, done: int, total: int | None) -> None:
        tune(even_net(), min_sqnr=20.0)

    with pytest.raises(OutputError, match="another run is searching in it"):
        tune(even_net(), min_sqnr=20.0, progress=second)
    assert (tmp_path / "out.onnx.tune" / "lock").exists()
    assert tune(even_net(), min_sqnr=20.0).kept, "the lock is free again"


@pytest.mark.parametrize(
    ("options", "kind", "problem"),
    [
        ({}, UsageError, "nothing is promised"),
        ({"min_sqnr": 20.0, "min_agreement": 99.0}, UsageError, "two promises"),
        ({"min_agreement": 100.5}, UsageError, "no model can have"),
        ({"max_drop": -1.0}, UsageError, "no model can have"),
        ({"min_sqnr": float("nan")}, UsageError, "no model can have"),
        ({"max_drop": 1.0}, UsageError, "needs labels"),
        ({"min_sqnr": 20.0, "budget": "soon"}, UsageError, "is not a time"),
        ({"min_sqnr": 20.0, "budget": "0"}, UsageError, "is not a time"),
        ({"min_sqnr": 20.0, "effort": "huge"}, UsageError, "unknown effort"),
        ({"min_sqnr": 20.0, "keep_float": ["nobody"]}, UsageError, "no node 'nobody'"),
        ({"min_sqnr": 20.0, "samples": 12}, DataError, "leaves 6 samples"),
        ({"min_sqnr": 20.0, "judge_data": inputs()}, UsageError, "what calibrated cannot judge"),
        ({"min_sqnr": 20.0, "output": 3}, UsageError, "output: is of type int"),
        (
            {"min_sqnr": 20.0, "output": "tuned.txt"},
            UsageError,
            r"output='tuned\.txt': is the name of another",
        ),
        ({"min_sqnr": 20.0, "output": "tuned"}, UsageError, "output='tuned': has no suffix"),
        (
            {"min_sqnr": 20.0, "output": "none/t.onnx"},
            OutputError,
            r"output='none/t\.onnx': cannot be written",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    tune: Tune, tmp_path: Path, options: dict[str, Any], kind: type[Calib8Error], problem: str
) -> None:
    with pytest.raises(kind, match=problem):
        tune(even_net(), **options)
    assert list(tmp_path.iterdir()) == []


def test_an_output_without_classes_can_only_keep_sqnr(tune: Tune) -> None:
    model = even_net()
    model.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, ["N", 5, 6, 6])
    )
    with pytest.raises(UsageError, match="not a row of class scores"):
        tune(model, min_agreement=90.0)


def test_the_folder_of_another_search_is_refused(tune: Tune, tmp_path: Path) -> None:
    tune(even_net(), min_sqnr=10.0)
    for options, problem in (
        ({"min_sqnr": 11.0}, "with promise 'SQNR of at least 10 dB'"),
        ({"min_sqnr": 10.0, "target": "openvino"}, "with target 'onnxruntime'"),
        ({"min_sqnr": 10.0, "keep_float": ["c"]}, "keep_float"),
        ({"min_sqnr": 10.0, "data": inputs(seed=5)}, "other calibration samples"),
    ):
        with pytest.raises(TableError, match=problem):
            tune(even_net(), **options)
    with pytest.raises(TableError, match="for another model"):
        tune(one_coarse_layer(), min_sqnr=10.0)
    assert (tmp_path / "out.onnx").exists()


def test_other_labels_are_another_search(tune: Tune) -> None:
    samples = inputs(48)
    right = float_classes(even_net(), samples)
    wrong = [(label + 1) % 5 for label in right]

    def labelled(labels: list[int]) -> list[tuple[dict[str, Any], int]]:
        return [({"x": sample[None]}, label) for sample, label in zip(samples, labels, strict=True)]

    first = tune(even_net(), labelled(right), max_drop=60.0)
    assert first.best.figures.top1 == 100.0
    with pytest.raises(TableError, match="for other labels"):
        tune(even_net(), labelled(wrong), max_drop=60.0)
    assert tune(even_net(), labelled(right), max_drop=60.0).trials == first.trials


def test_too_few_samples_to_repair_with_are_told(tune: Tune) -> None:
    few = tune(even_net(), inputs(30), judge_data=None, min_sqnr=5.0)
    told = [note for note in few.notes if "too few to prove" in note]
    assert told == [
        "calibration: 15 samples are too few to prove a repair on (16): none was tried; give about 100"
    ]
    assert not [
        note
        for note in tune(even_net(), inputs(32), min_sqnr=5.0, work=few.work.with_name("w")).notes
        if "too few" in note
    ]
