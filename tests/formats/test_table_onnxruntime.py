"""ONNX Runtime's calibration JSON, exchanged with the installed ONNX Runtime itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_tables import bounds, json_names, ranges_of, table_of
from onnxruntime.quantization.calibrate import (
    CalibrationMethod,
    TensorsData,
    load_tensors_data,
    save_tensors_data,
)
from onnxruntime.quantization.quant_utils import write_calibration_table

from calib8.errors import TableError
from calib8.formats import onnxruntime

RANGES = {"image": (-2.5, 2.25), "relu: 1": (0.0, 6.0)}


def as_onnxruntime_has_them() -> TensorsData:
    arrays = {name: tuple(np.array(bound, np.float32) for bound in pair) for name, pair in RANGES.items()}
    return TensorsData(CalibrationMethod.MinMax, arrays)


def test_what_onnxruntime_saves_is_read(tmp_path: Path) -> None:
    save_tensors_data(as_onnxruntime_has_them(), tmp_path / "t.json")
    read = onnxruntime.read((tmp_path / "t.json").read_text(), "t.json").table
    assert ranges_of(read) == RANGES
    assert read.entries["image"].method == "ONNX Runtime MinMax"


def test_its_calibration_table_is_read(tmp_path: Path) -> None:
    write_calibration_table(as_onnxruntime_has_them().data, str(tmp_path))
    read = onnxruntime.read((tmp_path / "calibration.json").read_text(), "calibration.json").table
    assert ranges_of(read) == RANGES


def test_histograms_beside_the_range_are_passed_over(tmp_path: Path) -> None:
    arrays = (np.array([-1.0], np.float32), np.array([2.0], np.float32), np.array([1, 2]), np.array(2))
    save_tensors_data(TensorsData(CalibrationMethod.Entropy, {"a": arrays}), tmp_path / "t.json")
    read = onnxruntime.read((tmp_path / "t.json").read_text(), "t.json").table
    assert ranges_of(read) == {"a": (-1.0, 2.0)}
    assert read.entries["a"].method == "ONNX Runtime Entropy"


def test_onnxruntime_loads_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(onnxruntime.write(table_of(RANGES)))
    loaded = load_tensors_data(tmp_path / "t.json")
    assert loaded.calibration_method is CalibrationMethod.MinMax
    for name, pair in RANGES.items():
        low, high = loaded[name].range_value
        assert (low, high) == pair and low.dtype == high.dtype == np.float32


@given(st.dictionaries(json_names, bounds, min_size=1))
def test_float32_bounds_come_back_exactly(ranges: dict[str, tuple[float, float]]) -> None:
    assert ranges_of(onnxruntime.read(onnxruntime.write(table_of(ranges)), "t.json").table) == ranges


def tensors(fields: object) -> str:
    return json.dumps({"CLS": "TensorsData", "data": {"a": fields}})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"CLS": "TensorsData"}', "has no 'data'"),
        ('{"CLS": "TensorsData", "data": {}}', "holds no tensor"),
        (tensors({"lowest": 0.0}), "tensor 'a': has no 'lowest' and 'highest'"),
        (tensors([0, 1]), "tensor 'a': has no 'lowest' and 'highest'"),
        (tensors({"avg": 0.0, "std": 1.0}), "tensor 'a': has no 'lowest'"),
        (tensors({"lowest": {"data": [0, 0]}, "highest": {"data": [1, 1]}}), "'a': has 2 ranges"),
        (tensors({"lowest": {"data": []}, "highest": 1.0}), "'a': has 0 ranges"),
        (tensors({"lowest": {"data": "x"}, "highest": 1.0}), "'a': [nan, 1.0] is not a range"),
        (tensors({"lowest": 0.0, "highest": float("inf")}), "'a': [0.0, inf] is not a range"),
        (tensors({"lowest": 1.0, "highest": 0.0}), "'a': [1.0, 0.0] is not a range"),
    ],
)
def test_what_is_broken_is_named(text: str, problem: str) -> None:
    with pytest.raises(TableError) as caught:
        onnxruntime.read(text, "t.json")
    assert "t.json" in str(caught.value) and problem in str(caught.value)
