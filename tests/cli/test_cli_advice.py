"""``calib8 diagnose`` end to end: the cause comes first, and the command that it prints cures the model.

The printed line is taken as it stands, read as a shell reads it, and run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from json_output import load
from onnx import numpy_helper

from broken_nets import dead_norm, detector, normalized, one_loud_channel, samples, uneven_factors
from calib8.model.metadata import read_metadata
from small_models import run

NAMES: dict[str, Callable[[str], str]] = {
    "as exported": lambda name: name,
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


@pytest.mark.one_in(2)
@pytest.mark.parametrize("names", ["none", "for a shell to trip over"])
@pytest.mark.parametrize(
    ("build", "tensor", "cause"),
    [
        (one_loud_channel, "second_relu_out", "scale"),
        (detector, "detections_out", "branches"),
        (dead_norm, "relu1_out", "batch normalization"),
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
    target = "openvino" if build is detector else "onnxruntime"  # others leave a last Concat without codes
    plainly = cli(
        "quantize", model, "--data", data, "--method", "mse", "--repair", "none", "--target", target,
        "-o", out / "plain.onnx",
    )  # fmt: skip
    assert plainly.exit_code == 0, plainly.output
    models = (model, out / "plain.onnx") if build is detector else (model,)
    result = cli("diagnose", *models, "--data", data, "--threads", 1, "--json", out / "d.json")
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
    before, after = (outputs_db(model, out / name) for name in ("plain.onnx", "a net.repaired.onnx"))
    assert after > before + 4.0 and after > 20.0


def test_other_data_than_those_of_the_training_come_first(cli, tmp_path: Path, out: Path) -> None:
    model = broken(normalized, "none", tmp_path / "net.onnx")
    right, wrong = save_data(tmp_path / "right.npz"), save_data(tmp_path / "wrong.npz", mean=3.0)
    told = cli("diagnose", model, "--data", wrong, "--threads", 1, "--json", out / "wrong.json")
    first, *others = load(out / "wrong.json")["findings"]
    assert first["cause"] == "statistics" and "first BatchNormalization ('" in first["text"]
    assert "put that right first: no remedy was tried" in told.stdout
    assert "codes" not in [one["cause"] for one in others]
    assert cli("diagnose", model, "--data", right, "--threads", 1, "--json", out / "r.json").exit_code == 0
    assert "statistics" not in [one["cause"] for one in load(out / "r.json")["findings"]]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "flags",
    [
        ("--target", "openvino", "--activations", "int8-symmetric", "--method", "minmax"),
        ("--target", "tensorrt", "--method", "mse", "--power-of-two", "--keep-float", "first"),
        ("--method", "percentile", "--percent", "99.5", "--range", "x=-4.0,4.5"),
        ("--target", "calib8", "--spot", "x"),
    ],
    ids=str,
)
def test_the_command_keeps_what_the_user_asked_for(
    cli, flags: tuple[str, ...], tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = (
        broken(one_loud_channel, "as exported", tmp_path / "net.onnx"),
        save_data(tmp_path / "data.npz"),
    )
    base = ("--data", data, "--threads", 1, "--samples", 12)
    made = cli("quantize", model, *base, *flags, "--repair", "none", "-o", out / "int8.onnx")
    assert made.exit_code == 0, made.output
    result = cli("diagnose", model, out / "int8.onnx", *base, "--skip-bad", "--json", out / "d.json")
    assert result.exit_code == 0, result.output
    words = shlex.split(printed_command(result.stdout))
    assert set(map(str, (*base, *flags, "--skip-bad"))) <= set(words)
    monkeypatch.chdir(out)
    assert cli(*words[1:]).exit_code == 0
    before, after = (read_metadata(out / name) for name in ("int8.onnx", "net.repaired.onnx"))
    for key in ("target", "activations", "method", "power_of_two", "ranges", "spots"):
        assert after.get(key) == before.get(key)
    assert set(json.loads(before["keep_float"])) <= set(json.loads(after["keep_float"]))
    gain = load(out / "d.json")["remedies"][0]["gain_db"]
    again = cli("diagnose", model, "net.repaired.onnx", *base, "--json", "again.json")
    assert again.exit_code == 0, again.output
    better = load(out / "again.json")["sqnr_db"] - load(out / "d.json")["sqnr_db"]
    assert better == pytest.approx(gain, abs=0.1) and gain >= 1.0


@pytest.mark.slow
def test_a_real_network_without_names_of_nodes(
    cli, shared_data: Path, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = onnx.load(shared_data / "models" / "resnet8_cifar10_mlperftiny.onnx")
    for name, factor in {"conv_2d_1_W": 1000.0, "conv_2d_1_b": 1000.0, "conv_2d_2_W": 1e-3}.items():
        [tensor] = [one for one in proto.graph.initializer if one.name == name]
        array = numpy_helper.to_array(tensor).copy()
        array[(slice(None), 5) if factor < 1.0 else 5] *= np.float32(factor)
        tensor.CopyFrom(numpy_helper.from_array(array, name))
    for node in proto.graph.node:
        node.name = ""
    onnx.save(proto, tmp_path / "loud.onnx")
    with np.load(shared_data / "cifar10" / "train1024.npz") as pixels:
        np.savez(tmp_path / "pixels.npz", images=pixels["images"][:64])
    result = cli(
        "diagnose",
        tmp_path / "loud.onnx",
        "--data",
        tmp_path / "pixels.npz",
        "--mean",
        0,
        "--json",
        out / "d",
    )
    assert result.exit_code == 0, result.output
    first = load(out / "d")["findings"][0]
    assert (first["node"], first["tensor"], first["cause"]) == ("conv_2d_1", "conv_2d_1_relu", "scale")
    assert "channel 5 reaches" in first["text"] and first["keep_float"] == ["conv_2d_1", "conv_2d_2"]
    monkeypatch.chdir(out)
    assert cli(*shlex.split(printed_command(result.stdout))[1:]).exit_code == 0
    floats = [part for name in first["keep_float"] for part in ("--keep-float", name)]
    plain = (
        "quantize",
        tmp_path / "loud.onnx",
        "--data",
        tmp_path / "pixels.npz",
        "--mean",
        0,
        "--method",
        "mse",
        "--repair",
        "none",
    )
    assert cli(*plain, "-o", "plain.onnx").exit_code == 0
    assert cli(*plain, *floats, "-o", "floats.onnx").exit_code == 0
    models = (tmp_path / "loud.onnx", "plain.onnx", "floats.onnx", "loud.repaired.onnx")
    assert cli("evaluate", *models, "--data", tmp_path / "pixels.npz", "--json", "e.json").exit_code == 0
    broken_db, floats_db, cured_db = (one["sqnr_db"] for one in load(Path("e.json"))["models"][1:])
    assert min(floats_db, cured_db) > max(broken_db + 6.0, 20.0)
