"""Small networks whose nodes are called after what they yield, their int8 models, and data for both."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

import calib8
from small_models import normal, onnx_model

CONV = "Conv<pads=[1,1,1,1]>"
DATA = normal(6, 3, 8, 8, seed=9)
RUNS = [{"x": sample[None]} for sample in DATA]


def net(body: str) -> onnx.ModelProto:
    constants = {
        "w": normal(8, 3, 3, 3),
        "u": normal(8, 8, 3, 3, seed=1),
        "a": np.array(1.37, np.float32),
        "b": np.array(-0.61, np.float32),
        "k": normal(1, 8, 1, 1, seed=2),
        "v": normal(8, 16, 3, 3, seed=4),
    }
    model = onnx_model("float[N,3,8,8] x", "float[N,8,8,8] y", body, constants)
    for node in model.graph.node:
        node.name = node.output[0]
    return model


def int8(model: onnx.ModelProto, *floats: str, target: str = "onnxruntime") -> onnx.ModelProto:
    found = calib8.quantize(
        model, DATA, keep_float=floats, target=target, method="minmax", repair=("none",), threads=1
    )
    return ir.to_proto(found.model)
