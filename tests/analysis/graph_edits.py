"""Edits of a ModelProto, each of which breaks exactly one thing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper


def node(proto: onnx.ModelProto, name: str) -> onnx.NodeProto:
    return next(node for node in proto.graph.node if node.name == name)


def array(proto: onnx.ModelProto, name: str) -> npt.NDArray[Any]:
    return numpy_helper.to_array(next(tensor for tensor in proto.graph.initializer if tensor.name == name))


def store(proto: onnx.ModelProto, name: str, values: Any) -> str:
    """Adds a constant, or replaces the one of that name."""
    tensor = numpy_helper.from_array(np.asarray(values), name)
    for info in [info for info in proto.graph.value_info if info.name == name]:
        proto.graph.value_info.remove(info)
    for old in proto.graph.initializer:
        if old.name == name:
            old.CopyFrom(tensor)
            return name
    proto.graph.initializer.append(tensor)
    return name


def recode(proto: onnx.ModelProto, name: str, dtype: type[np.integer[Any]]) -> None:
    """Gives codes or a zero point another type."""
    store(proto, name, array(proto, name).astype(dtype))


def drop_attribute(proto: onnx.ModelProto, name: str, attribute: str) -> None:
    target = node(proto, name)
    kept = [item for item in target.attribute if item.name != attribute]
    del target.attribute[:]
    target.attribute.extend(kept)


def set_axis(proto: onnx.ModelProto, name: str, axis: int) -> None:
    drop_attribute(proto, name, "axis")
    node(proto, name).attribute.append(helper.make_attribute("axis", axis))


def rewire(proto: onnx.ModelProto, name: str, index: int, value: str) -> None:
    node(proto, name).input[index] = value


def insert(proto: onnx.ModelProto, before: str, *new: onnx.NodeProto) -> None:
    position = list(proto.graph.node).index(node(proto, before))
    for offset, item in enumerate(new):
        proto.graph.node.insert(position + offset, item)


def pair(proto: onnx.ModelProto, value: str, scale: float, zero_point: Any, tag: str) -> list[onnx.NodeProto]:
    """Q and DQ behind ``value``; the result is called ``tag``."""
    parameters = [
        store(proto, f"{tag}/scale", np.float32(scale)),
        store(proto, f"{tag}/zero_point", zero_point),
    ]
    return [
        helper.make_node("QuantizeLinear", [value, *parameters], [f"{tag}/codes"], name=f"{tag}/Q"),
        helper.make_node("DequantizeLinear", [f"{tag}/codes", *parameters], [tag], name=f"{tag}/DQ"),
    ]


def float_constant(proto: onnx.ModelProto, layer: str, index: int) -> None:
    """Input ``index`` of a layer becomes a float constant instead of the result of its DequantizeLinear."""
    source = next(item for item in proto.graph.node if node(proto, layer).input[index] in item.output)
    codes, scale = array(proto, source.input[0]), array(proto, source.input[1])
    axis = next((item.i for item in source.attribute if item.name == "axis"), 0)
    shape = [1] * codes.ndim
    shape[axis] = -1
    name = store(proto, f"{layer}/float{index}", codes.astype(np.float32) * scale.reshape(shape))
    rewire(proto, layer, index, name)


def add_output(proto: onnx.ModelProto, value: str, kind: int = TensorProto.FLOAT) -> None:
    proto.graph.output.append(helper.make_tensor_value_info(value, kind, None))
    proto.graph.output[-1].type.tensor_type.shape.SetInParent()
    for _ in range(4):
        proto.graph.output[-1].type.tensor_type.shape.dim.add()


def unquantize_output(proto: onnx.ModelProto, name: str) -> None:
    """An output of the graph comes from its layer directly, without Q and DQ."""
    for item in list(proto.graph.node):
        if item.name in (f"{name}/QuantizeLinear", f"{name}/DequantizeLinear"):
            proto.graph.node.remove(item)
    for item in proto.graph.node:
        if item.output[0] == f"{name}/float":
            item.output[0] = name


def renamed(proto: onnx.ModelProto, names: dict[str, str]) -> onnx.ModelProto:
    """The model with other names of values, changed in place."""
    for node in proto.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    del proto.graph.value_info[:]
    return proto
