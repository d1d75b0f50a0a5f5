"""Nodes without an integer form as float32 operators: the ends of networks, such as the boxes of a detector.

Axes stay in the model's order. Constants of the nodes become constants of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from calib8.errors import NoFormError
from calib8.exporting.tflite.builder import Builder
from calib8.program.instructions import Float
from calib8.tflite.graph import Option

Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Node:
    """A node while it is written.

    Attributes:
        builder: gets its operators.
        inputs: tensors, None where an input is left out.
        constants: arrays of the inputs that are constant, else None.
        outputs: tensors.
        attributes: as ONNX names them.
    """

    builder: Builder
    inputs: tuple[int | None, ...]
    constants: tuple[Any, ...]
    outputs: tuple[int, ...]
    attributes: Attributes

    def shape(self, place: int) -> tuple[int, ...]:
        """Sizes of an input."""
        number = self.inputs[place]
        assert number is not None
        return self.builder.tensors[number].shape

    def given(self) -> list[int]:
        """Tensors of the inputs that there are."""
        return [place for place in self.inputs if place is not None]


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
    foreign = [node for node in graph.node if not has_operator(node.op_type)]
    if foreign:
        listed = ", ".join(f"{node.name or node.output[0]} ({node.op_type})" for node in foreign)
        raise NoFormError(f"no operator for the float nodes {listed}")
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    values = [value for value in (*graph.value_info, *graph.output) if value.name]
    shapes = {value.name: _sizes(value) for value in values}
    places = {
        value.name: builder.tensor(number) for value, number in zip(graph.input, step.inputs, strict=True)
    }
    results = {
        value.name: builder.tensor(number) for value, number in zip(graph.output, step.outputs, strict=True)
    }
    if constant := [f"'{name}'" for node in graph.node if node.op_type == "Constant"
                    for name in node.output if name in results]:  # fmt: skip
        raise NoFormError(f"{', '.join(constant)}: an output that is constant")
    for node in graph.node:
        if node.op_type == "Constant":
            arrays[node.output[0]] = _constant(node)
            continue
        for name in node.output:
            if name:
                places[name] = results.get(name, -1)
                if places[name] < 0:
                    places[name] = builder.add(name, shapes.get(name, ()), "float32")
        _write(builder, node, places, arrays)


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

ACTIVATION: Final[dict[str, Option]] = {"fused_activation_function": "NONE"}

WRITE: Final[Mapping[str, Callable[[Node], None]]] = {
    "Abs": _plain("ABS"),
    "Add": _plain("ADD", **ACTIVATION),
    "Clip": _clip,
    "Concat": _concat,
    "Div": _plain("DIV", **ACTIVATION),
    "Exp": _plain("EXP"),
    "Flatten": _reshape,
    "Identity": _reshape,
    "Log": _plain("LOG"),
    "Mul": _plain("MUL", **ACTIVATION),
    "Neg": _plain("NEG"),
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
