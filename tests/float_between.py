"""A small QDQ model with nodes between its layers that have no integer form."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def with_floats() -> onnx.ModelProto:
    """x → Conv in int8 → a sum along an axis and a curve, in float → z_out → Conv in int8 → y."""
    random = np.random.default_rng(0)
    weights = {name: random.integers(-100, 100, (4, 4, 3, 3)).astype(np.int8) for name in ("w1", "w2")}
    constants = {
        "s": np.float32(0.05),
        "z": np.uint8(128),
        "ws": np.float32(0.02),
        "wz": np.int8(0),
        **weights,
    }
    constants["axis"] = np.int64(3)

    def codes(value: str) -> list[onnx.NodeProto]:
        return [
            helper.make_node("QuantizeLinear", [value, "s", "z"], [f"{value}_q"]),
            helper.make_node("DequantizeLinear", [f"{value}_q", "s", "z"], [f"{value}_r"]),
        ]

    def conv(value: str, weight: str, out: str) -> list[onnx.NodeProto]:
        return [
            helper.make_node("DequantizeLinear", [weight, "ws", "wz"], [f"{weight}_r"]),
            helper.make_node("Conv", [f"{value}_r", f"{weight}_r"], [out], pads=[1, 1, 1, 1], name=out),
        ]

    nodes = [
        *codes("x"), *conv("x", "w1", "c1"), *codes("c1"),
        helper.make_node("CumSum", ["c1_r", "axis"], ["sum"], name="sum"),
        helper.make_node("Erf", ["sum"], ["z_out"], name="curve"),
        *codes("z_out"), *conv("z_out", "w2", "c2"), *codes("c2"),
        helper.make_node("Identity", ["c2_r"], ["y"]),
    ]  # fmt: skip
    sizes = ["N", 4, 8, 8]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name in ("x", "y", "z_out")]
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "between", ports[:1], ports[1:], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model
