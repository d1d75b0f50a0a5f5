"""A search that is killed goes on where it was, and ends with the same model, byte for byte."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tuned_nets import deep_net, inputs

POINTS = (1, 4, 7)
"""Trials that are stored when a run is killed."""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and its data."""
    folder = tmp_path_factory.mktemp("given")
    onnx.save(deep_net(), folder / "net.onnx")
    np.savez(folder / "data.npz", x=np.clip(inputs(300), -1.0, 1.0))
    return folder


CALLS = 3000
"""After the last of them, some of the next trial's."""

KILL = f"""
import sys
from pathlib import Path
tests, path, times, *sys.argv[1:] = sys.argv[1:]
sys.path.insert(0, tests)
from killed import kill_later
from calib8.cli import main
if int(times):
    kill_later(Path(path), int(times), {CALLS})
main()
"""


def status_of(given: Path, out: Path, more: int = 0) -> int:
    """Exit status of a run; killed after so many ``more`` trials are stored, 0: never."""
    arguments = [
        "tune", given / "net.onnx", "--data", given / "data.npz", "--min-sqnr", "34", "--effort", "fast",
        "--threads", "1", "--quiet", "-o", out,
    ]  # fmt: skip
    words = map(str, (Path(__file__).parents[1], _stored(out), more, *arguments))
    return subprocess.run([sys.executable, "-c", KILL, *words], capture_output=True, check=False).returncode


def _stored(out: Path) -> Path:
    return out.with_name(out.name + ".tune") / "trials.jsonl"


def lines(out: Path) -> list[str]:
    """One per trial that is stored, with the time that it took."""
    path = _stored(out)
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def trials(out: Path) -> list[dict[str, Any]]:
    """All trials, without the time that they took."""
    return [{**json.loads(line), "seconds": None} for line in lines(out)]


def test_kills_on_the_way_leave_no_trace(given: Path, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole.onnx", tmp_path / "killed.onnx"
    assert status_of(given, whole) == 0
    everything = trials(whole)
    assert len(everything) > POINTS[-1] + 4 and everything[-1]["settings"]["floats"]
    for stored in POINTS:
        before = lines(out)
        assert status_of(given, out, stored - len(before)) == -signal.SIGKILL
        assert stored <= len(lines(out)) < len(everything)
        assert lines(out)[: len(before)] == before, "what was stored is not done again"
        _whole_or_not_there(out)
    before = lines(out)
    assert status_of(given, out) == 0
    assert lines(out)[: len(before)] == before
    assert out.read_bytes() == whole.read_bytes()
    assert trials(out) == everything
    hidden = {path.name for path in tmp_path.rglob("*") if path.name.startswith(".")}
    assert not hidden, "what killed runs left half written is gone"


def _whole_or_not_there(out: Path) -> None:
    """Files that a killed process leaves can be read."""
    for path in (out, out.with_name(out.name + ".tune") / "closest.onnx"):
        if path.exists():
            onnx.checker.check_model(onnx.load(path))
    assert all("figures" in trial for trial in trials(out))
