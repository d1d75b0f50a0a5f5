"""What ``inspect`` tells of LSTM, GRU and RNN, float and with weights in codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import calib8
from calib8.analysis.inspect import inspect_model

STEPS, SIZE, HIDDEN = 7, 5, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def network(op: str, directions: int) -> onnx.ModelProto:
    """A layer that takes [7, 1, 5], and a product behind its last states."""
    rng = np.random.default_rng(3)
    shapes = {
        "W": (directions, GATES[op] * HIDDEN, SIZE), "R": (directions, GATES[op] * HIDDEN, HIDDEN),
        "V": (HIDDEN, 3),
    }  # fmt: skip
    constants = [
        numpy_helper.from_array(rng.standard_normal(shape, np.float32), name)
        for name, shape in shapes.items()
    ]
    direction = "bidirectional" if directions == 2 else "forward"
    nodes = [
        helper.make_node(op, ["x", "W", "R"], ["", "h"], "cell", hidden_size=HIDDEN, direction=direction),
        helper.make_node("MatMul", ["h", "V"], ["y"], "product"),
    ]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, 1, SIZE])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [source], [result], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


@pytest.mark.parametrize(("op", "directions"), [("LSTM", 1), ("GRU", 2), ("RNN", 1)])
def test_every_product_of_a_step_counts(op: str, directions: int, tmp_path: Path) -> None:
    onnx.save(network(op, directions), tmp_path / "float.onnx")
    (cell,) = [layer for layer in inspect_model(tmp_path / "float.onnx").layers if layer.name == "cell"]
    assert cell.macs == STEPS * directions * GATES[op] * HIDDEN * (SIZE + HIDDEN)
    assert not cell.quantized and cell.reason


@pytest.mark.parametrize(("op", "directions"), [("LSTM", 1), ("LSTM", 2), ("GRU", 2)])
def test_codes_of_weights_alone_are_told(op: str, directions: int, tmp_path: Path) -> None:
    proto = network(op, directions)
    onnx.save(proto, tmp_path / "float.onnx")
    samples = [{"x": np.random.default_rng(4).standard_normal((STEPS, 1, SIZE), np.float32)}]
    int8 = calib8.quantize(
        tmp_path / "float.onnx", samples, target="calib8", method="minmax", repair=("none",)
    )
    int8.save(tmp_path / "int8.onnx")
    (cell,) = [layer for layer in inspect_model(tmp_path / "int8.onnx").layers if layer.name == "cell"]
    assert cell.reason == "its weights alone are codes, its gates and states float32" and cell.engine == ""
    assert cell.parameters == directions * GATES[op] * HIDDEN * (SIZE + HIDDEN)
