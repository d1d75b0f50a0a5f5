"""The pages to learn from run as they are written, from the first block to the last."""

from __future__ import annotations

from pathlib import Path

import pytest
from lessons import commands, run_page


def test_the_first_model_is_made_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_page("docs/start.md")
    assert ran.commands >= 8 and ran.examples >= 4 and ran.shown >= 2
    assert {"net.int8.onnx", "net.c8", "tuned.onnx"} <= {path.name for path in tmp_path.iterdir()}


def test_continued_lines_and_comments_of_a_shell_block_are_understood() -> None:
    text = "# first\npip install .\ncalib8 run a.onnx \\\n  --data b  # why\n"
    assert list(commands(text)) == [["calib8", "run", "a.onnx", "--data", "b"]]
