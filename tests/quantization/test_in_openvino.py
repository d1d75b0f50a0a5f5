"""Small models in OpenVINO: the int8 form gives there what the float model gives, within its codes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from calib8.analysis.evaluate import sqnr_db
from calib8.analysis.runtimes import open_in_runtime
from calib8.pipeline import quantize
from small_models import Array, normal, onnx_model, run

CONV = "Conv<pads=[1,1,1,1]>"
POOL = "AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]"
WEIGHTS: dict[str, Array] = {
    "w": normal(8, 3, 3, 3),
    "b": normal(8, seed=1),
    "u": normal(4, 8, 3, 3, seed=2),
    "k": normal(8, 1, 3, 3, seed=3),
    "twice": np.array([1, 1, 2, 2], np.float32),
    "around": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
    "low": np.float32(-0.5),
    "slope": np.full((8, 1, 1), 0.2, np.float32),
}
BODIES = {
    "residual": f"c = {CONV}(x, w, b) r = Relu(c) d = Conv<pads=[1,1,1,1], group=8>(r, k) s = Add(r, d)",
    "pool of signed values": f"c = {CONV}(x, w, b) s = {POOL}>(c)",
    "pool with counted padding": f"c = {CONV}(x, w, b) s = {POOL}, count_include_pad=1>(c)",
    "pool of unsigned values": f"c = {CONV}(x, w, b) r = Relu(c) s = {POOL}, count_include_pad=1>(r)",
    "padding of signed values": f"c = {CONV}(x, w, b) s = Pad(c, around, low)",
    "silu": f"c = {CONV}(x, w, b) g = Sigmoid(c) s = Mul(c, g)",
    "prelu": f"c = {CONV}(x, w, b) s = PRelu(c, slope)",
    "clip from below": f"c = {CONV}(x, w, b) s = Clip(c, low)",
    "resize": f'c = {CONV}(x, w, b) s = Resize<mode="linear">(c, , twice)',
}


@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("name", BODIES)
def test_a_small_model_is_right_in_openvino(name: str, target: str, tmp_path: Path) -> None:
    body = f"{BODIES[name]} y = {CONV}(s, u)"
    used = {key: array for key, array in WEIGHTS.items() if key in re.findall(r"\w+", body)}
    proto = onnx_model("float[N,3,12,12] x", "float[A,B,C,D] y", body, used)
    data = [{"x": normal(1, 3, 12, 12, seed=seed)} for seed in range(4)]
    path = tmp_path / "int8.onnx"
    quantize(proto, data, target=target, method="minmax").save(path)
    [expected] = run(proto, data[0])
    [actual] = open_in_runtime(path, "openvino", 1).run(data[0])
    noise = float(np.sum((expected.astype(np.float64) - actual) ** 2))
    found = sqnr_db(float(np.sum(expected.astype(np.float64) ** 2)), noise)
    assert found is not None and found > 25
