"""Calibrations and quantized models of the real networks, made once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_networks import NETWORKS, Calibrated, Quantized

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
