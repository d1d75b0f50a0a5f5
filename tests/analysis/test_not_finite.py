"""NaN and infinite values: refused in data, by the name of the sample; told where they are in outputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import calib8
from calib8.cli import app
from calib8.data.finite import not_finite
from small_models import onnx_model

X = np.random.default_rng(5).normal(size=(12, 3, 6, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A classifier, and its INT8 model."""
    folder, rng = tmp_path_factory.mktemp("models"), np.random.default_rng(3)
    weights = {
        "w": rng.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32),
        "v": rng.normal(0, 1, (64, 10)).astype(np.float32),
    }
    text = "c = Conv(x, w) r = Relu(c) f = Flatten(r) y = MatMul(f, v)"
    onnx.save(onnx_model("float[N,3,6,6] x", "float[N,10] y", text, weights), folder / "fp32.onnx")
    made = calib8.quantize(folder / "fp32.onnx", X, method="minmax", repair=("none",))
    made.save(folder / "int8.onnx")
    return [folder / "fp32.onnx", folder / "int8.onnx"]


def with_value(value: float, row: int, folder: Path, *, everywhere: bool = False) -> Path:
    changed = X.copy()
    changed[row] = value if everywhere else changed[row]
    changed[row, 0, 0, 0] = value
    np.savez(folder / "data.npz", x=changed)
    return folder / "data.npz"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("batch", [1, 5])
def test_data_are_refused_by_name(models: list[Path], tmp_path: Path, value: float, batch: int) -> None:
    data = with_value(value, 7, tmp_path)
    with pytest.raises(calib8.DataError, match=r"data\.npz\[7\]: holds NaN or infinite values in input 'x'"):
        calib8.evaluate(models, data, batch=batch)
    with pytest.raises(calib8.DataError, match=r"data\.npz\[7\]"):
        calib8.compare(*models, data)
    with pytest.raises(calib8.DataError, match=r"data\.npz\[7\]"):
        calib8.tune(models[0], X, tmp_path / "out.onnx", min_agreement=50.0, judge_data=data)
    looked_at = calib8.preflight(models[0], data)
    assert any("data.npz[7] holds NaN" in text for text in looked_at.warnings)


def test_the_command_ends_with_an_error_in_one_line(models: list[Path], tmp_path: Path) -> None:
    data = with_value(np.nan, 3, tmp_path)
    ended = CliRunner().invoke(app, ["evaluate", *map(str, models), "--data", str(data)])
    assert ended.exit_code == 1 and "data.npz[3]: holds NaN" in ended.stderr and "kept" not in ended.stdout


def test_outputs_that_are_not_finite_are_told_and_agree_with_none(models: list[Path], tmp_path: Path) -> None:
    data, report = with_value(3e38, 4, tmp_path, everywhere=True), tmp_path / "r.json"
    ended = CliRunner().invoke(
        app, ["evaluate", *map(str, models), "--data", str(data), "--json", str(report)]
    )
    fp32, int8 = json.loads(report.read_text())["models"]
    [told] = fp32["warnings"]
    assert "NaN or infinite values for 1 of 12 samples (such as " in told and "data.npz[4])" in told
    assert told.split(":")[0] in " ".join(ended.output.split())
    assert int8["sqnr_db"] is None and int8["agreement"] <= 11 / 12
    without = calib8.evaluate(models, np.delete(X, 4, axis=0))[1].agreement
    assert without is not None and int8["agreement"] == pytest.approx(without * 11 / 12)


def test_no_class_is_the_best_where_scores_are_nan(models: list[Path], tmp_path: Path) -> None:
    data = with_value(3e38, 4, tmp_path, everywhere=True)
    itself = tmp_path / "same.onnx"
    itself.write_bytes(models[0].read_bytes())
    assert calib8.evaluate([models[0], itself], data)[1].agreement == pytest.approx(11 / 12)
    assert calib8.evaluate([models[0], itself], X)[1].agreement == 1.0


def test_samples_of_a_batch_are_told_apart() -> None:
    names = ("a", "b", "c")
    good, bad = np.zeros((6, 2), np.float32), np.zeros((6, 2), np.float32)
    bad[3, 1] = np.nan
    assert not_finite([good, np.zeros((3, 1), np.int64)], names) == []
    assert not_finite([good, bad], names) == ["b"]
    assert not_finite([bad[:4]], names) == ["a", "b", "c"]
    assert not_finite([np.array(np.inf)], names) == ["a", "b", "c"]
