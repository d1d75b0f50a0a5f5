"""The rows of docs/detectors.md: measured once, and written in the order of the page."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import task_networks
import task_runs
import task_summary
import tasks
import tasks_tables

PYTHONS: dict[str, str | None] = {"nncf": None, "modelopt": "other/bin/python"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    places = task_networks.Places(tmp_path / "nets", tmp_path / "data", tmp_path)
    for name in ("scrfd", "crnn"):
        (places.folder / name).mkdir(parents=True)
        described = json.dumps(task_networks.describe(name, places))
        (places.folder / name / "network.json").write_text(described)
    return places.folder


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands; each writes a row, as ``tasks.py`` does."""
    found = list[list[str]]()

    def called(command: list[str], **words: Any) -> SimpleNamespace:
        found.append(command)
        row = {"row": command[command.index("--rows") + 1], "recall": 0.5, "sqnr_db": {"boxes": 20.0}}
        Path(command[command.index("--json") + 1]).write_text(json.dumps([row]))
        return SimpleNamespace(returncode=0, stdout="told")

    monkeypatch.setattr(subprocess, "run", called)
    return found


def test_what_has_a_file_is_not_measured_again(folder: Path, tmp_path: Path, calls: list[list[str]]) -> None:
    for _ in range(2):
        for row in ("onnxruntime", "nncf", "modelopt"):
            task_runs.measure(folder, "scrfd", row, tmp_path, PYTHONS)
    assert [command[command.index("--rows") + 1] for command in calls] == ["onnxruntime", "modelopt"]
    assert sorted(path.name for path in tmp_path.glob("*.json")) == [
        "scrfd.modelopt.json", "scrfd.onnxruntime.json",
    ]  # fmt: skip


def test_a_row_that_was_broken_off_leaves_no_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = SimpleNamespace(returncode=1, stdout="")
    monkeypatch.setattr(subprocess, "run", lambda command, **words: broken)
    with pytest.raises(SystemExit, match="scrfd onnxruntime"):
        task_runs.measure(folder, "scrfd", "onnxruntime", tmp_path, PYTHONS)
    assert not task_runs.row_file(tmp_path, "scrfd", "onnxruntime").exists()


def test_the_command_is_one_of_the_benchmark_of_tasks(folder: Path, tmp_path: Path) -> None:
    command = task_runs.command(folder, "scrfd", "modelopt", tmp_path / "row.json", PYTHONS)
    words = command[2:]
    assert words[words.index("--size") + 1] == "320,320"
    assert float(words[words.index("--scale") + 1]) == 1 / 128
    assert words[words.index("--modelopt") + 1] == "other/bin/python"
    assert words[1] == str(folder / "pictures" / "scenes" / "calibration")
    assert set(task_runs.ROWS) <= set(tasks.WAYS)


def test_the_page_has_rows_in_order_and_keeps_yolov5s(
    folder: Path, tmp_path: Path, calls: list[list[str]]
) -> None:
    for row in ("onnxruntime", "calib8-balanced"):
        task_runs.measure(folder, "crnn", row, tmp_path, PYTHONS)
    found = task_runs.tables(folder, tmp_path)
    kept = json.loads(task_runs.KEPT.read_text(encoding="utf-8"))
    behind = [kept[name]["title"] for name in task_networks.NETWORKS if name in kept and name != "yolov5s"]
    assert [title for title, _, _ in found] == [
        "YOLOv5s, 416 pixels, 80 classes (300 pictures, 1332 objects)",
        "CRNN with SiLU and LSTM, text (800 lines)",
        *behind,
    ]
    page = tasks_tables.page(found, task_runs.origins())
    assert "earlier measurement" in page
    assert "| **calib8, its defaults**, in ONNX Runtime | 97.8 | 97.9 | 99.0 | 98.5 |" in page
    below = page[page.index("## CRNN") :]
    assert below.index("calib8, its defaults") < below.index("onnxruntime, its defaults")
    assert "PyPI ddddocr 1.6.1" in page


def test_the_summary_takes_the_best_of_others() -> None:
    rows = [
        {"row": "calib8-balanced", "map50": 0.5},
        {"row": "onnxruntime", "map50": 0.25},
        {"row": "nncf", "map50": 0.4},
        {"row": "modelopt", "failure": "no model"},
    ]
    line = task_summary.line("scrfd", rows)
    assert line == "| SCRFD-2.5G, faces | mAP@.5 | 50.0 % | – | 40.0 % |"
    page = f"Before.\n\n{task_summary.HEAD}\n|---|\n| old | row |\n| older | row |\n\nAfter.\n\nEnd.\n"
    expected = f"Before.\n\n{task_summary.HEAD}\n|---|\n{line}\n\nAfter.\n\nEnd.\n"
    assert task_summary.replaced(page, [line]) == expected


def test_the_page_of_tasks_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
    changed = task_summary.replaced(page, ["| a | row |"])
    assert "| a | row |\n\n" in changed
    assert "YOLOv8n, 18 classes" not in changed
