"""Promises on small networks: kept with no layer in float, with exactly the one it takes, or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from tuned_nets import COARSE, even_net, float_classes, inputs, one_coarse_layer

import calib8
from calib8.errors import Calib8Error, DataError, TableError, UsageError
from calib8.model.metadata import read_metadata
from calib8.tuning.tune import Tuning

Tune = Callable[..., Tuning]


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    def run(model: onnx.ModelProto, data: Any = None, **options: Any) -> Tuning:
        given = inputs() if data is None else data
        options = {"effort": "fast", "threads": 1, **options}
        return calib8.tune(model, given, options.pop("output", tmp_path / "out.onnx"), **options)

    return run


def test_nothing_is_in_float_where_nothing_has_to_be(tune: Tune, tmp_path: Path) -> None:
    found = tune(even_net(), min_sqnr=20.0)
    assert found.kept and found.complete and found.path == tmp_path / "out.onnx"
    [trial] = found.trials
    assert trial is found.best and trial.cost == 0.0 and trial.settings.floats == ()
    assert trial.figures.value >= trial.figures.bound >= 20.0
    assert (found.calibrated, found.judged) == (24, 24)
    metadata = read_metadata(found.path)
    assert metadata["promise"] == "SQNR of at least 20 dB" and float(metadata["float_macs"]) == 0.0


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
    found = tune(one_coarse_layer(), min_sqnr=20.0, effort="best")
    efforts = [trial.settings.effort for trial in found.trials]
    assert efforts[0] == "fast"
    assert found.kept and found.best.cost <= 144 / (108 + 144 + 180) + 1e-9
    int8 = [t.settings.effort for t in found.trials if not t.settings.floats]
    assert int8 == ["fast", "balanced", "best"][: len(int8)]


def test_a_budget_ends_the_search_and_a_larger_one_goes_on(tune: Tune) -> None:
    with pytest.raises(UsageError, match="over before the first trial"):
        tune(one_coarse_layer(), min_sqnr=20.0, budget="0.001s")
    whole = tune(one_coarse_layer(), min_sqnr=20.0, budget="1h")
    assert whole.kept and whole.complete


def test_a_budget_that_is_used_up_leaves_the_result_as_it_is(tune: Tune, monkeypatch: Any) -> None:
    now = [0.0]

    def tick() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr("calib8.tuning.attempts.time", SimpleNamespace(monotonic=tick))
    short = tune(one_coarse_layer(), min_sqnr=119.0, budget="6s")
    assert not short.complete and not short.kept and short.trials
    assert any("budget" in note for note in short.notes)
    again = tune(one_coarse_layer(), min_sqnr=119.0, budget="6s")
    assert again.trials == short.trials and again.best == short.best


@pytest.mark.parametrize(
    ("options", "kind", "problem"),
    [
        ({}, UsageError, "nothing is promised"),
        ({"min_sqnr": 20.0, "min_agreement": 99.0}, UsageError, "two promises"),
        ({"min_agreement": 100.5}, UsageError, "no model can have"),
        ({"max_drop": -1.0}, UsageError, "no model can have"),
        ({"min_sqnr": float("nan")}, UsageError, "no model can have"),
        ({"max_drop": 1.0}, UsageError, "needs labels"),
        ({"min_sqnr": 20.0, "budget": "soon"}, UsageError, "is no time"),
        ({"min_sqnr": 20.0, "budget": "0"}, UsageError, "is no time"),
        ({"min_sqnr": 20.0, "effort": "huge"}, UsageError, "unknown effort"),
        ({"min_sqnr": 20.0, "keep_float": ["nobody"]}, UsageError, "no node 'nobody'"),
        ({"min_sqnr": 20.0, "samples": 12}, DataError, "leaves 6 samples"),
        ({"min_sqnr": 20.0, "judge_data": inputs()}, UsageError, "what calibrated cannot judge"),
        ({"min_sqnr": 20.0, "output": 3}, UsageError, "no path"),
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
    with pytest.raises(UsageError, match="no row of class scores"):
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
