"""The pages to learn from run as they are written, from the first block to the last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lessons import commands, run_notebook, run_page
from pages import ROOT


def test_the_first_model_is_made_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_page("docs/start.md")
    assert ran.commands >= 8 and ran.examples >= 4 and ran.shown >= 2
    assert {"net.int8.onnx", "net.c8", "tuned.onnx"} <= {path.name for path in tmp_path.iterdir()}


def test_the_notebook_prints_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_notebook("docs/notebooks/first_model.ipynb") >= 2
    assert (tmp_path / "digits.int8.onnx").is_file()


def test_notebooks_hold_no_more_than_small_text() -> None:
    for path in (ROOT / "docs/notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        assert all(output["output_type"] == "stream" for output in outputs), path.name
        assert sum(len("".join(output["text"])) for output in outputs) < 1000, path.name


def test_continued_lines_and_comments_of_a_shell_block_are_understood() -> None:
    text = "# first\npip install .\ncalib8 run a.onnx \\\n  --data b  # why\n"
    assert list(commands(text)) == [["calib8", "run", "a.onnx", "--data", "b"]]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "left"), [("training", "digits.chip.onnx"), ("tflite", "digits.c8")])
def test_tutorials_on_the_digits_run_as_written(
    page: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_page(f"docs/tutorials/{page}.md")
    assert ran.commands >= 2 and ran.examples >= 3 and ran.shown >= 2
    assert (tmp_path / left).is_file()


REAL = {
    "classifier": {
        "efficientnet_lite0.onnx": "models/efficientnet_lite0.onnx",
        "calibration": "imagenet/calib",
        "labelled": "imagenet/eval",
    },
    "detector": {
        "ultraface_RFB-320.onnx": "models/ultraface_RFB-320.onnx",
        "calibration": "imagenet/calib",
        "heldout": "imagenet/eval",
    },
    "segmentation": {
        "ch_PP-OCRv4_det_infer.onnx": "models/ch_PP-OCRv4_det_infer.onnx",
        "calibration": "imagenet/calib",
        "heldout": "imagenet/eval",
    },
}
"""Tutorial → name on the page → where the folder of real models and images has it."""


@pytest.mark.slow
@pytest.mark.parametrize("page", REAL)
def test_tutorials_on_real_networks_run_as_written(
    page: str, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, place in REAL[page].items():
        (tmp_path / name).symlink_to(shared_data / place)
    monkeypatch.chdir(tmp_path)
    ran = run_page(f"docs/tutorials/{page}.md")
    assert ran.commands >= 3 and ran.examples >= 1 and ran.shown >= 1


def test_every_tutorial_runs_and_is_short() -> None:
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs/tutorials").glob("*.md")}
    assert set(pages) == {*REAL, "training", "tflite"}
    assert {name for name, text in pages.items() if len(text.split()) > 900} == set()
