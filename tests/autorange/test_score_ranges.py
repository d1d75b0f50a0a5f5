"""Ranges of the tensors before scores hold all that was seen; those of other tensors are searched as ever."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from calib8.autorange.score_ranges import limited_tensors, reach, score_tensors
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.refit import refitted
from calib8.scheme import TARGETS
from calib8.tasks.meaning import meaning_of
from small_models import Array, normal, onnx_model

sys.path.insert(0, str(Path(__file__).parents[1] / "tasks"))
from heads import yolo8


def images(count: int) -> list[dict[str, Array]]:
    """Noise, and one bright place in one of ten."""
    rng = np.random.default_rng(3)
    found = []
    for number in range(count):
        p, q = (rng.normal(0, 0.1, (1, 3, size, size)).astype(np.float32) for size in (4, 2))
        if number % 10 == 0:
            p[:, :, 1, 1], q[:, :, 0, 0] = 3.0, 3.0
        found.append({"p": p, "q": q})
    return found


def calibrated(method: str, **options: object) -> calib8.CalibrationTable:
    return calib8.calibrate(ir.to_proto(yolo8()), images(40), method=method, **options).table  # type: ignore[arg-type]


def test_logits_of_classes_are_not_clipped() -> None:
    table = calibrated("mse-behind")
    plain = calibrated("mse")
    assert plain.entries["c1"].clipped > 0.0
    scores = score_tensors(yolo8(), meaning_of(yolo8()))
    assert {"c1", "c2"} <= scores and not {"b1", "b2"} & scores
    for name in scores & table.entries.keys():
        entry = table.entries[name]
        assert entry.range.max >= entry.observed.max
    raised = [name for name, entry in table.entries.items() if "what is found" in entry.reason]
    assert "c1" in raised and plain.entries["c1"].range.max < table.entries["c1"].range.max
    assert table.entries["b1"] == plain.entries["b1"]


@pytest.mark.parametrize("method", ["mse", "mean-minmax"])
def test_a_method_that_is_named_is_taken_at_its_word(method: str) -> None:
    table = calibrated(method)
    assert {entry.method.split()[0] for entry in table.entries.values()} == {method}
    assert table.entries["c1"].clipped > 0.0


def test_what_a_function_reads_keeps_the_low_end_that_was_chosen() -> None:
    found, plain = (calibrated(method).entries["classes"] for method in ("mse-behind", "mse"))
    assert found.range.max >= found.observed.max and found.observed.min < found.range.min
    assert plain.range.max < found.range.max


def test_a_range_of_the_user_stays() -> None:
    found = calibrated("mse-behind", ranges={"c1": (-0.5, 0.5)})
    assert (found.entries["c1"].range.min, found.entries["c1"].range.max) == (-0.5, 0.5)


def test_without_scores_nothing_changes() -> None:
    model = yolo8()
    meaning = meaning_of(model)
    boxes = replace(meaning, branches=tuple(b for b in meaning.branches if b.kind == "boxes"))
    assert score_tensors(model, boxes) == frozenset()


def test_the_method_of_the_default_is_stored() -> None:
    made = calib8.quantize(ir.to_proto(yolo8()), images(40), effort="fast")
    assert any("what is found" in entry.reason for entry in made.table.entries.values())
    text = made.model.metadata_props
    assert [value for key, value in text.items() if key.endswith("method")] == ["mse"]


def test_saved_statistics_give_the_table_of_the_data() -> None:
    found = calib8.calibrate(ir.to_proto(yolo8()), images(40), method="mse-behind")
    again = calib8.calibrate(ir.to_proto(yolo8()), statistics=found.statistics, method="mse-behind")
    assert any("what is found" in entry.reason for entry in again.table.entries.values())
    assert again.table.entries == found.table.entries


def statistics_of(samples: Array) -> TensorStatistics:
    """Of one value per sample."""
    return TensorStatistics.from_values(samples.astype(np.float32), samples=len(samples))


def test_room_is_what_ten_times_as_many_samples_would_show() -> None:
    """Maxima of a Gumbel distribution: the expected largest of n is μ + β (γ + ln n)."""
    rng, n, beta = np.random.default_rng(5), 50, 2.0
    found = [reach(statistics_of(rng.gumbel(10.0, beta, n))) for _ in range(200)]
    expected = 10.0 + beta * (np.euler_gamma + np.log(10 * n))
    assert np.mean(found) == pytest.approx(expected, rel=0.03)
    assert expected > 1.2 * (10.0 + beta * (np.euler_gamma + np.log(n)))


def test_even_maxima_and_few_samples_get_no_room() -> None:
    assert reach(statistics_of(np.full(20, 3.0))) == 3.0
    few = np.arange(1.0, 10.0)
    assert reach(statistics_of(few)) == 9.0
    assert reach(statistics_of(np.append(few, 10.0))) > 10.0
    assert reach(statistics_of(-np.arange(1.0, 21.0))) == -1.0


def test_room_is_never_more_than_what_was_seen_once_more() -> None:
    """Samples without an object have their largest logit far below zero: that tells nothing of objects."""
    mostly = np.array([1.25] + [-8.0] * 9)
    assert reach(statistics_of(mostly)) == 2.5
    assert reach(statistics_of(np.array([1.25] + [-8.0] * 99))) == pytest.approx(1.875)
    assert np.isfinite(np.float32(reach(statistics_of(np.array([3.3e38] + [1.0] * 19)))))


def test_there_is_room_before_the_sigmoid_and_none_behind_it() -> None:
    entries = calibrated("mse-behind").entries
    assert entries["c1"].range.max > entries["c1"].observed.max
    assert entries["scores"].range.max == pytest.approx(entries["scores"].observed.max)
    assert entries["classes"].method != "minmax", "what a function reads keeps its method for its low end"


def test_ranges_that_are_chosen_anew_are_wide_again() -> None:
    model, runs = ir.to_proto(yolo8()), images(40)
    found = calib8.calibrate(model, runs, method="mse-behind")
    prepared, meaning = found.prepared.model, meaning_of(found.prepared.model)
    candidate = Candidate(prepared, found.table, TARGETS["onnxruntime"])
    data = RepairData(tuple(runs), 1, meaning=meaning)
    after = refitted(candidate, prepared.clone(), list(found.table.entries), data, scored=False)
    for name in ("c1", "c2", "classes"):
        assert after.table.entries[name].range == found.table.entries[name].range
        assert after.table.entries[name].reason == found.table.entries[name].reason


@pytest.mark.parametrize(
    ("body", "limited"),
    [
        ("y = Sigmoid(x)", True),
        ("s = Sigmoid(x) y = Transpose<perm=[0,2,3,1]>(s)", True),
        ("s = Sigmoid(x) y = Mul(s, x)", False),
        ("s = Sigmoid(x) t = Tanh(x) y = Concat<axis=1>(s, t)", True),
        ("s = Sigmoid(x) y = Concat<axis=1>(s, x)", False),
        ("y = Relu(x)", False),
        ("s = Sigmoid(x) y = Conv(s, w)", False),
        ("s = Sigmoid(x) y = Div(s, s)", False),
        ("y = Clip(x, zero, six)", True),
        ("y = Clip(x, zero)", False),
    ],
)
def test_behind_functions_that_end_at_a_limit_there_is_no_room(body: str, limited: bool) -> None:
    constants = {"w": normal(2, 2, 1, 1), "zero": np.float32(0.0), "six": np.float32(6.0)}
    proto = onnx_model("float[1,2,4,4] x", "float[a,b,c,d] y", body, constants)
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    assert ("y" in limited_tensors(model)) == limited
