"""The method auto on the command line: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

from tiny_models import FLAGS

from calib8.table import CalibrationTable


def test_auto_tells_what_won(cli, model: Path, images: Path, tmp_path: Path) -> None:
    table, report = tmp_path / "t.json", tmp_path / "r.json"
    files = ("--data", images, "-o", table, "--json", report)
    result = cli("calibrate", model, *files, *FLAGS, "--method", "auto")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert any(line.startswith("best ranges: ") and " dB" in line for line in lines)
    document = json.loads(report.read_text())["calibration"]
    found = document["auto"]
    entries = CalibrationTable.load(table).entries
    wins = next(line for line in lines if line.startswith("tensors by method: "))
    for method, count in found["wins"].items():
        assert f"{method} {count}" in wins
        assert sum(entry.method == f"auto: {method}" for entry in entries.values()) == count
    assert found["chosen"] in {check["name"] for check in found["checks"]}
    assert (document["samples"], document["tensors"]) == (6, len(entries))
    assert "6 samples calibrated" in result.stdout


def test_auto_takes_no_percent(cli, model: Path, images: Path, tmp_path: Path) -> None:
    files = ("--data", images, "-o", tmp_path / "t.json")
    result = cli("calibrate", model, *files, *FLAGS, "--method", "auto", "--percent", "99")
    assert result.exit_code == 2
    assert "method 'auto' takes no percent" in result.stderr
    assert not (tmp_path / "t.json").exists()
