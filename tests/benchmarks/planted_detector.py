"""A small detector: normalizations that fit its images, branches that meet, boxes beside scores."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnxruntime import InferenceSession

from small_models import normal, onnx_model

SIDE = 16
BODY = """
    c0 = Conv<pads=[1,1,1,1]>(x, w0) n0 = BatchNormalization(c0, g0, h0, m0, v0) r0 = Relu(n0)
    c1 = Conv<pads=[1,1,1,1], group=12>(r0, w1) n1 = BatchNormalization(c1, g1, h1, m1, v1) r1 = Relu(n1)
    c2 = Conv(r1, w2) n2 = BatchNormalization(c2, g2, h2, m2, v2) r2 = Relu(n2)
    c3 = Conv<pads=[1,1,1,1], group=12>(r2, w3) n3 = BatchNormalization(c3, g3, h3, m3, v3) r3 = Relu(n3)
    c4 = Conv(r3, w4) n4 = BatchNormalization(c4, g4, h4, m4, v4) r4 = Relu(n4)
    c5 = Conv<pads=[1,1,1,1]>(r4, w5) n5 = BatchNormalization(c5, g5, h5, m5, v5)
    c6 = Conv(r4, w6) n6 = BatchNormalization(c6, g6, h6, m6, v6)
    both = Concat<axis=1>(n5, n6)
    c7 = Conv(both, w7) n7 = BatchNormalization(c7, g7, h7, m7, v7) r7 = Relu(n7)
    box = Conv(r7, wb, bb) classes = Conv(r7, wc, bc)
    rb = Reshape(box, by4) rc = Reshape(classes, by3)
    moved = Add(rb, anchors) boxes = Mul(moved, stride) scores = Sigmoid(rc)
    y = Concat<axis=1>(boxes, scores)
"""
WEIGHTS = {0: (12, 3, 3, 3), 1: (12, 1, 3, 3), 2: (12, 12, 1, 1), 3: (12, 1, 3, 3), 4: (12, 12, 1, 1),
           5: (6, 12, 3, 3), 6: (6, 12, 1, 1), 7: (12, 12, 1, 1)}  # fmt: skip


def pictures(count: int = 24) -> Any:
    """uint8 [count, SIDE, SIDE, 3]: much red, little blue, blocks of other colours."""
    rng = np.random.default_rng(3)
    found = rng.integers(0, 60, (count, SIDE, SIDE, 3)) + np.array([130, 80, 10])
    for picture in found:
        for _ in range(3):
            row, column = rng.integers(0, SIDE - 5, 2)
            picture[row : row + 5, column : column + 5] += rng.integers(-60, 60, 3)
    return np.clip(found, 0, 255).astype(np.uint8)


def detector(images: Any, *, silu: bool = False) -> onnx.ModelProto:
    """x [N, 3, SIDE, SIDE] of (pixel − 127) / 128 → y [N, 4 + 3, SIDE²]; SiLU in place of Relu."""
    rows, columns = np.mgrid[:SIDE, :SIDE].astype(np.float32)
    places = SIDE * SIDE
    constants: dict[str, Any] = {
        "wb": 0.1 * normal(4, 12, 1, 1, seed=21), "bb": normal(4, seed=22),
        "wc": 0.6 * normal(3, 12, 1, 1, seed=23), "bc": np.full(3, -2.0, np.float32),
        "by4": np.int64([0, 4, -1]), "by3": np.int64([0, 3, -1]), "stride": np.float32(4.0),
        "anchors": np.stack([columns.ravel(), rows.ravel(), columns.ravel() + 1, rows.ravel() + 1])[None],
    }  # fmt: skip
    for layer, shape in WEIGHTS.items():
        constants[f"w{layer}"] = normal(*shape, seed=layer) / np.float32(np.sqrt(np.prod(shape[1:])))
        many = shape[0]
        constants |= {
            f"g{layer}": np.float32(0.8) + 0.2 * np.abs(normal(many, seed=30 + layer)),
            f"h{layer}": 0.5 * normal(many, seed=40 + layer),
            f"m{layer}": np.zeros(many, np.float32), f"v{layer}": np.ones(many, np.float32),
        }  # fmt: skip
    body = re.sub(r"(r\d) = Relu\((n\d)\)", r"t\1 = Sigmoid(\2) \1 = Mul(\2, t\1)", BODY) if silu else BODY
    proto = onnx_model(f"float[N,3,{SIDE},{SIDE}] x", f"float[N,7,{places}] y", body, constants)
    fed = ((images.astype(np.float32) - 127) / 128).transpose(0, 3, 1, 2)
    for layer in WEIGHTS:
        _fitted(proto, layer, np.ascontiguousarray(fed))
    return proto


def _fitted(proto: onnx.ModelProto, layer: int, fed: Any) -> None:
    """The statistics of a normalization become those of what reaches it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    copy.graph.output.append(onnx.helper.make_empty_tensor_value_info(f"c{layer}"))
    session = InferenceSession(copy.SerializeToString(), providers=["CPUExecutionProvider"])
    [values] = session.run([f"c{layer}"], {"x": fed})
    for tensor in proto.graph.initializer:
        for name, axis in ((f"m{layer}", np.mean), (f"v{layer}", np.var)):
            if tensor.name == name:
                found = axis(values, axis=(0, 2, 3)).astype(np.float32)
                tensor.CopyFrom(numpy_helper.from_array(found, name))
