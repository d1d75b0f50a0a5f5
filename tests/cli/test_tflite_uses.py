"""What is said to take a TFLite file takes it, and whatever else gets one says what does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from calib8.parameters import on_command_line
from calib8.tflite.uses import USES
from calib8.tflite.write import write_tflite
from tflite_nets import float_classifier, hybrid_classifier, onnx_classifier, quantized_classifier

PIXELS = ("--mean", "128", "--scale", "1/128", "--samples", "8")
COMMANDS = (
    "quantize", "calibrate", "tune", "diagnose", "evaluate", "run", "benchmark", "compile", "export",
    "inspect", "compare",
)  # fmt: skip
GRAPHS = {"float": float_classifier, "quantized": quantized_classifier, "hybrid": hybrid_classifier}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    images = np.random.default_rng(5).integers(0, 256, (40, 8, 8, 3), np.uint8)
    np.savez(tmp_path / "data.npz", images=images)
    return tmp_path / "data.npz"


def arguments(command: str, model: Path, data: Path, kind: str) -> list[Any]:
    """A call of the command with a model that it may take."""
    out = model.with_name("out")
    runtime = ["--runtime", "litert"] if kind == "hybrid" else []
    if command in ("evaluate", "run"):
        return [command, model, "--data", data, *PIXELS, *runtime]
    if command == "benchmark":
        return [command, model, "--rounds", 1, "--threads", 1, *runtime]
    if command == "compile":
        return [command, model, "-o", out.with_suffix(".c8")]
    if command == "export":
        return [command, model, "--to", "tflite", "-o", out.with_suffix(".tflite")]
    if command == "inspect":
        return [command, model]
    if command == "compare":
        onnx.save(onnx_classifier(), model.with_name("net.onnx"))
        return [command, model.with_name("net.onnx"), model, "--data", data, *PIXELS]
    if command == "diagnose":
        return [command, model, "--data", data, *PIXELS]
    if command == "tune":
        return [
            command,
            model,
            "--data",
            data,
            *PIXELS[:4],
            "--min-agreement",
            10,
            "-o",
            out.with_suffix(".onnx"),
        ]
    if command == "calibrate":
        return [command, model, "--data", data, *PIXELS, "-o", out.with_suffix(".json")]
    return [command, model, "--data", data, *PIXELS, "--effort", "fast", "-o", out.with_suffix(".onnx")]


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_takes_a_file_or_says_what_does(
    cli: Callable[..., Any], tmp_path: Path, data: Path, kind: str, command: str
) -> None:
    model = tmp_path / "net.tflite"
    write_tflite(GRAPHS[kind](), model)
    said = on_command_line(USES[kind])  # type: ignore[index]
    result = cli(*arguments(command, model, data, kind))
    if command in re.findall(r"\w+", said):
        assert result.exit_code == 0, result.output
    else:
        text = " ".join(result.output.split())
        assert result.exit_code in (1, 2) and "Traceback" not in text
        assert said in text, text


@pytest.mark.parametrize("kind", GRAPHS)
def test_inspect_says_what_takes_the_file(cli: Callable[..., Any], tmp_path: Path, kind: str) -> None:
    model = tmp_path / "net.tflite"
    write_tflite(GRAPHS[kind](), model)
    result = cli("inspect", model)
    assert f"note: {on_command_line(USES[kind])}" in " ".join(result.output.split())  # type: ignore[index]
    assert calib8.inspect(model).notes == (USES[kind],)  # type: ignore[index]


def test_a_table_is_no_model(cli: Callable[..., Any], tmp_path: Path) -> None:
    write_tflite(quantized_classifier(), tmp_path / "net.tflite")
    result = cli("table", "show", tmp_path / "net.tflite")
    text = " ".join(result.output.split())
    assert (
        result.exit_code == 1 and "is a TFLite model. Give a calibration table; a quantized .tflite" in text
    )


def test_names_of_functions_are_said_in_python() -> None:
    words = {word for text in USES.values() for word in re.findall(r"\w+", str(text))}
    assert {word for word in words if hasattr(calib8, word)} >= {"evaluate", "compile", "InferenceSession"}
    assert "run" not in words
