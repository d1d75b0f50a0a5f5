"""Commands that take a float ONNX model take a float tmfile; what they cannot take they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import calib8
from calib8.analysis.runtimes import open_in_runtime
from calib8.cli import app
from calib8.errors import ModelError, UsageError
from calib8.model.load import load_model
from calib8.model.save import save_model
from calib8.tmfile.write import write_tmfile
from tmfile_nets import CLASSES, classifier, coded


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tmfile, its ONNX twin, images, and both quantized with the same table."""
    place = tmp_path_factory.mktemp("tmfile")
    write_tmfile(classifier(), place / "net.tmfile")
    save_model(load_model(place / "net.tmfile"), place / "net.onnx")
    rng = np.random.default_rng(1)
    images = rng.normal(size=(24, 3, 8, 8)).astype(np.float32)
    np.savez(place / "images.npz", image=images, labels=np.arange(24) % CLASSES)
    data = ("--data", place / "images.npz")
    assert (
        run("calibrate", place / "net.tmfile", *data, "-o", place / "t.json", "--method", "minmax").exit_code
        == 0
    )
    for name in ("tmfile", "onnx"):
        made = run(
            "quantize", place / f"net.{name}", "--table", place / "t.json", "-o", place / f"{name}.int8.onnx"
        )
        assert made.exit_code == 0, made.output
    return place


def test_a_tmfile_is_quantized_as_its_onnx_twin_is(folder: Path) -> None:
    assert (folder / "tmfile.int8.onnx").read_bytes() == (folder / "onnx.int8.onnx").read_bytes()


def test_evaluate_compares_it_with_its_int8_model(folder: Path) -> None:
    paths = [folder / "net.tmfile", folder / "tmfile.int8.onnx"]
    found, twin = (
        calib8.evaluate([first, paths[1]], folder / "images.npz") for first in (paths[0], folder / "net.onnx")
    )
    assert [one.top1 for one in found] == [one.top1 for one in twin]
    assert found[1].sqnr_db == twin[1].sqnr_db


@pytest.mark.parametrize("command", ["compare", "diagnose"])
def test_layers_are_compared_with_those_of_the_tmfile(folder: Path, command: str) -> None:
    result = run(command, folder / "net.tmfile", folder / "tmfile.int8.onnx", "--data", folder / "images.npz")
    assert result.exit_code == 0, result.output
    assert "conv" in result.output


def test_other_runtimes_do_not_take_it(folder: Path) -> None:
    for runtime in ("litert-reference", "openvino"):
        with pytest.raises(UsageError, match="is a Tengine model"):
            open_in_runtime(folder / "net.tmfile", runtime)


def test_a_quantized_tmfile_is_told_from_a_float_one(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "int8.tmfile"
    write_tmfile(coded(classifier()), path)
    for act in (
        lambda: calib8.calibrate(path, folder / "images.npz"),
        lambda: calib8.diagnose(path, path, folder / "images.npz"),
    ):
        with pytest.raises(ModelError, match="is a quantized Tengine model") as caught:
            act()
        assert "int8.tmfile" in str(caught.value)
        assert "goes into evaluate" in str(caught.value)


@pytest.mark.parametrize("quantized", [False, True])
def test_no_tflite_file_is_made_of_it(folder: Path, tmp_path: Path, quantized: bool) -> None:
    model = tmp_path / "net.tmfile"
    write_tmfile(coded(classifier()) if quantized else classifier(), model)
    result = run("export", model, "--to", "tflite", "-o", tmp_path / "o.tflite")
    told = "Quantize the ONNX model that it was converted from, with --target tflite"
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())
    assert not (tmp_path / "o.tflite").exists()


def test_tune_writes_no_tmfile(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned.tmfile"
    with pytest.raises(UsageError, match="has no layers in float") as caught:
        calib8.tune(folder / "net.tmfile", folder / "images.npz", out, min_agreement=99.0)
    assert "Quantize with effort='best'" in str(caught.value)
    result = run("tune", folder / "net.tmfile", "--data", folder / "images.npz", "-o", out)
    assert result.exit_code == 2
    assert "Quantize with --effort best" in " ".join(result.stderr.split())
    assert "tuned.onnx" in result.stderr
    assert not any(tmp_path.iterdir())
