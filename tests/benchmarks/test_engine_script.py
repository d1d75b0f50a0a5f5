"""``benchmarks/engine.py``: every runtime runs the file, and a page is made of what was measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import engine
import parts
import rounding
from calib8.analysis import benchmark
from engine import ALSO, joined
from quantized import quantized


def test_every_runtime_on_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "VISIT_SECONDS", 0.0)
    quantized("squeezenet1_1", tmp_path, 64).rename(tmp_path / "squeezenet1_1.int8.onnx")
    speed = tmp_path / "speed.json"
    flags = ["--networks", "squeezenet1_1", "--rounds", "1", "--threads", "1", "--json", str(speed)]
    monkeypatch.setattr(sys, "argv", ["engine.py", str(tmp_path), *flags, "--page", str(tmp_path / "a.md")])
    engine.main()
    found = json.loads(speed.read_text())["results"]
    assert [entry["runtime"] for entry in found] == ["calib8", "onnxruntime", "openvino"]
    assert all(entry["model"] == "squeezenet1_1" and entry["min_ms"] > 0 for entry in found)
    row = capsys.readouterr().out.splitlines()[2]
    assert row.startswith("| squeezenet1_1 | 0.35 | 1 | ")
    monkeypatch.setattr(sys, "argv", ["engine.py", "--from", str(speed), "--page", str(tmp_path / "b.md")])
    engine.main()
    assert row in capsys.readouterr().out
    assert (tmp_path / "a.md").read_text() == (tmp_path / "b.md").read_text()
    assert len(joined([speed, speed])["results"]) == 6
    for key, value in (("processor", "another"), ("peak_gmacs", {"1": 1e9}), ("instruction sets", ["sse9"])):
        other = json.loads(speed.read_text())
        other["machine"][key] = value
        (tmp_path / "other.json").write_text(json.dumps(other))
        with pytest.raises(SystemExit, match=r"speed\.json and .*other\.json are of different machines"):
            joined([speed, tmp_path / "other.json"])


@pytest.mark.slow
def test_what_else_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "VISIT_SECONDS", 0.0)
    monkeypatch.setattr(rounding, "NETWORKS", ("squeezenet1_1",))
    monkeypatch.setattr(parts, "NETWORKS", ("squeezenet1_1",))
    monkeypatch.setattr(parts, "RUNS", 1)
    quantized("squeezenet1_1", tmp_path, 64).rename(tmp_path / "squeezenet1_1.int8.onnx")
    [cost] = ALSO["rounding"](tmp_path, [1], 1)
    assert cost["model"] == "squeezenet1_1"
    assert all(cost[profile]["min_ms"] > 0 for profile in ("onnx", "tflite", "single"))
    [found] = ALSO["parts"](tmp_path, [1], 1)
    assert sum(part["macs"] > 0 for part in found["parts"]) == 26


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["folder", "--networks", "lenet"],
        ["folder", "--from", "speed.json"],
        ["folder", "--also", "weather"],
        ["folder", "--runtimes", "calib8,abacus"],
        ["folder", "--threads", "one"],
    ],
)
def test_what_is_refused(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["engine.py", *flags])
    with pytest.raises(SystemExit) as ended:
        engine.main()
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err
