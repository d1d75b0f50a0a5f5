"""The small network that the tests of the command line work on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLAGS = ("--mean", "128", "--scale", "1/64")
"""Preprocessing of the tests' models."""


def cnn(
    extra: list[onnx.NodeProto] | None = None, *, seed: int = 0, opset: int = 17, classes: int = 5
) -> onnx.ModelProto:
    """conv1 → relu → (extra, from 'features' to 'extra') → conv2 → global pool → gemm, input N×3×16×16."""
    rng = np.random.default_rng(seed)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["sums"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["sums"], ["features"], name="relu1"),
        *(extra or []),
        helper.make_node("Conv", ["extra" if extra else "features", "w2", "b2"], ["maps"], name="conv2"),
        helper.make_node("GlobalAveragePool", ["maps"], ["pooled"], name="pool"),
        helper.make_node("Flatten", ["pooled"], ["flat"], name="flatten"),
        helper.make_node("Gemm", ["flat", "w3", "b3"], ["scores"], name="gemm", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, 16, 16])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", classes])],
        [
            weight("w1", 4, 3, 3, 3), weight("b1", 4), weight("w2", 6, 4, 3, 3), weight("b2", 6),
            weight("w3", classes, 6), weight("b3", classes),
        ],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def save(model: onnx.ModelProto, path: Path) -> Path:
    """Writes a model and gives its path back."""
    onnx.save(model, path)
    return path
