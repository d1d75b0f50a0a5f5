"""Tables that need no histograms are made without them, and have the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calib8
from calib8.calibration.collect import Collector
from calib8.calibration.ranges import clipped_share
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.errors import CalibrationError
from calib8.table import Range
from small_models import normal, onnx_model

ARRAYS = [{"x": normal(1, 3, 8, 8, seed=seed)} for seed in range(5)]
BODY = "c = Conv<pads=[1,1,1,1]>(x, w) r = Relu(c) s = Mul(r, tiny) y = Conv<pads=[1,1,1,1]>(s, u)"
CONSTANTS = {
    "w": normal(8, 3, 3, 3),
    "u": normal(4, 8, 3, 3, seed=1),
    "tiny": np.array(1e-38, np.float32),
}
MODEL = onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", BODY, CONSTANTS)


@pytest.fixture
def binned(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each collector of the test had bins."""
    seen: list[bool] = []

    class Watched(Collector):
        def __init__(self, *arguments: Any, bins: bool = True, **named: Any) -> None:
            seen.append(bins)
            super().__init__(*arguments, bins=bins, **named)

    monkeypatch.setattr("calib8.calibration.gather.Collector", Watched)
    return seen


def saved(table: calib8.CalibrationTable, path: Path) -> bytes:
    table.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("power_of_two", [False, True])
@pytest.mark.parametrize("activations", ["uint8", "int8", "int8-symmetric"])
def test_the_table_is_the_same(
    binned: list[bool], tmp_path: Path, activations: str, *, power_of_two: bool
) -> None:
    tables = [
        calib8.calibrate(
            MODEL,
            ARRAYS,
            method="minmax",
            activations=activations,
            power_of_two=power_of_two,
            keep_statistics=keep,
        ).table
        for keep in (True, False)
    ]
    assert binned == [True, power_of_two]
    assert any(entry.clipped for entry in tables[0].entries.values()), "the values too small for a scale"
    assert saved(tables[0], tmp_path / "a") == saved(tables[1], tmp_path / "b")


def test_what_needs_histograms_gets_them(binned: list[bool], tmp_path: Path) -> None:
    narrow = {"x": (-0.5, 0.5)}
    found = calib8.calibrate(MODEL, ARRAYS, method="minmax", ranges=narrow, keep_statistics=False)
    assert found.table == calib8.calibrate(MODEL, ARRAYS, method="minmax", ranges=narrow).table
    assert 0.3 < found.table.entries["x"].clipped < 0.9
    for method in ("mse", "mean-minmax", "aciq-tengine", "ema"):
        calib8.calibrate(MODEL, ARRAYS, method=method, keep_statistics=False)
    checkpoint = tmp_path / "c"
    calib8.calibrate(MODEL, ARRAYS, method="minmax", keep_statistics=False, checkpoint=checkpoint)
    assert all(binned) and len(binned) == 7
    again = calib8.calibrate(MODEL, ARRAYS, method="mse", checkpoint=checkpoint)
    assert again.resumed == len(ARRAYS)
    assert again.table == calib8.calibrate(MODEL, ARRAYS, method="mse").table


def test_quantizing_does_without_them_and_says_so(binned: list[bool]) -> None:
    result = calib8.quantize(MODEL, ARRAYS, method="minmax")
    assert binned == [False] and result.calibration is not None
    with pytest.raises(CalibrationError, match="bins"):
        calib8.calibrate(MODEL, statistics=result.calibration.statistics, method="mse")
    assert calib8.calibrate(MODEL, statistics=result.calibration.statistics, method="minmax").table == (
        result.table
    )


def test_outside_of_nothing_are_all_values_but_the_zeros() -> None:
    values = np.array([0, 0, 1e-40, -1e-40, 3, np.nan], np.float32)
    statistics = TensorStatistics.from_values(values)
    assert clipped_share(statistics, Range(0.0, 0.0)) == 3 / 5
