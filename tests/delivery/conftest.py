"""An int8 form of the demo network, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

import calib8
from calib8.demo import CALIBRATION_PATH, MODEL_PATH

DIGITS = calib8.Preprocess(mean=(128.0,), scale=(1 / 128,), color="gray")


@pytest.fixture(scope="session")
def digits_int8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "int8.onnx"
    made = calib8.quantize(MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, method="minmax", effort="fast")
    made.save(path)
    return path
