"""``calib8 diagnose`` says which tensor needs 16-bit codes, what that costs, and the command that does it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest

import calib8
from broken_nets import heavy_tail
from calib8.remedies import spot_wishes
from small_models import normal


def test_the_command_line_tells_it(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spot_wishes, "BUDGET", 0.6)  # of four layers each is much
    runs = [{"x": normal(1, 4, 8, 8, seed=seed)} for seed in range(24)]
    fp32, int8, data = tmp_path / "net.onnx", tmp_path / "net.int8.onnx", tmp_path / "data.npz"
    onnx.save(heavy_tail(), fp32)
    np.savez(data, x=np.concatenate([run["x"] for run in runs]))
    calib8.quantize(heavy_tail(), runs, target="calib8", method="minmax", repair=["none"], threads=1).save(
        int8
    )
    result = cli("diagnose", fp32, int8, "--data", data, "--json", tmp_path / "d.json", "--threads", "1")
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "d.json").read_text())
    first = document["remedies"][0]
    assert first["spots"] and first["wide_macs"] > 0.0 and first["keep_float"] == []
    assert "16-bit codes: +" in result.output and "of the MACs are done twice" in result.output
    words = shlex.split(first["command"])
    assert words[words.index("--spot") + 1] == first["spots"][0]
    assert cli(*words[1:-1], tmp_path / "repaired.onnx").exit_code == 0
