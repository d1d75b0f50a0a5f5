"""Whatever is not a path, where a path is wanted, is told in one line by every public function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import calib8
from calib8.data.opening import open_dataset
from calib8.errors import Calib8Error, OutputError, UsageError
from small_models import normal, onnx_model

MODEL: Any = onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", "y = Conv<pads=[1,1,1,1]>(x, u)", {
    "u": normal(4, 3, 3, 3)
})  # fmt: skip
DATA: Any = [{"x": normal(1, 3, 8, 8, seed=seed)} for seed in range(3)]
FIVE: Any = 5

CALLS: dict[str, Callable[[], object]] = {
    "calibrate, model": lambda: calib8.calibrate(FIVE, DATA),
    "calibrate, data": lambda: calib8.calibrate(MODEL, FIVE),
    "calibrate, statistics": lambda: calib8.calibrate(MODEL, statistics=FIVE),
    "calibrate, labels": lambda: calib8.calibrate(MODEL, DATA, labels=FIVE),
    "calibrate, checkpoint": lambda: calib8.calibrate(MODEL, DATA, checkpoint=FIVE),
    "collect_statistics, checkpoint": lambda: calib8.collect_statistics(MODEL, DATA, checkpoint=FIVE),
    "quantize, model": lambda: calib8.quantize(FIVE, DATA),
    "quantize, table": lambda: calib8.quantize(MODEL, table=FIVE),
    "quantize, path of a table": lambda: calib8.quantize(MODEL, table="t.json"),  # type: ignore[arg-type]
    "quantize, statistics": lambda: calib8.quantize(MODEL, statistics=FIVE),
    "evaluate, model": lambda: calib8.evaluate([FIVE], DATA),
    "compare, model": lambda: calib8.compare(FIVE, FIVE, DATA),
    "preflight, model": lambda: calib8.preflight(FIVE, DATA),
    "merge_statistics": lambda: calib8.merge_statistics(FIVE),
    "merge_statistics, part": lambda: calib8.merge_statistics([FIVE]),
    "read_table": lambda: calib8.read_table(FIVE),
    "InferenceSession": lambda: calib8.InferenceSession(FIVE),
    "Statistics.load": lambda: calib8.Statistics.load(FIVE),
    "CalibrationTable.load": lambda: calib8.CalibrationTable.load(FIVE),
    "open_dataset, labels": lambda: open_dataset("/", [], None, labels=FIVE),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_number_in_place_of_a_path(call: str) -> None:
    with pytest.raises(UsageError, match=r"\b(int|str)\b|needs an image folder"):
        CALLS[call]()


def test_saving_to_a_number() -> None:
    found = calib8.quantize(MODEL, DATA, method="minmax")
    assert found.calibration is not None
    for save in (found.save, found.table.save, found.calibration.statistics.save):
        with pytest.raises(Calib8Error, match=r"type int|an int") as caught:
            save(FIVE)
        assert isinstance(caught.value, UsageError | OutputError)


@pytest.mark.parametrize("path", ["model.onnx", Path("model.onnx")])
def test_one_path_in_place_of_a_list(path: str | Path) -> None:
    with pytest.raises(UsageError, match=r"is one path \('.*'\)\. Give a list"):
        calib8.evaluate(path, DATA)


@pytest.mark.parametrize("address", ["https://host//net.onnx", "s3://bucket/images"])
def test_addresses_are_no_paths(address: str) -> None:
    calls: tuple[Callable[[], object], ...] = (
        lambda: calib8.quantize(address, DATA),
        lambda: calib8.evaluate([address], DATA),
        lambda: calib8.read_table(address),
        lambda: calib8.InferenceSession(address),
    )
    for call in calls:
        with pytest.raises(
            Calib8Error, match="is an address, and calib8 reads and writes files only"
        ) as told:
            call()
        assert str(told.value).startswith(f"{address}: ")
