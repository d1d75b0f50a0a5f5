"""Pages to learn from: their blocks are run in order, as a reader runs them, in an empty folder."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from pages import ROOT, blocks
from shown import INT8_DIGITS, alike
from typer.testing import CliRunner

from calib8.cli import app

SETS_UP = ("pip install ", "python3 -m venv ")
"""Commands that a test leaves out: it runs where calib8 is installed."""


class Ran(NamedTuple):
    """A page that was run: how many commands, Python blocks and shown outputs it has."""

    commands: int
    examples: int
    shown: int


def commands(text: str) -> Iterator[list[str]]:
    """The words of every command of a shell block; a backslash at the end of a line continues it."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and not line.startswith(SETS_UP):
            yield words


def output_of(words: list[str], where: str) -> str:
    """What a command of calib8 prints; it must succeed."""
    assert words[0] == "calib8", f"{where}: '{words[0]}' is no command of calib8"
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, f"{where}: {' '.join(words)}\n{result.output}\n{result.exception!r}"
    return result.output


def run_page(page: str) -> Ran:
    """Runs the blocks ``sh`` and ``python`` of a page in the current folder.

    A block ``text`` must be part of what the block before it printed, but for digits that depend on the CPU;
    ``…`` stands for anything.
    """
    names: dict[str, Any] = {"__name__": "lesson"}
    printed, ran, examples, shown = "", 0, 0, 0
    for block in blocks((ROOT / page).read_text(encoding="utf-8")):
        where = f"{page}:{block.line}"
        if block.language == "sh":
            outputs = [output_of(words, where) for words in commands(block.text)]
            printed, ran = "".join(outputs), ran + len(outputs)
        elif block.language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(block.text, where, "exec"), names)
            printed, examples = output.getvalue(), examples + 1
        elif block.language == "text":
            assert alike(f"…\n{block.text}…", f"\n{printed}", INT8_DIGITS), f"{where}: printed was\n{printed}"
            shown += 1
    return Ran(ran, examples, shown)


def run_notebook(notebook: str) -> int:
    """Runs the cells of code of a notebook in the current folder; stored outputs must be what is printed.

    Returns: how many cells have a stored output.
    """
    names: dict[str, Any] = {"__name__": "lesson"}
    stored = 0
    for index, cell in enumerate(json.loads((ROOT / notebook).read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] != "code":
            continue
        where = f"{notebook}, cell {index}"
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile("".join(cell["source"]), where, "exec"), names)
        for shown in cell["outputs"]:
            assert alike("".join(shown["text"]), output.getvalue(), INT8_DIGITS), (
                f"{where}: {output.getvalue()}"
            )
            stored += 1
    return stored
