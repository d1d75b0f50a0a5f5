"""Ctrl-C while the command line is still being imported: the word and exit code of any other time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from calib8.cli.commands import print_interrupted
from calib8.signals import INTERRUPTED

ENTRIES = {
    "python -m calib8": "import runpy; runpy.run_module('calib8', run_name='__main__', alter_sys=True)",
    "calib8": "from calib8.__main__ import main; main()",
}

STOPPED = """
import builtins, sys
real = builtins.__import__
def stopped(name, *rest, **more):
    if name.split(".")[0] == {module!r}:
        {raised}
    return real(name, *rest, **more)
builtins.__import__ = stopped
sys.argv = ["calib8", "--version"]
"""


def run(entry: str, module: str, raised: str) -> subprocess.CompletedProcess[str]:
    code = STOPPED.format(module=module, raised=raised) + ENTRIES[entry]
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(
    ("module", "raised"),
    [("typer", "raise KeyboardInterrupt"), ("rich", "raise KeyboardInterrupt"),
     ("typer", "raise ImportError('_core') from KeyboardInterrupt()")],
)  # fmt: skip
def test_ctrl_c_during_an_import(
    entry: str, module: str, raised: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = run(entry, module, raised)
    print_interrupted(KeyboardInterrupt())
    assert ended.stderr == capsys.readouterr().err
    assert ended.returncode == INTERRUPTED


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_package_that_is_not_there_is_told_as_ever(entry: str) -> None:
    ended = run(entry, "typer", "raise ModuleNotFoundError('no typer')")
    assert ended.returncode == 1 and "no typer" in ended.stderr and "interrupted" not in ended.stderr


def test_the_command_begins_there() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert 'calib8 = "calib8.__main__:main"' in text
