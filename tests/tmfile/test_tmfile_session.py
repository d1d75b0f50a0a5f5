"""Int8 tmfiles in InferenceSession, evaluate, compile and run: profile tengine, codes in and out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import calib8
from calib8 import InferenceSession
from calib8.analysis.runtimes import is_float_model, open_in_runtime
from calib8.cli import app
from calib8.errors import ModelError, UnsupportedModelError, UsageError
from calib8.exporting.tmfile.codes import in_codes
from calib8.program.file import load_program
from calib8.tmfile.graph import Graph
from calib8.tmfile.write import serialize, write_tmfile
from coded_nets import one, with_tensor
from tmfile_nets import CLASSES, classifier

SCALES = {"image": 0.025, "conv": 0.09, "pooled": 0.03, "scores": 0.06}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def int8() -> Graph:
    return in_codes(classifier(), SCALES).graph


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("int8")
    write_tmfile(classifier(), place / "net.tmfile")
    write_tmfile(int8(), place / "int8.tmfile")
    rng = np.random.default_rng(1)
    images = rng.normal(size=(24, 3, 8, 8)).astype(np.float32)
    np.savez(place / "images.npz", image=images, labels=np.arange(24) % CLASSES)
    return place


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (1, 3, 8, 8)).astype(np.int8)


def test_codes_go_in_and_come_out(folder: Path) -> None:
    native, reference = (
        InferenceSession(folder / "int8.tmfile", runtime=name) for name in ("calib8", "reference")
    )
    assert native.rounding == reference.rounding == "tengine"
    assert [(spec.name, spec.dtype.name, spec.shape) for spec in native.inputs] == [
        ("image", "int8", (1, 3, 8, 8))
    ]
    assert [(spec.name, spec.dtype.name, spec.shape) for spec in native.outputs] == [
        ("scores", "int8", (1, CLASSES))
    ]
    for seed in range(3):
        feeds = {"image": image(seed)}
        found, wanted = native.run(None, feeds)[0], reference.run(None, feeds)[0]
        np.testing.assert_array_equal(found, wanted)
        assert np.unique(found).size > 1


def test_bytes_and_a_saved_program_give_the_same(folder: Path, tmp_path: Path) -> None:
    session = InferenceSession(folder / "int8.tmfile")
    wanted = session.run(None, {"image": image()})[0]
    of_bytes = InferenceSession(serialize(int8()), profile="tengine")
    np.testing.assert_array_equal(of_bytes.run(None, {"image": image()})[0], wanted)
    path = tmp_path / "net.c8p"
    result = run("export", folder / "int8.tmfile", "--to", "program", "-o", path)
    assert result.exit_code == 0, result.output
    assert load_program(path).profile == "tengine"
    np.testing.assert_array_equal(InferenceSession(path).run(None, {"image": image()})[0], wanted)


def test_a_plan_keeps_the_profile(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.c8"
    result = run("compile", folder / "int8.tmfile", "-o", path)
    assert result.exit_code == 0, result.output
    plan = InferenceSession(path)
    assert plan.rounding == "tengine"
    wanted = InferenceSession(folder / "int8.tmfile").run(None, {"image": image()})[0]
    np.testing.assert_array_equal(plan.run(None, {"image": image()})[0], wanted)


def test_evaluate_gives_real_numbers_and_takes_the_engine(folder: Path) -> None:
    float_, coded = calib8.evaluate([folder / "net.tmfile", folder / "int8.tmfile"], folder / "images.npz")
    assert coded.runtime == "calib8/tengine" and float_.runtime == "onnxruntime"
    assert coded.sqnr_db is not None and coded.sqnr_db > 20
    reference = calib8.evaluate(
        [folder / "net.tmfile", folder / "int8.tmfile"], folder / "images.npz", runtime="reference"
    )
    assert reference[1].sqnr_db == coded.sqnr_db
    assert not is_float_model(folder / "int8.tmfile")


def test_commands_take_it(folder: Path) -> None:
    data = ("--data", folder / "images.npz")
    for arguments in (
        ("evaluate", folder / "net.tmfile", folder / "int8.tmfile", *data),
        ("run", folder / "int8.tmfile", *data),
        ("inspect", folder / "int8.tmfile"),
    ):
        result = run(*arguments)
        assert result.exit_code == 0, result.output


def test_other_profiles_runtimes_and_outputs_are_refused(folder: Path) -> None:
    path = folder / "int8.tmfile"
    for profile in ("onnx", "single"):
        with pytest.raises(UsageError, match="which rounds as the profile 'tengine' does"):
            InferenceSession(path, profile=profile)
    with pytest.raises(UsageError, match="unknown rounding profile"):
        InferenceSession(path, profile="exact")
    with pytest.raises(UnsupportedModelError, match="not integer only"):
        InferenceSession(path, integer_only=True)
    with pytest.raises(UsageError, match="outputs"):
        InferenceSession(path, outputs=["conv"])
    with pytest.raises(UsageError, match="is a quantized Tengine model"):
        open_in_runtime(path, "onnxruntime")
    with pytest.raises(UsageError, match="is a Tengine model"):
        open_in_runtime(path, "openvino")
    with pytest.raises(UnsupportedModelError, match="no codes"):
        InferenceSession(folder / "net.tmfile")


def test_an_onnx_model_is_not_lowered_as_tengine_computes(folder: Path, tmp_path: Path) -> None:
    table, made = tmp_path / "t.json", tmp_path / "int8.onnx"
    data = ("--data", folder / "images.npz")
    assert run("calibrate", folder / "net.tmfile", *data, "-o", table).exit_code == 0
    assert run("quantize", folder / "net.tmfile", "--table", table, "-o", made).exit_code == 0
    with pytest.raises(UsageError, match=r"profile 'tengine': .* int8 \.tmfile"):
        InferenceSession(made, profile="tengine")


def test_a_damaged_file_and_lost_scales_are_told(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "lost.tmfile"
    whole = int8()
    pooled = next(tensor for tensor in whole.tensors if tensor.name == "pooled")
    assert pooled.quantization is not None
    lost = type(pooled.quantization)(np.zeros(1, np.float32), np.zeros(1, np.int32))
    write_tmfile(with_tensor(whole, "pooled", quantization=lost), path)
    result = run("run", path, "--data", folder / "images.npz")
    assert result.exit_code != 0 and "the scale 0: 'pooled'" in result.output
    assert "Traceback" not in result.output
    path.write_bytes(serialize(whole)[:-100])
    with pytest.raises(ModelError, match=r"lost\.tmfile"):
        InferenceSession(path)


def test_an_output_that_is_an_input_is_copied() -> None:
    session = InferenceSession(serialize(one("Dropout", (1, 2, 3, 4), None, 0.5)))
    codes = image()[:, :2, :3, :4]
    np.testing.assert_array_equal(session.run(None, {"x": codes})[0], codes)
