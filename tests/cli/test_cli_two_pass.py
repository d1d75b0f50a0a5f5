"""Methods that read the data twice, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from json_output import load
from tiny_models import FLAGS

from calib8.calibration.ranges.two_pass import TWO_PASS_METHODS


@pytest.mark.parametrize("method", TWO_PASS_METHODS)
def test_calibrate(cli, model: Path, images: Path, out: Path, method: str) -> None:
    result = cli("calibrate", model, "--data", images, *FLAGS, "--method", method, "-o", out / "t.json")
    assert result.exit_code == 0, result.output
    assert "6 samples calibrated" in result.stdout
    assert {entry["method"] for entry in load(out / "t.json")["tensors"].values()} == {method}


def test_quantize(cli, model: Path, images: Path, out: Path) -> None:
    command = ("quantize", model, "--data", images, *FLAGS, "--method", "entropy-ncnn", "--target", "ncnn")
    result = cli(*command, "-o", out / "q.onnx")
    assert result.exit_code == 0, result.output
    assert (out / "q.onnx").exists()


def test_a_percent_does_not_fit(cli, model: Path, images: Path, out: Path) -> None:
    command = ("calibrate", model, "--data", images, *FLAGS, "--method", "entropy-mxnet", "--percent", "99")
    result = cli(*command, "-o", out / "t.json")
    assert result.exit_code == 2
    assert "method 'entropy-mxnet' takes no percent" in result.stderr
    assert not list(out.iterdir())
