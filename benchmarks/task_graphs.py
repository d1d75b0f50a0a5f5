"""What ``task_networks.py`` changes in models: TFLite models as ONNX ones that take pictures channels first.

    N×H×W×C ─ Transpose ─► layers      becomes   N×C×H×W ─► layers
    Relu(x) + slope/2 · (x − |x|)      becomes   PRelu(x, slope)

What the network computes stays the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from onnx import helper, numpy_helper

from calib8.model.from_tflite.translate import float_model
from calib8.tflite.graph import Graph, Operator
from calib8.tflite.read import read_tflite

UPSAMPLING = "Convolution2DTransposeBias"
"""An operator of MediaPipe: x, weights [out, rows, columns, in] and bias of a transposed convolution."""


def from_tflite(file: str) -> onnx.ModelProto:
    """The ONNX model of a float TFLite one, with a batch of 1 and channels first."""
    graph = known_operators(read_tflite(file))
    model = ir.to_proto(float_model(graph, file))
    batch_of_one(model)
    channels_first(model)
    with_prelu(model)
    onnx.checker.check_model(model)
    return model


def known_operators(graph: Graph) -> Graph:
    """MediaPipe's transposed convolution as the operator of the schema."""
    return replace(graph, operators=tuple(_known(graph, operator) for operator in graph.operators))


def _known(graph: Graph, operator: Operator) -> Operator:
    if operator.custom_code != UPSAMPLING:
        return operator
    x, weights, bias = operator.inputs
    before, after = graph.tensors[x].shape, graph.tensors[operator.outputs[0]].shape
    options = {
        "padding": "SAME",
        "stride_h": after[1] // before[1],
        "stride_w": after[2] // before[2],
        "fused_activation_function": "NONE",
    }
    return replace(
        operator, op="TRANSPOSE_CONV", inputs=(-1, weights, x, bias), options=options, version=3,
        custom_code="",
    )  # fmt: skip


def batch_of_one(model: onnx.ModelProto) -> None:
    """Sets axis 0 of inputs, outputs and the last Reshape to 1."""
    graph = model.graph
    was = graph.input[0].type.tensor_type.shape.dim[0].dim_value
    if was == 1:
        return
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    del graph.value_info[:]
    sizes = {node.input[1] for node in graph.node if node.op_type == "Reshape"}
    for constant in graph.initializer:
        shape = numpy_helper.to_array(constant)
        if constant.name in sizes and shape[0] == was:
            constant.CopyFrom(numpy_helper.from_array(np.array([1, *shape[1:]]), constant.name))


def channels_first(model: onnx.ModelProto) -> None:
    """Drops the Transpose behind the input."""
    graph = model.graph
    [first] = [node for node in graph.node if node.input[0] == graph.input[0].name]
    if first.op_type != "Transpose":
        raise SystemExit(f"{graph.name}: its input goes into {first.op_type}, no Transpose")
    dims = graph.input[0].type.tensor_type.shape.dim
    moved = [dims[axis].dim_value for axis in first.attribute[0].ints]
    for dim, size in zip(dims, moved, strict=True):
        dim.dim_value = size
    for node in graph.node:
        node.input[:] = [graph.input[0].name if name == first.output[0] else name for name in node.input]
    graph.node.remove(first)


def with_prelu(model: onnx.ModelProto) -> None:
    """One PRelu in place of Relu, Abs, Sub, Mul and Add, wherever they compute it."""
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    constants = {one.name: one for one in graph.initializer}
    for add in [node for node in graph.node if node.op_type == "Add"]:
        parts = [makers.get(name) for name in add.input]
        if [getattr(part, "op_type", "") for part in parts] != ["Relu", "Mul"]:
            continue
        relu, mul = parts
        [slope] = [constants[name] for name in mul.input if name in constants]
        [sub] = [makers[name] for name in mul.input if name not in constants]
        absolute = makers[sub.input[1]]
        x = relu.input[0]
        if (sub.op_type, absolute.op_type) != ("Sub", "Abs") or {sub.input[0], absolute.input[0]} != {x}:
            continue
        values = np.float32(2) * numpy_helper.to_array(slope).reshape(-1, 1, 1)
        slope.CopyFrom(numpy_helper.from_array(values, slope.name))
        prelu = helper.make_node("PRelu", [x, slope.name], list(add.output), name=add.name)
        place = list(graph.node).index(add)
        graph.node.insert(place, prelu)
        for node in (relu, absolute, sub, mul, add):
            graph.node.remove(node)


def with_sizes(model: onnx.ModelProto, shape: tuple[int, ...]) -> None:
    """Writes the sizes of one input size, and of what a run gives for it, in place of free or other ones."""
    del model.graph.value_info[:]
    resized(model, shape)
    values = [model.graph.input[0], *model.graph.output]
    for value in values:
        value.type.tensor_type.ClearField("shape")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    results = session.run(None, {values[0].name: np.zeros(shape, np.float32)})
    for value, sizes in zip(values, [shape, *(result.shape for result in results)], strict=True):
        for size in sizes:
            value.type.tensor_type.shape.dim.add().dim_value = size


def resized(model: onnx.ModelProto, shape: tuple[int, ...]) -> None:
    """Makes the sizes that Resize nodes hold those of another input size."""
    dims = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    sizes = {node.input[3] for node in model.graph.node if node.op_type == "Resize" and len(node.input) > 3}
    for constant in (one for one in model.graph.initializer if one.name in sizes):
        was = numpy_helper.to_array(constant)
        sides = [int(size) * new // old for size, new, old in zip(was[2:], shape[2:], dims[2:], strict=True)]
        now = [*was[:2], *sides]
        constant.CopyFrom(numpy_helper.from_array(np.array(now, was.dtype), constant.name))
