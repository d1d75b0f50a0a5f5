"""Labels that nobody asked for are a help: where they do not fit, every command goes on and says so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_models import FLAGS

import calib8
from calib8.errors import DataError

LEFT_OUT = "labels were found that do not fit and are left out"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Seven folders of three images each, beside a model of five classes."""
    rng = np.random.default_rng(4)
    folder = tmp_path / "people"
    for index in range(7):
        path = folder / f"person{index}" / "0.png"
        path.parent.mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path.with_name(f"{number}.png"))
    return folder


@pytest.mark.parametrize("command", ["quantize", "calibrate", "tune"])
def test_folders_that_are_no_classes_of_the_model_stop_nothing(
    cli, model: Path, people: Path, out: Path, command: str
) -> None:
    more = {"tune": ("--min-sqnr", "5", "--effort", "fast"), "quantize": ("--effort", "fast")}
    report = () if command == "tune" else ("--json", out / "r.json")
    target = out / ("t.json" if command == "calibrate" else "q.onnx")
    result = cli(command, model, "--data", people, *FLAGS, *more.get(command, ()), "-o", target, *report)
    assert result.exit_code == 0 and target.exists(), result.output
    why = "person5/0.png: its label 5 is beyond the 5 classes of tiny"
    assert f"warning: {LEFT_OUT}: {why}. Mend them, or name others with --labels" in result.stdout
    assert "FP32 top-1" not in result.stdout
    if report:
        seen = json.loads((out / "r.json").read_text())
        seen = seen["preflight"]
        assert seen["top1"] is None and any(LEFT_OUT in warning for warning in seen["warnings"])


def test_evaluate_goes_on_without_top1(cli, refused, model: Path, people: Path, out: Path) -> None:
    command = ("evaluate", model, model, "--data", people, *FLAGS)
    result = cli(*command, "--json", out / "r.json")
    assert result.exit_code == 0, result.output
    assert f"warning: {model}: {LEFT_OUT}: person5/0.png" in result.stdout
    first, second = json.loads((out / "r.json").read_text())["models"]
    assert first["top1"] is None and second["top1"] is None and second["agreement"] == 1.0
    listed = out / "list.txt"
    listed.write_text("".join(f"person{i}/{n}.png {i}\n" for i in range(7) for n in range(3)))
    refused(cli(*command, "--labels", listed), 1, "its label 5 is beyond the 5 classes", "Check the labels.")
    refused(cli(*command, "--label-offset", 1), 1, "its label 4 with the offset 1 is beyond the 5 classes")


def test_a_list_of_class_names_stops_nothing(cli, refused, model: Path, people: Path, out: Path) -> None:
    (people / "labels.txt").write_text("cat\ndog\n")
    result = cli("quantize", model, "--data", people, *FLAGS, "--effort", "fast", "-o", out / "q.onnx")
    assert result.exit_code == 0, result.output
    assert f"warning: {LEFT_OUT}: " in result.stdout and "labels.txt, line 1 'cat' is not" in result.stdout
    result = cli("evaluate", model, "--data", people, *FLAGS)
    assert result.exit_code == 0 and f"warning: {model}: {LEFT_OUT}: " in result.stdout
    for command in ("compare", "diagnose"):
        result = cli(command, model, out / "q.onnx", "--data", people)
        assert result.exit_code == 0, result.output
    asked = ("quantize", model, "--data", people, *FLAGS, "--labels", people / "labels.txt")
    refused(cli(*asked, "-o", out / "r.onnx"), 1, "labels.txt, line 1: 'cat' is not 'file label'")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "labels", [np.eye(5)[:1].repeat(24, 0), np.int64(4), np.array(["cat", None] * 12), np.full(24, 99)]
)
def test_labels_in_an_npz_stop_nothing(
    cli, model: Path, out: Path, labels: np.ndarray, tmp_path: Path
) -> None:
    images = np.random.default_rng(6).normal(0, 1, (24, 3, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "a.npz", image=images, labels=labels)
    data, result = ("--data", tmp_path / "a.npz"), out / "q.onnx"
    commands: list[tuple[object, ...]] = [
        ("quantize", model, *data, "--effort", "fast", "-o", result),
        ("calibrate", model, *data, "-o", out / "t.json"),
        ("evaluate", model, result, *data),
        ("compare", model, result, *data),
        ("diagnose", model, result, *data),
        ("run", result, *data),
        ("inspect", model, *data),
        ("tune", model, *data, "--min-sqnr", "5", "--effort", "fast", "-o", out / "t.onnx"),
    ]
    for command in commands:
        found = cli(*command)
        assert found.exit_code == 0, found.output
        assert "--labels" not in found.output
        if command[0] in ("quantize", "evaluate"):
            assert LEFT_OUT in found.output and "Mend the array 'labels', or leave it out" in found.output


def test_a_promise_about_top1_needs_them(cli, refused, model: Path, people: Path, out: Path) -> None:
    command = ("tune", model, "--data", people, *FLAGS, "--max-drop", "1", "--effort", "fast")
    refused(cli(*command, "-o", out / "t.onnx"), 1, "is beyond the 5 classes of", "Check the labels.")


def test_labels_of_samples_that_only_judge(model: Path, people: Path, out: Path) -> None:
    rng = np.random.default_rng(5)
    images = rng.normal(0, 1, (16, 3, 16, 16)).astype(np.float32)
    given = {"image": images[6:], "labels": np.arange(10) + 600}
    np.savez(out / "judging.npz", **given)  # type: ignore[arg-type]

    def tuned(judging: Any) -> calib8.Tuning:
        return calib8.tune(
            model, {"image": images[:6]}, out / "t.onnx", judge_data=judging, min_sqnr=5.0, effort="fast"
        )

    found = tuned(out / "judging.npz")
    assert found.float_top1 is None
    told = re.compile(
        r"labels that do not fit are left out: judging.npz\[\d\]: its label 60\d is beyond the 5 classes"
    )
    assert any(map(told.match, found.notes))
    with pytest.raises(DataError, match="its label 600 is beyond the 5 classes"):
        tuned(given)


def test_labels_of_another_length_are_refused(cli, refused, model: Path, out: Path, tmp_path: Path) -> None:
    images = np.random.default_rng(6).normal(0, 1, (24, 3, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "a.npz", image=images, labels=np.arange(3))
    problem, cure = "the array 'labels': has 3 labels for 24 samples", "leave it out."
    refused(cli("evaluate", model, "--data", tmp_path / "a.npz"), 1, problem, cure)
    made = cli("quantize", model, "--data", tmp_path / "a.npz", "-o", out / "q.onnx")
    refused(made, 1, problem, cure)
    for data in (tmp_path / "a.npz", {"image": images, "labels": [1, 2, 3]}):
        with pytest.raises(DataError, match=problem):
            calib8.evaluate([model], data)
