"""Pages of help: headings and their order, in a pipe and on a terminal, and the example at the end."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
from typer import main

from calib8.cli import app
from calib8.cli.headings import ORDER
from calib8.cli.help_pages import EXAMPLES

NEWCOMER = ("Data", "Preprocessing of images", "Ranges", "Repair", "Target", "Results")


def commands() -> dict[str, Any]:
    """Name → command, those of groups too."""
    found: dict[str, Any] = {}
    for name, command in main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found |= {name: command} if inner is None else {f"{name} {key}": one for key, one in inner.items()}
    return found


COMMANDS = commands()


def headings(text: str) -> list[str]:
    """Lines that are no indented text and end in a colon."""
    return [line[:-1] for line in text.splitlines() if re.fullmatch(r"\S.*:", line)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_stands_under_a_heading(cli, name: str) -> None:
    result = cli(*name.split(), "--help")
    assert result.exit_code == 0
    shown = headings(result.stdout)
    assert len(shown) == len(set(shown)) and shown[-1] == "Results"
    known = [heading for heading in shown if heading != "Arguments"]
    assert known == sorted(known, key=ORDER.index)
    if "Arguments" in shown:
        assert shown[0] == "Arguments"


def test_a_newcomer_finds_what_is_needed_in_this_order(cli) -> None:
    shown = headings(cli("quantize", "--help").stdout)
    places = [next(i for i, heading in enumerate(shown) if heading.startswith(word)) for word in NEWCOMER]
    assert places == sorted(places)


def test_every_example_can_be_typed() -> None:
    assert set(EXAMPLES) == set(COMMANDS)
    for name, example in EXAMPLES.items():
        program, *words = shlex.split(example)
        assert program == "calib8" and " ".join(words).startswith(name)
        command = COMMANDS[name]
        with command.make_context(name, words[len(name.split()) :]):
            pass  # every option exists, and all that are required are there


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_ends_with_its_example_in_one_line(cli, name: str) -> None:
    assert cli(*name.split(), "--help").stdout.endswith(f"\nExample: {EXAMPLES[name]}\n")


def test_a_terminal_shows_the_same_headings_in_boxes() -> None:
    watcher, terminal = pty.openpty()
    command = [sys.executable, "-m", "calib8", "quantize", "--help"]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.PIPE, env=env) as running:
        os.close(terminal)
        seen = b""
        while chunk := read_until_closed(watcher):
            seen += chunk
    assert running.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode())
    shown = [title for title in re.findall(r"─ (\S.*?) ─+", text) if title != "Arguments"]
    assert shown[0] == "Data" and shown[-1] == "Results"
    assert shown == sorted(shown, key=ORDER.index)
    assert f"Example: {EXAMPLES['quantize']}" in text


def read_until_closed(watcher: int) -> bytes:
    """What a pseudo terminal shows; nothing once it is closed, which Linux calls an error."""
    try:
        return os.read(watcher, 65536)
    except OSError:
        return b""
