"""``quantize --spot TENSOR``: which tensors have 16-bit codes is told, stored, and refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from tiny_models import FLAGS, cnn, save

import calib8
from calib8.model.metadata import read_metadata
from calib8.tflite.read import read_tflite


def wide_tensors(path: Path) -> set[str]:
    """Tensors behind whose QuantizeLinear there are int16 codes."""
    proto = onnx.load(path)
    points = {tensor.name for tensor in proto.graph.initializer if tensor.data_type == onnx.TensorProto.INT16}
    return {
        node.input[0] for node in proto.graph.node
        if node.op_type == "QuantizeLinear" and node.input[2] in points
    }  # fmt: skip


def test_a_spot_is_told_stored_and_loaded(cli, model: Path, images: Path, out: Path) -> None:
    files = ("--data", images, *FLAGS, "-o", out / "q.onnx", "--json", out / "r.json")
    result = cli("quantize", model, *files, "--target", "calib8", "--spot", "features", "--spot", "image")
    assert result.exit_code == 0, result.output
    assert "note: 16-bit codes: features, image" in " ".join(result.stdout.split())
    assert json.loads(read_metadata(out / "q.onnx")["spots"]) == ["features", "image"]
    assert wide_tensors(out / "q.onnx") == {"features", "image"}
    onnxruntime.InferenceSession(out / "q.onnx", providers=["CPUExecutionProvider"])
    checked = cli("inspect", out / "q.onnx", "--target", "calib8", "--program")
    assert checked.exit_code == 0, checked.output
    assert "int16" in checked.stdout


def test_a_table_serves_as_well(cli, model: Path, images: Path, out: Path) -> None:
    assert cli("calibrate", model, "--data", images, *FLAGS, "-o", out / "t.json").exit_code == 0
    files = ("--table", out / "t.json", "--target", "calib8", "-o", out / "q.onnx")
    assert cli("quantize", model, *files).exit_code == 0
    assert wide_tensors(out / "q.onnx") == set() and "spots" not in read_metadata(out / "q.onnx")
    assert cli("quantize", model, *files, "--spot", "features").exit_code == 0
    assert wide_tensors(out / "q.onnx") == {"features"}


def test_a_spot_in_a_tflite_file(cli, model: Path, images: Path, out: Path) -> None:
    """Named ones alone: no effort makes any for this target."""
    files = ("--data", images, *FLAGS, "--target", "tflite", "-o", out / "q.tflite")
    assert cli("quantize", model, *files).exit_code == 0
    assert not wide_in_file(out / "q.tflite")
    result = cli("quantize", model, *files, "--spot", "features")
    assert result.exit_code == 0, result.output
    assert "features" in wide_in_file(out / "q.tflite")
    checked = cli("inspect", out / "q.tflite", "--target", "tflite")
    assert checked.exit_code == 0 and "0 violations" in checked.stdout, checked.output


def wide_in_file(path: Path) -> set[str]:
    return {tensor.name for tensor in read_tflite(path).tensors if tensor.dtype == "int16"}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ("--spot", "features"),
            "--spot features: the target 'onnxruntime' has 8-bit codes alone. Use --target calib8 or tflite",
        ),
        (
            ("--target", "calib8", "--spot", "feature"),
            "--spot feature: no tensor of this name has codes. Name a tensor",
        ),
    ],
)
def test_refusals(cli, model: Path, images: Path, out: Path, flags: tuple[str, ...], words: str) -> None:
    result = cli("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx", *flags)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
    assert not (out / "q.onnx").exists()


@pytest.mark.parametrize("effort", ["fast", "best"])
def test_repairs_keep_the_spots(effort: str, tmp_path: Path) -> None:
    save(cnn(), tmp_path / "net.onnx")
    rng = np.random.default_rng(0)
    data = rng.normal(0, 1, (24, *_shape(tmp_path / "net.onnx"))).astype(np.float32)
    made = calib8.quantize(tmp_path / "net.onnx", data, target="calib8", effort=effort, spots=["features"])
    assert made.spots == {"features"}
    program = made.lower()
    assert program.float_reasons == {} and any(slot.is_wide for slot in program.slots)


def _shape(path: Path) -> tuple[int, ...]:
    dims = onnx.load(path).graph.input[0].type.tensor_type.shape.dim[1:]
    return tuple(dim.dim_value for dim in dims)
