"""``calib8 diagnose`` end to end: the cause comes first, and the command that it prints cures the model.

The printed line is taken as it stands, read as a shell reads it, and run.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from json_output import load

from broken_nets import dead_norm, detector, one_loud_channel, samples, uneven_factors
from small_models import run

NAMES: dict[str, Callable[[str], str]] = {
    "none": lambda name: "",
    "for a shell to trip over": lambda name: f'net/{name}:0 it\'s "$HOME" [1]*',
}


def broken(build: Callable[[], onnx.ModelProto], names: str, path: Path) -> Path:
    proto = build()
    for node in proto.graph.node:
        node.name = NAMES[names](node.name)
    onnx.save(proto, path)
    return path


def save_data(path: Path, mean: float = 0.0) -> Path:
    np.savez(path, x=np.concatenate([feeds["x"] for feeds in samples(mean=mean)]))
    return path


def printed_command(text: str) -> str:
    lines = text.splitlines()
    return lines[lines.index("do the first:") + 1].strip()


def outputs_db(fp32: Path, int8: Path) -> float:
    """Mean of the SQNR of the outputs' channels, so that large ones do not hide small ones."""
    noise, signal = list[np.ndarray](), list[np.ndarray]()
    for feeds in samples(40)[24:]:
        left, right = (run(onnx.load(path), feeds)[0].astype(np.float64) for path in (fp32, int8))
        axes = tuple(axis for axis in range(left.ndim) if axis != 1)
        signal.append(np.sum(left**2, axes))
        noise.append(np.sum((left - right) ** 2, axes))
    return float(np.mean(10.0 * np.log10(sum(signal) / np.maximum(sum(noise), 1e-30))))


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize(
    ("build", "tensor", "cause"),
    [
        (one_loud_channel, "second_relu_out", "scale"),
        (detector, "detections_out", "branches"),
        (dead_norm, "norm_relu_out", "batch normalization"),
        (uneven_factors, "strided_out", "branches"),
    ],
    ids=["loud channel", "detector", "dead normalization", "uneven factors"],
)
def test_the_cause_comes_first_and_the_command_cures(
    cli,
    build: Callable[[], onnx.ModelProto],
    tensor: str,
    cause: str,
    names: str,
    tmp_path: Path,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, data = broken(build, names, tmp_path / "a net.onnx"), save_data(tmp_path / "data.npz")
    result = cli("diagnose", model, "--data", data, "--threads", 1, "--json", out / "d.json")
    assert result.exit_code == 0, result.output
    first = load(out / "d.json")["findings"][0]
    assert first["cause"] == cause
    assert first["tensor"] == tensor
    [line] = [line for line in result.stdout.splitlines() if line.startswith("1. ")]
    assert first["text"] in line
    monkeypatch.chdir(out)
    words = shlex.split(printed_command(result.stdout))
    made = cli(*words[1:])
    assert words[0] == "calib8" and made.exit_code == 0, made.output
    plainly = cli(
        "quantize", model, "--data", data, "--method", "mse", "--repair", "none", "-o", "plain.onnx"
    )
    assert plainly.exit_code == 0, plainly.output
    before, after = (outputs_db(model, out / name) for name in ("plain.onnx", "a net.repaired.onnx"))
    assert after > before + 4.0 and after > 20.0
