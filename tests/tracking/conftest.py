"""A small network, data, its int8 form; trackers that see nothing of the machine."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest

import calib8
from small_nets import classifier


class Small(NamedTuple):
    """Files and arrays."""

    fp32: Path
    int8: Path
    data: np.ndarray
    archive: Path
    made: calib8.Quantization


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    folder, proto = tmp_path_factory.mktemp("small"), classifier()
    sizes = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim[1:]]
    data = np.random.default_rng(0).normal(size=(40, *sizes)).astype(np.float32)
    onnx.save(proto, folder / "fp32.onnx")
    np.savez(folder / "data.npz", **{proto.graph.input[0].name: data})
    made = calib8.quantize(folder / "fp32.onnx", data, effort="fast")
    made.save(folder / "int8.onnx")
    return Small(folder / "fp32.onnx", folder / "int8.onnx", data, folder / "data.npz", made)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the user's: no server, no account, no folder but a new one."""
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_PROJECT", "WANDB_ENTITY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
