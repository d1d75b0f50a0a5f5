"""Codes of 2 and 4 bits and float8 in the parts that ONNX Runtime runs: the plain meaning of the graph."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from calib8 import InferenceSession
from calib8.model.load import load_model
from calib8.model.runtime import as_written, open_session

KINDS = {"int4": TensorProto.INT4, "float8": TensorProto.FLOAT8E4M3FN, "int8": TensorProto.INT8}


@pytest.mark.parametrize("kind", KINDS)
def test_a_relu_before_codes_stays(kind: str) -> None:
    """ONNX Runtime would drop it, as if the codes began at 0."""
    scale = numpy_helper.from_array(np.float32(0.4), "s")
    zero = helper.make_tensor("z", KINDS[kind], [], [0])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["a", "s", "z"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["d", "s", "z"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8, 8]) for name in "xy")
    graph = helper.make_graph(nodes, "net", [x], [y], [scale, zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feeds = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    [wanted] = open_session(load_model(model), configure=as_written).run(feeds)
    for isa in (None, "reference"):
        [found] = InferenceSession(model, isa=isa).run(None, feeds)
        np.testing.assert_array_equal(found, wanted)
    assert wanted.min() == 0.0 < wanted.max()
