"""Ranges of the tensors before scores hold all that was seen; those of other tensors are searched as ever."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import calib8
from calib8.autorange.score_ranges import score_tensors
from calib8.tasks.meaning import meaning_of
from small_models import Array

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
    assert found.range.max == found.observed.max and found.observed.min < found.range.min
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
