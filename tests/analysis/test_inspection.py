"""``inspect`` takes every file that the command line takes, and tells what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calib8
from calib8.demo import CALIBRATION_PATH, MODEL_PATH
from calib8.errors import ModelError, UnsupportedModelError, UsageError

DIGITS = calib8.Preprocess(mean=(128.0,), scale=(1 / 128,), color="gray")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file of every kind in a folder."""
    folder = tmp_path_factory.mktemp("files")
    made = calib8.quantize(MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, method="minmax", effort="fast")
    made.save(folder / "int8.onnx")
    calib8.compile(folder / "int8.onnx", folder / "plan.c8")
    calib8.export(folder / "int8.onnx", folder / "int8.tflite", "tflite")
    calib8.export(folder / "int8.onnx", folder / "program.c8p", "program")
    return folder


def test_every_kind_of_file(files: Path) -> None:
    found = {
        name: calib8.inspect(files / name) for name in ("int8.onnx", "int8.tflite", "plan.c8", "program.c8p")
    }
    assert [one.kind for one in found.values()] == ["quantized", "tflite", "plan", "program"]
    flat = calib8.inspect(MODEL_PATH)
    assert flat.kind == "float" and flat.model is not None and flat.program is None
    model, tflite, plan, program = found.values()
    assert model.model is not None and tflite.tflite is not None and plan.plan is not None
    assert program.program is not None
    macs = flat.model.macs
    assert model.model.macs == tflite.tflite.macs == plan.plan.integer_macs == macs
    assert sum(plan.plan.steps.values()) == len(plan.plan.plan.rows)
    assert all(one.observation is None and one.violations == () for one in found.values())


def test_the_program_of_a_model(files: Path) -> None:
    found = calib8.inspect(files / "int8.onnx", program=True, profile="single")
    assert found.program is not None and found.program.profile == "single"
    cut = calib8.inspect(files / "int8.tflite", program=True)
    assert cut.program is not None and cut.tflite is not None
    before = cut.program.slots[cut.program.instructions[-2].outputs[0]].name
    short = calib8.inspect(files / "int8.tflite", program=True, until=[before])
    assert short.program is not None
    assert len(short.program.instructions) < len(cut.program.instructions)


def test_rules_that_a_model_breaks(files: Path) -> None:
    assert calib8.inspect(files / "int8.onnx", target="onnxruntime").violations == ()
    broken = calib8.inspect(files / "int8.onnx", target="tensorrt")
    assert broken.violations == calib8.lint(files / "int8.onnx", "tensorrt") != ()
    assert broken.target == "tensorrt"
    assert calib8.inspect(files / "int8.tflite", target="tflite").violations == ()


@pytest.mark.slow
def test_what_data_show(files: Path) -> None:
    progress = list[tuple[str, int, int | None]]()
    found = calib8.inspect(
        files / "int8.onnx", CALIBRATION_PATH, samples=20, avx2_safety=True,
        progress=lambda *told: progress.append(told),
    )  # fmt: skip
    assert found.observation is not None and found.observation.samples == 20
    assert found.observation.tensors and found.observation.pairs is not None
    assert progress[-1] == ("running", 20, 20)
    reading = calib8.Reading(CALIBRATION_PATH, DIGITS, samples=20)
    same = calib8.inspect(files / "int8.onnx", reading, avx2_safety=True)  # stored in the file
    assert same.observation == found.observation
    pairs = calib8.inspect(files / "int8.onnx", avx2_safety=True).observation
    assert pairs is not None and pairs.samples == 0 and pairs.pairs


@pytest.mark.parametrize(
    ("file", "words", "told"),
    [
        ("int8.onnx", {"samples": 3}, "samples: goes with data only. Give data too"),
        ("int8.onnx", {"profile": "single"}, "profile: concerns the integer program of .* Add program=True"),
        ("int8.onnx", {"target": "toaster"}, "toaster"),
        ("int8.onnx", {"program": True, "until": ["x"]}, "until='x': .* is not a TFLite model"),
        ("plan.c8", {"target": "tflite"}, "target: does not go with .*plan.c8, which is a plan"),
        ("plan.c8", {"program": True}, "program: does not go with"),
        (
            "plan.c8",
            {"data": {"x": np.zeros((1, 2))}},
            "data: .* is a plan, which has no layers to look into",
        ),
        ("int8.tflite", {"avx2_safety": True}, "avx2_safety: .* is a TFLite model, which has no layers"),
        ("int8.tflite", {"target": "openvino"}, "target='openvino': .* Use target='tflite'"),
        ("program.c8p", {"target": "tflite"}, "target='tflite': .* is a program, which has no rules"),
    ],
)
def test_what_does_not_go_together(files: Path, file: str, words: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        calib8.inspect(files / file, **words)


def test_files_that_are_none(files: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no such file"):
        calib8.inspect(tmp_path / "none.onnx")
    with pytest.raises(UsageError, match=r"model: is of type int"):
        calib8.inspect(7)  # type: ignore[arg-type]
    (tmp_path / "cut.c8").write_bytes((files / "plan.c8").read_bytes()[:-20])
    with pytest.raises(ModelError, match=r"truncated"):
        calib8.inspect(tmp_path / "cut.c8")
    with pytest.raises(UsageError, match=r"is a float model, which has no rules"):
        calib8.inspect(MODEL_PATH, target="tflite")
    with pytest.raises(UnsupportedModelError, match=r"is a float model"):
        calib8.inspect(MODEL_PATH, avx2_safety=True)
