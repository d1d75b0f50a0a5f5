"""FP32 that is often wrong is doubted: by chance, by what it says itself, or else by asking the reader."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import calib8
from calib8.analysis import beside_evaluation

CLASSES, SAMPLES = 10, 200


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Ten numbers that are the scores."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", CLASSES]) for n in ("x", "y")]
    weight = numpy_helper.from_array(np.eye(CLASSES, dtype=np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", values[:1], values[1:])
    graph.initializer.append(weight)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def data(folder: Path, right: float) -> Path:
    """The class is the label on so many samples; wrong ones are anywhere."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, CLASSES, SAMPLES)
    wrong = (labels + rng.integers(2, 9, SAMPLES)) % CLASSES
    shown = np.where(np.arange(SAMPLES) < right * SAMPLES, labels, wrong)
    noise = rng.normal(0, 0.01, (SAMPLES, CLASSES)).astype(np.float32)
    path = folder / f"{right}.npz"
    np.savez(path, x=np.eye(CLASSES, dtype=np.float32)[shown] + noise, labels=labels)
    return path


def test_guessing_is_told(model: Path, tmp_path: Path) -> None:
    [found] = calib8.evaluate([model], data(tmp_path, 0.1))
    [warning] = found.warnings
    assert warning.startswith("FP32 is right on 10.00 % of these samples: preprocessing or labels do not fit")


def test_less_than_half_is_asked_about_with_its_counts(model: Path, tmp_path: Path) -> None:
    [found] = calib8.evaluate([model], data(tmp_path, 0.4))
    [warning] = found.warnings
    assert warning.startswith("FP32 itself is right on only 40.00 % (80 of 200): if it was better")


def test_a_good_model_is_not_doubted_nor_one_on_few_samples(model: Path, tmp_path: Path) -> None:
    [found] = calib8.evaluate([model], data(tmp_path, 0.6))
    assert found.warnings == ()
    [few] = calib8.evaluate([model], data(tmp_path, 0.4), samples=beside_evaluation.FEWEST - 1)
    assert few.warnings == ()


def test_what_the_model_says_itself_comes_first(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "calib8.analysis.second_opinion.second_opinion", lambda *asked: iter(["red and blue are exchanged"])
    )
    [found] = calib8.evaluate([model], data(tmp_path, 0.4))
    assert found.warnings == ("red and blue are exchanged",)


def test_an_int8_model_that_lost_everything_is_no_reason_to_doubt_the_labels(
    model: Path, tmp_path: Path
) -> None:
    broken = onnx.load(model)
    broken.graph.initializer[0].CopyFrom(
        numpy_helper.from_array(np.roll(np.eye(CLASSES, dtype=np.float32), 3, 1), "w")
    )
    onnx.save(broken, tmp_path / "broken.onnx")
    good, lost = calib8.evaluate([model, tmp_path / "broken.onnx"], data(tmp_path, 1.0))
    assert (good.top1, lost.top1) == (1.0, 0.0)
    assert good.warnings == lost.warnings == ()
    assert replace(good, classes=()).labelled == SAMPLES
