"""Additions in float between int8 layers: their sums are not rounded, and our engine computes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

import calib8
from exact_sums import exact
from small_models import normal, onnx_model

BODY = """
t0 = Conv<pads = [1, 1, 1, 1]>(x, w)
c0 = Conv<pads = [1, 1, 1, 1]>(t0, v0)
s0 = Add(c0, t0)
c1 = Conv<pads = [1, 1, 1, 1]>(s0, v1)
s1 = Add(c1, s0)
p = GlobalAveragePool(s1)
y = Flatten(p)
"""


def test_a_sum_reaches_the_next_one_unrounded_and_the_next_layer_as_codes(tmp_path: Path) -> None:
    weights = {"w": normal(8, 3, 3, 3), "v0": normal(8, 8, 3, 3) / 16.0, "v1": normal(8, 8, 3, 3) / 16.0}
    model = onnx_model("float[N,3,6,6] x", "float[N,8] y", BODY, weights)
    for node in model.graph.node:
        node.name = node.output[0]
    samples = np.random.default_rng(0).uniform(-1.0, 1.0, (16, 3, 6, 6)).astype(np.float32)
    found = calib8.quantize(
        model, samples, method="minmax", repair=("none",), keep_float=("s0", "s1"), threads=1
    )
    path = tmp_path / "int8.onnx"
    found.save(path)
    adds = {node.name: list(node.input) for node in onnx.load(path).graph.node if node.op_type == "Add"}
    assert adds == {"s0": ["c0/dequantized", "t0/dequantized"], "s1": ["c1/dequantized", "s0"]}
    theirs = ort.InferenceSession(path, exact()).run(None, {"x": samples})[0]
    ours = calib8.InferenceSession(path, threads=1).run(None, {"x": samples})[0]
    np.testing.assert_array_equal(ours, theirs)
