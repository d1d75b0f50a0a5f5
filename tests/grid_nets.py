"""Detectors that leave their grids of anchors without decoding: 64 × 64 pixels, strides 8 and 16."""

from __future__ import annotations

import numpy as np
import onnx

from small_models import Array, normal, onnx_model

BODY = """
    f0 = Conv<pads=[1,1,1,1], strides=[4,4]>(x, w0, b0) f = Relu(f0)
    g0 = Conv<pads=[1,1,1,1], strides=[2,2]>(f, w1, b1) g = Relu(g0)
    h0 = Conv<pads=[1,1,1,1], strides=[2,2]>(g, w2, b2) h = Relu(h0)
"""
ONE = "grid = Conv(g, wa, ba)"
TWO = "fine = Conv(g, wa, ba) coarse = Conv(h, wb, bb)"
TURNED = """
    p = Conv(g, wa, ba) p5 = Reshape(p, apart) fine = Transpose<perm=[0,1,3,4,2]>(p5)
    q = Conv(h, wb, bb) q5 = Reshape(q, apart_too) coarse = Transpose<perm=[0,1,3,4,2]>(q5)
"""


def rows(anchors: int, classes: int, seed: int) -> tuple[Array, Array]:
    """Weights and biases of a last layer: small ones of sizes, large ones of objectness, which is rare."""
    weights = normal(anchors, 5 + classes, 8, 1, 1, seed=seed)
    weights /= np.abs(weights).sum(axis=2, keepdims=True)
    weights *= np.array([1.0, 1.0, 0.2, 0.2, 3.0] + [1.5] * classes, np.float32)[None, :, None, None, None]
    biases = np.zeros((anchors, 5 + classes), np.float32)
    biases[:, 4] = -1.5
    return weights.reshape(-1, 8, 1, 1), biases.reshape(-1)


def constants(anchors: int, classes: int) -> dict[str, Array]:
    """All that the bodies name."""
    fine, coarse = rows(anchors, classes, 5), rows(anchors, classes, 6)
    each = 5 + classes
    return {
        "w0": 0.5 * normal(8, 3, 3, 3, seed=1), "b0": normal(8, seed=2),
        "w1": 0.3 * normal(8, 8, 3, 3, seed=3), "b1": normal(8, seed=4),
        "w2": 0.3 * normal(8, 8, 3, 3, seed=7), "b2": normal(8, seed=8),
        "wa": fine[0], "ba": fine[1], "wb": coarse[0], "bb": coarse[1],
        "apart": np.int64([0, anchors, each, 8, 8]), "apart_too": np.int64([0, anchors, each, 4, 4]),
    }  # fmt: skip


def made(body: str, outputs: str, known: dict[str, Array], size: str = "64,64") -> onnx.ModelProto:
    """A model; constants that its body does not name are left out."""
    text = BODY + body
    words = set(text.replace(",", " ").replace("(", " ").replace(")", " ").split())
    used = {name: array for name, array in known.items() if name in words}
    return onnx_model(f"float[N,3,{size}] x", outputs, text, used)


def yolo2(classes: int = 0) -> onnx.ModelProto:
    """x [N, 3, 64, 64] → grid [N, 5·(5 + C), 8, 8]."""
    return made(ONE, f"float[N,{5 * (5 + classes)},8,8] grid", constants(5, classes))


def yolo3(classes: int = 2) -> onnx.ModelProto:
    """→ fine [N, 3·(5 + C), 8, 8], coarse [N, 3·(5 + C), 4, 4]."""
    each = 3 * (5 + classes)
    return made(TWO, f"float[N,{each},8,8] fine, float[N,{each},4,4] coarse", constants(3, classes))


def yolo5(classes: int = 2) -> onnx.ModelProto:
    """→ fine [N, 3, 8, 8, 5 + C], coarse [N, 3, 4, 4, 5 + C]."""
    each = 5 + classes
    outputs = f"float[N,3,8,8,{each}] fine, float[N,3,4,4,{each}] coarse"
    return made(TURNED, outputs, constants(3, classes))


def pictures(count: int, seed: int = 0) -> Array:
    """Inputs, float32 [count, 3, 64, 64]."""
    return np.random.default_rng(seed).normal(size=(count, 3, 64, 64)).astype(np.float32)
