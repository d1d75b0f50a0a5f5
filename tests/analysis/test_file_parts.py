"""The bytes of a quantized file, told apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

import calib8
from calib8.analysis.file_parts import file_parts
from calib8.demo import CALIBRATION_PATH, MODEL_PATH
from calib8.model.load import load_model

DIGITS = calib8.Preprocess(mean=(128.0,), scale=(1 / 128,), color="gray")


def test_parts_are_those_that_onnx_itself_tells(tmp_path: Path) -> None:
    path = tmp_path / "int8.onnx"
    calib8.quantize(
        MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, method="minmax", effort="fast"
    ).save(path)  # fmt: skip
    size = path.stat().st_size
    found = file_parts(load_model(path), size)
    bytes_of = {np.dtype(np.int8): 0, np.dtype(np.uint8): 0, np.dtype(np.int32): 0, np.dtype(np.float32): 0}
    for one in onnx.load(path).graph.initializer:
        array = onnx.numpy_helper.to_array(one)
        bytes_of[array.dtype] = bytes_of.get(array.dtype, 0) + array.nbytes
    assert found.codes == bytes_of[np.dtype(np.int8)] + bytes_of[np.dtype(np.uint8)] > 0
    assert found.biases == bytes_of[np.dtype(np.int32)] > 0
    assert found.floats == bytes_of[np.dtype(np.float32)] > 0
    assert found.codes + found.biases + found.floats + found.rest == size and found.rest > 0
