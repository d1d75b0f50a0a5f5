"""One scale per weight, asked for by name: it destroys a depthwise network, and repairs bring it back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from json_output import load
from onnx import numpy_helper
from tiny_models import save

from mobile_nets import images, mobile_net


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """The network, images to calibrate with, and others."""
    folder = tmp_path_factory.mktemp("mobile")
    paths = folder / "calibration.npz", folder / "others.npz"
    for path, count, seed in zip(paths, (64, 200), (7, 9), strict=True):
        np.savez(path, x=images(count, seed)[0])
    return save(mobile_net(), folder / "mobile.onnx"), *paths


def agreement(cli, files: tuple[Path, Path, Path], out: Path, *options: str) -> float:
    """Share of the other images of which the int8 model says what the float one does."""
    model, data, others = files
    made = cli("quantize", model, "--data", data, "--method", "mse", *options, "-o", out / "int8.onnx")
    assert made.exit_code == 0, made.output
    seen = cli("evaluate", model, out / "int8.onnx", "--data", others, "--json", out / "seen.json")
    assert seen.exit_code == 0, seen.output
    found: float = load(out / "seen.json")["models"][1]["agreement"]
    return found


def weight_scales(path: Path) -> list[int]:
    """How many scales every weight has."""
    graph = onnx.load(path).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    coded = (node for node in graph.node if node.op_type == "DequantizeLinear" and node.input[0] in arrays)
    return [arrays[node.input[1]].size for node in coded if arrays[node.input[0]].dtype == np.int8]


def test_naively_quantized_it_says_nothing(cli, files: tuple[Path, Path, Path], out: Path) -> None:
    assert agreement(cli, files, out, "--weights", "per-tensor", "--repair", "none") < 0.3
    assert set(weight_scales(out / "int8.onnx")) == {1}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("repairs", [("--repair", "cle,bias"), ("--effort", "fast")])
def test_equalized_and_its_biases_corrected_it_says_what_it_said(
    cli, files: tuple[Path, Path, Path], out: Path, repairs: tuple[str, str]
) -> None:
    assert agreement(cli, files, out, "--weights", "per-tensor", *repairs) >= 0.95
    scales = weight_scales(out / "int8.onnx")
    assert len(scales) == 12 and set(scales) == {1}


def test_the_granularity_is_stored(cli, files: tuple[Path, Path, Path], out: Path) -> None:
    model, data, _ = files
    common = (
        "quantize",
        model,
        "--data",
        data,
        "--method",
        "minmax",
        "--repair",
        "none",
        "-o",
        out / "x.onnx",
    )
    for options, wanted in (((), "per-channel"), (("--weights", "per-tensor"), "per-tensor")):
        assert cli(*common, *options, "--json", out / "made.json").exit_code == 0
        assert load(out / "made.json")["metadata"]["weights"] == wanted
        assert (set(weight_scales(out / "x.onnx")) == {1}) == (wanted == "per-tensor")


def test_another_granularity_is_refused(cli, refused, files: tuple[Path, Path, Path], out: Path) -> None:
    model, data, _ = files
    result = cli("quantize", model, "--data", data, "--weights", "per-layer", "-o", out / "x.onnx")
    refused(result, 2, "--weights per-layer: unknown granularity", "per-channel, per-tensor")
    assert not list(out.iterdir())
