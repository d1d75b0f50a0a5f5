"""``--log``: every command that judges or measures tells trackers, checked before the work; exit code 4."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import FLAGS

from calib8.tracking.record import RunRecord
from calib8.tracking.to_tensorboard import TensorboardRuns
from needed import needed

needed("tensorboard")


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    """Forty samples."""
    image = np.random.default_rng(2).normal(0, 1, (40, 3, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "arrays.npz", image=image)
    return tmp_path / "arrays.npz"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[RunRecord]:
    """What the tracker is told."""
    found: list[RunRecord] = []

    def log(self: TensorboardRuns, record: RunRecord) -> str:
        found.append(record)
        return "there"

    monkeypatch.setattr(TensorboardRuns, "log", log)
    return found


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracker that fails behind the work."""

    def log(self: TensorboardRuns, record: RunRecord) -> str:
        raise ConnectionError("gone: http://me:secret@host")

    monkeypatch.setattr(TensorboardRuns, "log", log)


def test_every_command_tells_its_run(cli, told, model: Path, int8: Path, arrays: Path, out: Path) -> None:
    log = ("--log", f"tensorboard:{out}")
    data = ("--data", arrays)
    runs: dict[str, tuple[tuple[object, ...], Path]] = {
        "quantize": ((model, *data, "--effort", "fast", "-o", out / "q.onnx"), out / "q.onnx"),
        "evaluate": ((model, int8, *data), model),
        "compare": ((model, int8, *data), int8),
        "diagnose": ((model, int8, *data), int8),
        "tune": ((model, *data, "--min-sqnr", "10", "-o", out / "t.onnx"), out / "t.onnx"),
        "benchmark": ((int8, "--runtime", "onnxruntime", "--threads", "1", "--rounds", "2"), int8),
    }
    for name, (arguments, uploaded) in runs.items():
        result = cli(name, *arguments, *log, "--log-model")
        assert result.exit_code == 0, result.output
        assert f"log tensorboard:{out}: there" in result.stdout.splitlines()
        record = told.pop()
        assert record.command == name and record.models[0] == uploaded
        assert not {"log", "log-model", "json", "quiet"} & set(record.parameters)
        assert any(str(value) in record.parameters.values() for value in (model, int8)) or name == "evaluate"
        if name != "benchmark":
            assert record.page.startswith("<!DOCTYPE html>") and record.verdict
            assert {"conv1", "gemm"} <= set(record.layers.column("layer"))
            assert record.figures["sqnr_db"] > 10.0 if name != "tune" else record.figures["value"] > 10.0
        else:
            assert record.figures["median_ms"] > 0.0
        cli(name, *arguments, *log)
        assert told.pop().models == ()


def test_a_report_is_written_too_and_is_the_one_that_is_logged(
    cli, told, model: Path, int8: Path, arrays: Path, out: Path
) -> None:
    page = out / "run.html"
    cli("compare", model, int8, "--data", arrays, "--log", f"tensorboard:{out}", "--report", page)
    assert told[0].page == page.read_text(encoding="utf-8")


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--log", "mlfow"), 2, "--log mlfow: unknown tracker 'mlfow'. Did you mean 'mlflow'"),
        (("--log", "mlfow:http://me:secret@host"), 2, "--log mlfow:http://***@host: unknown tracker"),
        (("--log", "tensorboard"), 2, "names no folder"),
        (("--log", "tensorboard:x", "--log", "tensorboard:x"), 2, "is given twice"),
        (("--log", "tensorboard:{file}/x"), 1, "cannot be told of a run"),
        (("--log-model",), 2, "goes with --log only"),
    ],
)
def test_what_is_wrong_is_said_before_the_work(
    cli, refused, model: Path, images: Path, out: Path, flags: tuple[str, ...], code: int, words: str
) -> None:
    given = [flag.format(file=model) for flag in flags]
    result = cli("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx", *given)
    assert "secret" not in refused(result, code, words)


def test_a_model_in_memory_is_not_uploaded(cli, refused, model: Path, arrays: Path, out: Path) -> None:
    flags = ("--log", f"tensorboard:{out}", "--log-model")
    refused(cli("diagnose", model, "--data", arrays, *flags), 2, "--log-model", "there is no file of a model")


@pytest.mark.usefixtures("failing")
def test_a_tracker_that_fails_loses_nothing(cli, model: Path, arrays: Path, out: Path) -> None:
    result = cli(
        "quantize", model, "--data", arrays, "--effort", "fast", "-o", out / "q.onnx", "--json",
        out / "q.json", "--report", out / "q.html", "--log", f"tensorboard:{out / 'logs'}",
    )  # fmt: skip
    assert result.exit_code == 4
    [line] = result.stderr.splitlines()
    assert line.startswith(f"error: --log tensorboard:{out / 'logs'}: the run could not be logged")
    assert "ConnectionError: gone: http://***@host" in line and "secret" not in result.output
    assert (out / "q.onnx").is_file() and (out / "q.html").is_file()
    document: dict[str, Any] = json.loads((out / "q.json").read_text())
    assert document["output"] == str(out / "q.onnx")


@pytest.mark.usefixtures("failing")
def test_a_broken_promise_has_its_own_code(cli, model: Path, arrays: Path, out: Path) -> None:
    result = cli(
        "tune", model, "--data", arrays, "--min-sqnr", "90", "-o", out / "t.onnx",
        "--log", f"tensorboard:{out / 'logs'}",
    )  # fmt: skip
    assert result.exit_code == 3
    assert "the run could not be logged" in result.stderr and "is not kept" in result.stderr
