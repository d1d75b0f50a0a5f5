"""Small streaming models in QDQ form: a convolution, an LSTM whose states are an input and an output."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

import calib8

FRAME, UNITS = 6, 4
Array = npt.NDArray[np.float32]


def normal(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def streaming(state: str = "state", out: str = "stateN", **sizes: Any) -> onnx.ModelProto:
    """x [1, 6] → MatMul → LSTM with first states of ``state`` [2, 1, 4] → y [1, 2] and ``out`` [2, 1, 4]."""
    constants = {
        "w": normal(FRAME, 5, seed=1),
        "W": normal(1, 4 * UNITS, 5, seed=2),
        "R": normal(1, 4 * UNITS, UNITS, seed=3),
        "v": normal(UNITS, 2, seed=4),
        "zero": np.array(0),
        "one": np.array(1),
        "front": np.array([0]),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="layer"),
        helper.make_node("Unsqueeze", ["a", "front"], ["seq"]),
        helper.make_node("Gather", [state, "zero"], ["h"], axis=0),
        helper.make_node("Gather", [state, "one"], ["c"], axis=0),
        helper.make_node("Unsqueeze", ["h", "front"], ["h0"]),
        helper.make_node("Unsqueeze", ["c", "front"], ["c0"]),
        helper.make_node("LSTM", ["seq", "W", "R", "", "", "h0", "c0"], ["", "hn", "cn"], hidden_size=UNITS),
        helper.make_node("Concat", ["hn", "cn"], [out], axis=0),
        helper.make_node("Squeeze", ["hn", "front"], ["flat"]),
        helper.make_node("MatMul", ["flat", "v"], ["y"], name="head"),
    ]
    shapes: dict[str, Any] = {"x": [1, FRAME], state: [2, 1, UNITS], "y": [1, 2], out: [2, 1, UNITS]} | sizes
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in ("x", state)]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in ("y", out)]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "streaming", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


@cache
def quantized() -> bytes:
    """The model for target ``calib8``, calibrated with two streams of frames."""
    frames = normal(40, FRAME, seed=9)
    marks = np.zeros(40, np.int64)
    marks[[0, 20]] = 1
    made = calib8.quantize(streaming(), {"x": frames, "reset": marks}, target="calib8", effort="fast")
    return ir.to_proto(made.model).SerializeToString()
