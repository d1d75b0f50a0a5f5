"""Runtimes with bound arrays: what they read stays alive for as long as they may be called."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

import calib8
from calib8.analysis.bound_calls import BoundCall
from calib8.analysis.workloads import open_workload
from small_models import normal, onnx_model


@pytest.mark.one_in(2)
@pytest.mark.parametrize("runtime", ["calib8", "onnxruntime", "openvino"])
def test_inputs_live_as_long_as_the_call(tmp_path: Path, runtime: str) -> None:
    """OpenVINO reads the memory of arrays that it does not keep: a process that let go of them crashed."""
    model = onnx_model("float[1,3,64,64] x", "float[A,B,C,D] y", "y = Conv(x, w)", {"w": normal(4, 3, 3, 3)})
    path = tmp_path / "net.int8.onnx"
    calib8.quantize(model, [{"x": normal(1, 3, 64, 64)}], method="minmax", effort="fast").save(path)
    workload = open_workload(path, 1)
    feeds = [weakref.ref(array) for array in workload.feeds.values()]
    call = BoundCall(workload, runtime, 1)
    first = call.outputs()
    del workload
    gc.collect()
    if runtime == "openvino":
        assert all(feed() is not None for feed in feeds)
    for _ in range(3):
        np.testing.assert_array_equal(call.outputs()[0], first[0])
