"""Runs for TensorBoard: its own reader finds what was logged, and torch is not needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import calib8
from calib8.tracking.destination import destination
from calib8.tracking.record import RunRecord
from calib8.tracking.to_tensorboard import TensorboardRuns
from needed import needed

needed("tensorboard")


def events(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def text(found: Any, tag: str) -> str:
    [event] = found.Tensors(tag)
    words: str = event.tensor_proto.string_val[0].decode()
    return words


def test_models_side_by_side(small: Any) -> None:
    evaluated = calib8.evaluate([small.fp32, small.int8], small.data)
    calib8.log_run(evaluated, "tensorboard:runs/deep", data=small.data, model=small.int8)
    [folder] = Path("runs/deep").iterdir()
    found = events(folder)
    [agreement] = found.Scalars("agreement")
    assert agreement.value == pytest.approx(evaluated[1].agreement)
    assert [one.step for one in found.Scalars("models/images_per_second")] == [0, 1]
    assert len(found.Scalars("layers/local_sqnr_db")) > 3
    assert "| runtime |" in text(found, "models/all").replace("name | chosen | ", "")
    assert calib8.__version__ in text(found, "environment")
    assert text(found, "verdict").startswith("**")
    assert "_hparams_/session_start_info" in found.Tags()["tensors"]
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert (folder / small.int8.name).read_bytes() == small.int8.read_bytes()


def test_runs_of_one_second_have_folders_of_their_own_and_odd_figures_are_words() -> None:
    tracker = TensorboardRuns(destination("tensorboard:runs"))
    record = RunRecord("../a b", "evaluate", figures={"sqnr_db": float("inf"), "agreement": 0.5})
    places = {tracker.log(record), tracker.log(record)}
    assert len(places) == 2 and {Path(one).parent for one in places} == {Path("runs").absolute()}
    found = events(Path(places.pop()))
    assert found.Tags()["scalars"] == ["agreement"]
    assert "| sqnr_db | inf |" in text(found, "figures")


def test_neither_torch_nor_tensorflow_is_loaded() -> None:
    code = """
import sys
from calib8.tracking.destination import destination
from calib8.tracking.record import RunRecord
from calib8.tracking.to_tensorboard import TensorboardRuns
TensorboardRuns(destination("tensorboard:runs")).log(RunRecord("a", "b", figures={"c": 1.0}))
print({"torch", "tensorflow"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
