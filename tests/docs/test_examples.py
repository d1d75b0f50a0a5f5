"""Examples and sessions on the pages print what is shown."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import PAGES, PYTHON, QUANTIZATION, TRAINING, blocks, rows, sections, session_pages
from shown import DIGITS, INT8_DIGITS, alike
from typer.testing import CliRunner

import calib8
import calib8.training
from calib8.cli import app
from calib8.demo import MODEL_PATH
from calib8.training.simulation import BATCH_NORMS, RANGES

INFERENCE = ("calib8.calibrate(", "found.")
"""Examples that print what the float demo network computed: other CPUs may compute other last digits."""


def test_the_python_examples_print_what_is_shown() -> None:
    namespace: dict[str, Any] = {}
    examples = blocks(QUANTIZATION)
    assert sum(block.language == "python" for block in examples) >= 15
    for index, block in enumerate(examples):
        if block.language != "python":
            continue
        shown = examples[index + 1]
        assert shown.language == "text", f"line {block.line}: its output is not shown"
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block.text, f"docs/quantization.md:{block.line}", "exec"), namespace)
        inferred = any(word in block.text for word in INFERENCE)
        fits = alike(shown.text, output.getvalue()) if inferred else shown.text == output.getvalue()
        assert fits, f"line {block.line}:\n{output.getvalue()}"


def test_the_functions_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in MODEL_PATH.parent.glob("digits*"):
        shutil.copy(file, tmp_path)
    namespace: dict[str, Any] = {}
    examples = blocks(PYTHON)
    assert sum(block.language == "python" for block in examples) >= 12
    for block, shown in zip(examples[::2], examples[1::2], strict=True):
        assert (block.language, shown.language) == ("python", "text"), f"line {block.line}"
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block.text, f"docs/python.md:{block.line}", "exec"), namespace)
        assert alike(shown.text, output.getvalue()), f"line {block.line}:\n{output.getvalue()}"


PERCENT = re.compile(r"\d+(?=%)")
"""Accuracy: a training ends elsewhere where sums are rounded in another order."""


@pytest.mark.slow
def test_the_training_session_prints_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "session"}
    shown, printed = "", io.StringIO()
    for block in blocks(TRAINING):
        if block.language == "python":
            with contextlib.redirect_stdout(printed):
                exec(compile(block.text, f"docs/training.md:{block.line}", "exec"), namespace)
        elif block.language == "text":
            shown += block.text
    found = printed.getvalue()
    assert alike(PERCENT.sub("some", shown), PERCENT.sub("some", found)), found
    pairs = zip(PERCENT.findall(shown), PERCENT.findall(found), strict=True)
    assert all(abs(int(told) - int(measured)) <= 15 for told, measured in pairs), found
    assert namespace["after"] > namespace["before"] + 0.1
    assert any("target='three bits'" in note for note in namespace["notes"])
    assert Path("digits.tflite").stat().st_size > 10_000


def test_the_options_and_results_of_training_are_on_its_page() -> None:
    parts = sections(TRAINING)
    table = [row[0] for row in rows(parts["The code in short"])]
    named = {name for cell in table[2:] for name in re.findall(r"`(\w+)`", cell)}
    options = set(inspect.signature(calib8.training.prepare).parameters) - {"model", "example_inputs"}
    assert named == options
    assert {row[0].strip("`") for row in rows(parts["Ranges"])[2:]} == set(RANGES)
    assert {row[0].strip("`") for row in rows(parts["BatchNorm"])[2:]} == set(BATCH_NORMS)
    public = {*calib8.training.__all__} - {"Agreement", "SimulatedModel"}
    assert {name for name in public if not re.search(rf"`?{name}\b", TRAINING)} == set()


def test_the_comparison_sees_a_changed_digit_or_word() -> None:
    assert alike("scale 0.0292126  zero 128", "scale 0.0292127 zero 128")
    assert not alike("scale 0.0292126", "scale 0.0296")
    assert not alike("zero 128", "zero 127")
    assert not alike("zero 128", "point 128")
    assert not alike("one", "one two") and not alike("one two", "one") and not alike("two", "one two")
    assert alike("a\n…\nb", "a 1 2 3 b") and alike("…\nb", "a b") and alike("a\n…\n", "a b")
    assert not alike("a\n…\nb", "a 1 2 3 c") and not alike("a\n…\nb\n…", "a c") and not alike("a…a", "a")


def commands_with_output(text: str) -> Iterator[tuple[dict[str, str], list[str], str]]:
    """Environment, arguments and shown output of every ``$ calib8 …`` of a console block."""
    for piece in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = piece.partition("\n")
        words = shlex.split(line)
        environment = dict(word.split("=", 1) for word in words if re.match(r"[A-Z]\w*=", word))
        yield environment, words[len(environment) :], shown


WITHOUT_SESSION = ("docs/data.md", "docs/python.md")
"""Pages that the overview names whose Python is not of the session."""


def test_the_sessions_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in MODEL_PATH.parent.glob("digits*"):
        shutil.copy(file, tmp_path)
    namespace: dict[str, Any] = {}
    run = 0
    for page, block in [(name, block) for name in session_pages() for block in blocks(PAGES[name])]:
        where = f"{page}:{block.line}"
        if block.language == "python" and page not in WITHOUT_SESSION:
            exec(compile(block.text, where, "exec"), namespace)
        if block.language != "console":
            continue
        for environment, words, shown in commands_with_output(block.text):
            if words[0] == "cp":
                continue
            output = ran(words[1:], environment)
            tolerance = (
                INT8_DIGITS if words[1] in ("demo", "evaluate", "compare", "diagnose", "run") else DIGITS
            )
            assert alike(shown, output, tolerance), f"{where}: {' '.join(words)}\n{output}"
            run += 1
    assert run >= 50
    assert Path("reference.json").read_bytes() == Path("digits.json").read_bytes()


def test_every_session_runs() -> None:
    with_sessions = {page for page, text in PAGES.items() if "\n```console\n" in text}
    assert with_sessions <= set(session_pages())


def ran(arguments: list[str], environment: dict[str, str]) -> str:
    """Output and errors of one command; with an environment of its own it runs in a new process."""
    if not environment:
        return CliRunner().invoke(app, arguments).output
    command = [sys.executable, "-m", "calib8", *arguments]
    variables = {**os.environ, **environment}
    result = subprocess.run(command, env=variables, capture_output=True, encoding="utf-8", check=False)
    return result.stdout + result.stderr
