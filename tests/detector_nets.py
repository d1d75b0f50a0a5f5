"""A small detector with one input: boxes in pixels beside scores of three classes, loud ones and quiet."""

from __future__ import annotations

import numpy as np
import onnx

from small_models import Array, normal, onnx_model

BODY = """
    f0 = Conv<pads=[1,1,1,1]>(x, w0, b0) f = Relu(f0)
    g0 = Conv<pads=[1,1,1,1]>(f, w1, b1) g = Relu(g0)
    box = Conv(g, wb) classes = Conv(g, wc, bc)
    rb = Reshape(box, by4) rc = Reshape(classes, by3)
    moved = Add(rb, anchors) boxes = Mul(moved, stride) scores = Sigmoid(rc)
    y = Concat<axis=1>(boxes, scores)
"""


def detector() -> onnx.ModelProto:
    """x [N, 3, 8, 8] → y [N, 4 + 3, 64]."""
    rows, columns = np.mgrid[:8, :8].astype(np.float32)
    anchors = np.stack([columns.ravel(), rows.ravel(), columns.ravel() + 1.0, rows.ravel() + 1.0])[None]
    constants = {
        "w0": normal(8, 3, 3, 3, seed=1), "b0": normal(8, seed=2), "w1": 0.3 * normal(8, 8, 3, 3, seed=3),
        "b1": normal(8, seed=4), "wb": 0.1 * normal(4, 8, 1, 1, seed=5),
        "wc": 0.4 * normal(3, 8, 1, 1, seed=6),
        "bc": np.float32([-3.0, -3.0, -3.0]), "by4": np.int64([0, 4, -1]), "by3": np.int64([0, 3, -1]),
        "anchors": anchors, "stride": np.float32(40.0),
    }  # fmt: skip
    return onnx_model("float[N,3,8,8] x", "float[N,7,64] y", BODY, constants)


def pictures(count: int, seed: int = 0) -> Array:
    """Inputs of the detector, float32 [count, 3, 8, 8]."""
    return np.random.default_rng(seed).normal(size=(count, 3, 8, 8)).astype(np.float32)
