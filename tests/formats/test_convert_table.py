"""``convert_table`` takes tables as values and as files, and tells what another format cannot hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calib8
from calib8.demo import CALIBRATION_PATH, MODEL_PATH
from calib8.errors import OutputError, TableError, UsageError
from calib8.formats.table_file import entry_without_statistics
from calib8.table import CalibrationTable, Range

DIGITS = calib8.Preprocess(mean=(128.0,), scale=(1 / 128,), color="gray")


def table(**ranges: tuple[float, float]) -> CalibrationTable:
    entries = {name: entry_without_statistics(Range(*ends), "given") for name, ends in ranges.items()}
    return CalibrationTable("", entries)


SYMMETRIC = table(a=(-12.7, 12.7), b=(-1.27, 1.27))


@pytest.fixture(scope="module")
def digits() -> CalibrationTable:
    return calib8.calibrate(
        MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, method="minmax", samples=20
    ).table


@pytest.mark.parametrize("to", ["tensorrt", "mxnet", "onnxruntime", "aimet", "tengine"])
def test_a_table_in_the_format_of_another_tool(to: str, tmp_path: Path) -> None:
    found = calib8.convert_table(SYMMETRIC, tmp_path / "out", to, lossy=True)
    assert (found.to, found.output, found.source.format) == (to, tmp_path / "out", "calib8")
    read = calib8.read_table(tmp_path / "out", to)
    assert {*read.table.entries} == {"a", "b"} == {*found.table.entries}
    for name, entry in SYMMETRIC.entries.items():
        assert read.table.entries[name].range.max == pytest.approx(entry.range.max, rel=1e-6)
    back = calib8.convert_table(read, tmp_path / "back.json", lossy=True)
    assert back.source.format == to
    assert CalibrationTable.load(tmp_path / "back.json").entries.keys() == SYMMETRIC.entries.keys()


def test_what_a_format_cannot_hold(tmp_path: Path) -> None:
    wide = table(a=(-1.0, 3.0))
    with pytest.raises(UsageError, match=r"to='tensorrt': cannot hold all of .*Add lossy=True if that"):
        calib8.convert_table(wide, tmp_path / "out", "tensorrt")
    assert list(tmp_path.iterdir()) == []
    found = calib8.convert_table(
        wide, tmp_path / "out", "tensorrt", lossy=True, header="TRT-1000-MinMaxCalibration"
    )
    assert found.lost and (tmp_path / "out").read_text().startswith("TRT-1000-MinMaxCalibration\n")


def test_a_table_on_a_model(digits: CalibrationTable, tmp_path: Path) -> None:
    found = calib8.convert_table(digits, tmp_path / "t", "ncnn", model=MODEL_PATH, lossy=True)
    assert found.binding is not None and found.table.entries
    layers = calib8.read_table(tmp_path / "t")
    assert layers.keys == "layers"
    with pytest.raises(UsageError, match=r"names layers, not tensors. Give the model with model"):
        calib8.convert_table(tmp_path / "t", tmp_path / "back", "calib8")
    back = calib8.convert_table(tmp_path / "t", tmp_path / "back", model=MODEL_PATH, lossy=True)
    assert {*back.table.entries} <= {*digits.entries}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"to": "toast"}, "to='toast': unknown format"),
        ({"header": "x"}, "header='x': format 'calib8' has none. Use it with to='tensorrt'"),
        ({"partial": True}, "partial=True: concerns the names of a model. Give the model with model"),
        ({"to": "ncnn"}, "to='ncnn': its names are those of layers. Give the model with model"),
        ({"form": "mxnet"}, "form='mxnet': says what a file is, and the table is given as a value"),
        ({"table": 3}, "table: is of type int"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, words: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        calib8.convert_table(**{"table": SYMMETRIC, "output": tmp_path / "out", **words})
    assert list(tmp_path.iterdir()) == []


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    SYMMETRIC.save(tmp_path / "t.json")
    with pytest.raises(UsageError, match=r"is the same file as an input"):
        calib8.convert_table(tmp_path / "t.json", tmp_path / "t.json")
    with pytest.raises(OutputError, match=r"cannot be written"):
        calib8.convert_table(SYMMETRIC, tmp_path / "nowhere" / "t.json")
    with pytest.raises(TableError, match=r"no such file"):
        calib8.convert_table(tmp_path / "none.json", tmp_path / "out")
    with pytest.raises(TableError):
        calib8.convert_table(SYMMETRIC, tmp_path / "out", model=MODEL_PATH)
