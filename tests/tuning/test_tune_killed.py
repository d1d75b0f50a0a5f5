"""A search that is killed goes on where it was, and ends with the same model, byte for byte."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tuned_nets import inputs, one_coarse_layer

KILLS = 3


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and its data."""
    folder = tmp_path_factory.mktemp("given")
    onnx.save(one_coarse_layer(), folder / "net.onnx")
    np.savez(folder / "data.npz", x=inputs(64))
    return folder


def started(given: Path, out: Path) -> subprocess.Popen[bytes]:
    arguments = [
        "tune", given / "net.onnx", "--data", given / "data.npz", "--min-sqnr", "28", "--effort",
        "balanced", "--threads", "1", "--quiet", "-o", out,
    ]  # fmt: skip
    command = [sys.executable, "-m", "calib8", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def trials(out: Path) -> list[dict[str, Any]]:
    """All trials, without the time that they took."""
    text = (out.with_name(out.name + ".tune") / "trials.jsonl").read_text(encoding="utf-8")
    return [{**json.loads(line), "seconds": None} for line in text.splitlines()]


def test_kills_at_random_points_leave_no_trace(given: Path, tmp_path: Path) -> None:
    begin = time.monotonic()
    whole = started(given, tmp_path / "whole.onnx")
    assert whole.wait() == 0
    length = time.monotonic() - begin
    chance, out, kills = random.Random(7), tmp_path / "killed.onnx", 0
    points = [chance.uniform(0.45, 0.95) for _ in range(KILLS)]
    while kills < KILLS:
        process = started(given, out)
        try:
            process.wait(timeout=points[kills] * length)
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        else:  # it was faster this time: kill sooner
            points[kills] *= 0.7
        process.wait()
        _whole_or_not_there(out)
    last = started(given, out)
    assert last.wait() == 0
    assert out.read_bytes() == (tmp_path / "whole.onnx").read_bytes()
    assert trials(out) == trials(tmp_path / "whole.onnx")
    hidden = {path.name for path in tmp_path.rglob("*") if path.name.startswith(".")}
    assert not hidden, "what killed runs left half written is gone"


def _whole_or_not_there(out: Path) -> None:
    """Files that a killed process leaves can be read."""
    folder = out.with_name(out.name + ".tune")
    for path in (out, folder / "closest.onnx"):
        if path.exists():
            onnx.checker.check_model(onnx.load(path))
    if (folder / "trials.jsonl").exists():
        assert all("figures" in trial for trial in trials(out))
