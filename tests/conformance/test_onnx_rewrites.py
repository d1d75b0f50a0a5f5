"""Rewrites of ONNX Runtime that change what a quantized graph says: calib8 computes what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

from calib8.session import InferenceSession
from small_models import normal, onnx_model

Array = npt.NDArray[Any]

LEVELS = onnxruntime.GraphOptimizationLevel
FEEDS = {"x": np.abs(normal(1, 3, 16, 16, seed=7)) * np.float32(3)}


def between_pairs(node: str) -> onnx.ModelProto:
    """Codes of scale 0.02, one node, codes of scale 0.031: what lies above 5.1 is clipped by the first."""
    body = f"""
    q = QuantizeLinear(x, s, z)
    d = DequantizeLinear(q, s, z)
    m = {node}
    r = QuantizeLinear(m, t, z)
    y = DequantizeLinear(r, t, z)
    """
    constants = {
        "s": np.float32(0.02), "t": np.float32(0.031), "z": np.uint8(0),
        "k": np.array([1.0 if node.startswith("Mul") else 0.0], np.float32),
    }  # fmt: skip
    return onnx_model("float[1,3,16,16] x", "float[1,3,16,16] y", body, constants)


def in_onnxruntime(model: onnx.ModelProto, level: onnxruntime.GraphOptimizationLevel) -> Array:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return np.asarray(session.run(None, FEEDS)[0])


@pytest.mark.parametrize("node", ["Mul(d, k)", "Add(d, k)"])
def test_two_pairs_stay_two(node: str) -> None:
    """ONNX Runtime drops x · 1 and x + 0, and makes one pair of two, with the smaller range of both.

    Its unoptimized run gives what the graph says; a failure of the last line tells that it is mended.
    """
    model = between_pairs(node)
    plain = in_onnxruntime(model, LEVELS.ORT_DISABLE_ALL)
    np.testing.assert_array_equal(InferenceSession(model).run(None, FEEDS)[0], plain)
    np.testing.assert_allclose(np.rint(plain / 0.031) * 0.031, plain, rtol=1e-5)
    assert np.mean(in_onnxruntime(model, LEVELS.ORT_ENABLE_ALL) != plain) > 0.5
