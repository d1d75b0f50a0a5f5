"""The example of Ray Train runs as typed: two processes train, and one INT8 file comes back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import calib8
from calib8 import demo
from needed import needed

EXAMPLE = Path(__file__).parents[2] / "examples" / "qat_ray_train.py"

# Nothing asks the network, and a busy machine starts it too.
ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_worker_niceness": "0",
    "RAY_worker_register_timeout_seconds": "300",
}


@pytest.mark.slow
def test_two_processes_train_one_model(tmp_path: Path) -> None:
    needed("ray")
    made = tmp_path / "digits.onnx"
    words = [sys.executable, str(EXAMPLE), "--epochs", "6", "--output", str(made)]
    ran = subprocess.run(
        words, cwd=tmp_path, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr
    graph = onnx.load(made).graph
    ops = {node.op_type for node in graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "Conv"} <= ops and "BatchNormalization" not in ops
    assert any(constant.data_type == onnx.TensorProto.INT8 for constant in graph.initializer)
    file = np.load(demo.CALIBRATION_PATH)
    images = ((file["images"].transpose(0, 3, 1, 2) - demo.PIXEL_MEAN) * demo.PIXEL_SCALE).astype(np.float32)
    session = calib8.InferenceSession(made)
    [scores] = session.run(None, {session.get_inputs()[0].name: images})
    right = float(np.mean(scores.argmax(1) == file["labels"]))
    said = re.search(r"digits\.onnx: ([\d,]+) bytes, top-1 (\d+)%", ran.stdout)
    assert said is not None, ran.stdout
    assert (int(said[1].replace(",", "")), int(said[2])) == (made.stat().st_size, round(100 * right))
    assert right > 0.5, "it has learned nothing"
