"""Nodes without an integer form as float32 operators: the ends of networks, and layers that stay float.

Axes stay in the model's order. Constants of the nodes become constants of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper, shape_inference

from calib8.errors import NoFormError
from calib8.exporting.tflite import float_images, float_products
from calib8.exporting.tflite.builder import Builder
from calib8.exporting.tflite.float_node import ACTIVATION, Node, Write
from calib8.model.runtime import open_session
from calib8.program.instructions import Float
from calib8.tflite.graph import Option


def has_operator(op: str) -> bool:
    """Whether a node of this ONNX operator can be float in a TFLite file, with the usual attributes."""
    return op in WRITE or op == "Constant"


def float_nodes(builder: Builder, step: Float) -> None:
    """All nodes of a Float instruction, or none of them.

    Raises:
        NoFormError: those without an operator, all of them, and why they are float.
    """
    model = shape_inference.infer_shapes(onnx.load_from_string(step.model), data_prop=True)
    graph = model.graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes = _computed(model, arrays)
    foreign = [node for node in nodes if not has_operator(node.op_type)]
    if foreign:
        listed = ", ".join(f"{node.name or node.output[0]} ({node.op_type})" for node in foreign)
        raise NoFormError(f"no operator for the float nodes {listed}")
    values = [value for value in (*graph.value_info, *graph.output) if value.name]
    shapes = {value.name: _sizes(value) for value in values}
    places = {
        value.name: builder.tensor(number) for value, number in zip(graph.input, step.inputs, strict=True)
    }
    results = {
        value.name: builder.tensor(number) for value, number in zip(graph.output, step.outputs, strict=True)
    }
    if constant := [f"'{name}'" for name in results if name in arrays]:
        raise NoFormError(f"{', '.join(constant)}: an output that is constant")
    for node in nodes:
        for name in node.output:
            if name:
                places[name] = results.get(name, -1)
                if places[name] < 0:
                    places[name] = builder.add(name, shapes.get(name, ()), "float32")
        _write(builder, node, places, arrays)


def _computed(model: onnx.ModelProto, arrays: dict[str, Any]) -> list[onnx.NodeProto]:
    """The nodes that compute something of the inputs; what others make of constants goes to ``arrays``."""
    nodes = []
    for node in model.graph.node:
        if node.op_type == "Constant":
            arrays[node.output[0]] = _constant(node)
        elif node.input and all(name in arrays for name in node.input if name):
            graph = helper.make_graph(
                [node],
                "fold",
                [],
                [onnx.ValueInfoProto(name=name) for name in node.output],
                [numpy_helper.from_array(arrays[name], name) for name in node.input if name],
            )
            alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
            arrays.update(
                zip(node.output, open_session(ir.from_proto(alone), threads=1).run({}), strict=True)
            )
        else:
            nodes.append(node)
    return nodes


def _constant(node: onnx.NodeProto) -> Any:
    """The array of a Constant, in whichever attribute it is."""
    (attribute,) = node.attribute
    value = helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return numpy_helper.to_array(value)
    if attribute.name in CONSTANT_TYPES:
        return np.asarray(value, CONSTANT_TYPES[attribute.name])
    raise NoFormError(f"the constant '{node.output[0]}' is of a kind that TFLite does not have")


def _sizes(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(axis.dim_value for axis in value.type.tensor_type.shape.dim)


def _write(builder: Builder, node: onnx.NodeProto, places: dict[str, int], arrays: dict[str, Any]) -> None:
    for name in node.input:
        if name in arrays and name not in places and arrays[name].dtype == np.float32:
            places[name] = builder.constant(name, arrays[name])
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    inputs = tuple(places.get(name) if name else None for name in node.input)
    constants = tuple(arrays.get(name) for name in node.input)
    outputs = tuple(places[name] for name in node.output if name)
    shapes = [builder.tensors[place].shape for place in outputs]
    if any(min(shape, default=1) < 1 for shape in shapes):
        raise NoFormError(f"the size of '{node.output[0]}' is not known")
    WRITE[node.op_type](Node(builder, inputs, constants, outputs, attributes))


def _plain(op: str, **options: Option) -> Callable[[Node], None]:
    """An operator with the inputs of the node."""

    def write(node: Node) -> None:
        node.builder.operator(op, node.given(), node.outputs, **options)

    return write


def _reshape(node: Node) -> None:
    shape = node.builder.tensors[node.outputs[0]].shape
    inputs = [node.given()[0], node.builder.ints("shape", shape)]
    node.builder.operator("RESHAPE", inputs, node.outputs, new_shape=shape)


def _softmax(node: Node) -> None:
    """Over the last axis; others are moved there and back."""
    rank = len(node.shape(0))
    axis = node.attributes.get("axis", -1) % rank
    source, target = node.given()[0], node.outputs[0]
    if axis == rank - 1:
        node.builder.operator("SOFTMAX", [source], [target], beta=1.0)
        return
    axes = [*(place for place in range(rank) if place != axis), axis]
    sizes = [node.shape(0)[place] for place in axes]
    before, after = (node.builder.add(f"softmax/{tag}", sizes, "float32") for tag in ("before", "after"))
    node.builder.operator("TRANSPOSE", [source, node.builder.ints("perm", axes)], [before])
    node.builder.operator("SOFTMAX", [before], [after], beta=1.0)
    back = node.builder.ints("perm", np.argsort(axes).tolist())
    node.builder.operator("TRANSPOSE", [after, back], [target])


def _transpose(node: Node) -> None:
    axes = node.attributes.get("perm", tuple(reversed(range(len(node.shape(0))))))
    node.builder.operator("TRANSPOSE", [node.given()[0], node.builder.ints("perm", axes)], node.outputs)


def _concat(node: Node) -> None:
    rank = len(node.builder.tensors[node.outputs[0]].shape)
    node.builder.operator(
        "CONCATENATION", node.given(), node.outputs,
        axis=node.attributes["axis"] % rank, fused_activation_function="NONE",
    )  # fmt: skip


def _slice(node: Node) -> None:
    """Constant bounds."""
    if any(array is None for array in node.constants[1:]):
        raise NoFormError("the bounds of a Slice are computed")
    listed: list[list[int]] = [array.reshape(-1).tolist() for array in node.constants[1:]]
    starts, ends, *more = listed
    sizes = node.shape(0)
    axes = more[0] if more else list(range(len(starts)))
    steps = more[1] if len(more) > 1 else [1] * len(starts)
    first, stride = [0] * len(sizes), [1] * len(sizes)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        first[axis], _, stride[axis] = slice(start, end, step).indices(sizes[axis])
    if any(step < 1 for step in stride):
        raise NoFormError("a Slice walks backwards")
    shape = node.builder.tensors[node.outputs[0]].shape
    ends = [begin + (count - 1) * step + 1 for begin, count, step in zip(first, shape, stride, strict=True)]
    lists = [node.builder.ints("bounds", values) for values in (first, ends, stride)]
    masks: dict[str, Option] = dict.fromkeys(
        ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
    )
    node.builder.operator("STRIDED_SLICE", [node.given()[0], *lists], node.outputs, **masks)


def _clip(node: Node) -> None:
    """Bounds as inputs or as attributes."""
    bounds = {"MAXIMUM": ("min", 1), "MINIMUM": ("max", 2)}
    limits: list[tuple[str, int]] = []
    for op, (name, place) in bounds.items():
        array = node.constants[place] if len(node.constants) > place else node.attributes.get(name)
        if len(node.inputs) > place and node.inputs[place] is not None and array is None:
            raise NoFormError("the limits of a Clip are computed")
        if array is not None:
            data = np.asarray(array, np.float32).reshape(1)
            limits.append((op, node.builder.constant("limit", data)))
    source, shape = node.given()[0], node.shape(0)
    for number, (op, limit) in enumerate(limits):
        last = number == len(limits) - 1
        target = node.outputs[0] if last else node.builder.add("clip", shape, "float32")
        node.builder.operator(op, [source, limit], [target])
        source = target
    if not limits:
        _reshape(node)


CONSTANT_TYPES: Final[Mapping[str, Any]] = {
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
}
"""Attribute of a Constant that holds plain numbers → their type."""


def _clamped_line(node: Node) -> None:
    """HardSigmoid: max(0, min(1, alpha·x + beta))."""
    alpha, beta = (np.float32(node.attributes.get(*pair)) for pair in (("alpha", 0.2), ("beta", 0.5)))
    shape, sum_options = node.shape(0), {"pot_scale_int16": False, **ACTIVATION}
    scaled, moved, capped = (node.between(tag, shape) for tag in ("scaled", "moved", "capped"))
    node.builder.operator("MUL", [node.given()[0], node.fixed("alpha", [alpha])], [scaled], 1, **ACTIVATION)
    node.builder.operator("ADD", [scaled, node.fixed("beta", [beta])], [moved], 1, **sum_options)
    node.builder.operator("MINIMUM", [moved, node.fixed("one", [1.0])], [capped], 1)
    node.builder.operator("RELU", [capped], node.outputs, 1)


def _leaky_relu(node: Node) -> None:
    alpha = float(node.attributes.get("alpha", 0.01))
    node.builder.operator("LEAKY_RELU", node.given(), node.outputs, 1, alpha=alpha)


def _elu(node: Node) -> None:
    if node.attributes.get("alpha", 1.0) != 1.0:
        raise NoFormError(f"an Elu with alpha {node.attributes['alpha']}")
    node.builder.operator("ELU", node.given(), node.outputs, 1)


def _gelu(node: Node) -> None:
    approximate = node.attributes.get("approximate", b"none") == b"tanh"
    node.builder.operator("GELU", node.given(), node.outputs, 1, approximate=approximate)


WRITE: Final[Mapping[str, Write]] = {
    **float_images.WRITE,
    **float_products.WRITE,
    "Abs": _plain("ABS"),
    "Add": _plain("ADD", **ACTIVATION),
    "Clip": _clip,
    "Concat": _concat,
    "Div": _plain("DIV", **ACTIVATION),
    "Elu": _elu,
    "Exp": _plain("EXP"),
    "Flatten": _reshape,
    "Gelu": _gelu,
    "HardSigmoid": _clamped_line,
    "HardSwish": _plain("HARD_SWISH"),
    "Identity": _reshape,
    "LeakyRelu": _leaky_relu,
    "Log": _plain("LOG"),
    "Mul": _plain("MUL", **ACTIVATION),
    "Neg": _plain("NEG"),
    "Pow": _plain("POW"),
    "Relu": _plain("RELU"),
    "Reshape": _reshape,
    "Sigmoid": _plain("LOGISTIC"),
    "Slice": _slice,
    "Softmax": _softmax,
    "Sqrt": _plain("SQRT"),
    "Squeeze": _reshape,
    "Sub": _plain("SUB", **ACTIVATION),
    "Tanh": _plain("TANH"),
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
}
"""ONNX operator → what adds its float32 operators."""
