"""scripts/check-full: its parts are those that CONTRIBUTING.md lists, and a part that shows nothing fails."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = """#!/bin/sh
case "$1 $2" in
"tests/processors.py ") echo "$PROCESSORS" ;;
"-m pytest") echo "$SUMMARY" ;;
esac
"""
"""Stands in for Python: which other processors there are, and what pytest says at its end."""


def check_full(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", ROOT / "scripts" / "check-full", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **environment},
    )


def check_processors(
    folder: Path, summary: str, processors: str = "nehalem sse4_2 popcnt"
) -> subprocess.CompletedProcess[str]:
    stand_in = folder / "python"
    stand_in.write_text(PYTHON)
    stand_in.chmod(0o755)
    for tool in ("g++", "cmake"):  # asked for, not used
        (folder / tool).symlink_to("/bin/true")
    path = f"{folder}:{os.environ['PATH']}"
    return check_full("processors", PATH=path, SUMMARY=summary, PROCESSORS=processors)


def test_the_parts_are_those_of_the_table() -> None:
    table = re.search(r"\n\| part \|.*\n\|-.*\n((?:\|.*\n)+)", (ROOT / "CONTRIBUTING.md").read_text())
    assert table is not None
    listed = [name for row in table[1].splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert check_full("--list").stdout.split() == listed


def test_an_unknown_part_is_refused() -> None:
    found = check_full("symbols", "simbols")
    assert found.returncode == 2
    assert "no part simbols: its parts are tests symbols" in found.stderr


def test_a_part_passes_where_tests_pass(tmp_path: Path) -> None:
    found = check_processors(tmp_path, "1410 passed, 3 skipped in 60.12s (0:01:00)")
    assert found.returncode == 0, found.stdout + found.stderr
    assert re.search(r"check-full passed in \d+ minutes:\n +\d+ s  tests as on nehalem\n", found.stdout)


@pytest.mark.parametrize("summary", ["12 skipped in 0.50s", "10 deselected in 0.50s", ""])
def test_a_part_fails_where_no_test_passed(tmp_path: Path, summary: str) -> None:
    found = check_processors(tmp_path, summary)
    assert found.returncode == 1
    assert "no test ran" in found.stdout and "FAILED in: tests as on nehalem" in found.stdout


def test_a_run_of_nothing_fails(tmp_path: Path) -> None:
    found = check_processors(tmp_path, "1410 passed in 60.12s", processors="")
    assert found.returncode == 1
    assert "nothing ran: tests as on other processors" in found.stdout
