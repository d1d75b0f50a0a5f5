"""Calibrations and quantized models of the real networks, made once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from real_networks import NETWORKS, Calibrated, Quantized

from calib8.model.runtime import saturates_here
from calib8.pipeline import Calibration, calibrate, quantize

CALIBRATION_SAMPLES = 100


@pytest.fixture(scope="session")
def calibrated(shared_data: Path) -> Calibrated:
    found: dict[str, Calibration] = {}

    def get(name: str) -> Calibration:
        if name not in found:
            network = NETWORKS[name]
            found[name] = calibrate(
                shared_data / network.file,
                shared_data / network.calibration,
                preprocess=network.preprocess,
                samples=CALIBRATION_SAMPLES,
                batch=4,
                method="mse",
            )
        return found[name]

    return get


@pytest.fixture(scope="session")
def quantized(
    shared_data: Path, calibrated: Calibrated, tmp_path_factory: pytest.TempPathFactory
) -> Quantized:
    folder = tmp_path_factory.mktemp("quantized")

    def get(name: str) -> Path:
        path = folder / f"{name}.onnx"
        if not path.exists():
            model = shared_data / NETWORKS[name].file
            data = shared_data / NETWORKS[name].calibration
            table = calibrated(name).table
            quantize(model, data, table=table, preprocess=NETWORKS[name].preprocess).save(path)
        return path

    return get


@pytest.fixture(scope="session")
def for_openvino(quantized: Quantized, tmp_path_factory: pytest.TempPathFactory) -> Quantized:
    """Without VNNI OpenVINO saturates pairs of products: weights of 7 bits, with which none can, there."""
    folder = tmp_path_factory.mktemp("halved")

    def get(name: str) -> Path:
        if not saturates_here():
            return quantized(name)
        path = folder / f"{name}.onnx"
        if not path.exists():
            onnx.save(halved(onnx.load(quantized(name))), path)
        return path

    return get


def halved(model: onnx.ModelProto) -> onnx.ModelProto:
    """Codes of weights and biases by two, their scales times two."""
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        codes = held.get(node.input[0])
        if node.op_type != "DequantizeLinear" or codes is None or codes.dtype not in (np.int8, np.int32):
            continue
        changed = np.rint(codes / 2.0).astype(codes.dtype), held[node.input[1]] * np.float32(2)
        for place, array in enumerate(changed):
            name = f"{node.output[0]}/halved {place}"
            model.graph.initializer.append(numpy_helper.from_array(array, name))
            node.input[place] = name
    return model
