"""Functions of single elements, and of tensors of one shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.from_tmfile.builder import Builder
from calib8.tmfile.graph import Node

ELTWISE: Final = {
    0: "Mul", 2: "Add", 4: "Sub", 6: "Max", 10: "Div", 11: "Log", 12: "Exp", 13: "Sqrt", 14: "Floor",
    16: "Pow",
}  # fmt: skip
"""Type of an Eltwise → ONNX. The types with a scalar, and powers with factor and shift, lose these numbers in
Tengine's own writer."""

SQUARE, RSQRT = 15, 7

UNARY: Final = {
    0: "Abs", 1: "Neg", 2: "Floor", 3: "Ceil", 5: "Sqrt", 7: "Exp", 8: "Log", 9: "Sin", 10: "Cos", 11: "Tan",
    12: "Asin", 13: "Acos", 14: "Atan", 15: "Reciprocal", 16: "Tanh",
}  # fmt: skip
"""Type of a Unary → ONNX."""


def inputs(builder: Builder, node: Node) -> list[ir.Value]:
    """All that a node reads."""
    return [builder.read(place) for place in node.inputs]


def unary(op: str) -> Callable[[Builder, Node], None]:
    """A function of the first input."""

    def add(builder: Builder, node: Node) -> None:
        builder.write(node, op, [builder.read(node.inputs[0])])

    return add


def several(op: str) -> Callable[[Builder, Node], None]:
    """A function of all inputs."""

    def add(builder: Builder, node: Node) -> None:
        builder.write(node, op, inputs(builder, node))

    return add


def along_axis(op: str) -> Callable[[Builder, Node], None]:
    """Softmax and its like."""

    def add(builder: Builder, node: Node) -> None:
        builder.write(node, op, [builder.read(node.inputs[0])], axis=int(str(node.options["axis"])))

    return add


def limited(low: float, high: float) -> Callable[[Builder, Node], None]:
    """A clamp to fixed limits."""

    def add(builder: Builder, node: Node) -> None:
        clamp(builder, node, low, high)

    return add


def clamp(builder: Builder, node: Node, low: float, high: float) -> None:
    """The clamp that writes a node."""
    title = builder.name(node.outputs[0])
    limits = [builder.numbers(f"{title}/limit", limit, "float32") for limit in (low, high)]
    builder.write(node, "Clip", [builder.read(node.inputs[0]), *limits])


def clip(builder: Builder, node: Node) -> None:
    """A clamp; an upper limit is given first."""
    low, high = number(node, "min"), number(node, "max")
    if math.isnan(low) or math.isnan(high):
        raise NoFormError(f"it clips to {low} … {high}")
    clamp(builder, node, low, high)


def number(node: Node, name: str) -> float:
    """A real option."""
    return float(str(node.options[name]))


def whole(node: Node, *names: str) -> list[int]:
    """Whole options."""
    return [int(str(node.options[name])) for name in names]


def relu(builder: Builder, node: Node) -> None:
    """ReLU, or with a slope below 0."""
    slope, value = number(node, "negative_slope"), builder.read(node.inputs[0])
    if slope == 0.0:
        builder.write(node, "Relu", [value])
    else:
        builder.write(node, "LeakyRelu", [value], alpha=slope)


def elu(builder: Builder, node: Node) -> None:
    """α (eˣ − 1) below 0."""
    builder.write(node, "Elu", [builder.read(node.inputs[0])], alpha=number(node, "alpha"))


def selu(builder: Builder, node: Node) -> None:
    """λ times ELU."""
    alpha, gamma = number(node, "alpha"), number(node, "lambda")
    builder.write(node, "Selu", [builder.read(node.inputs[0])], alpha=alpha, gamma=gamma)


def hard_sigmoid(builder: Builder, node: Node) -> None:
    """α x + β, limited to 0 … 1."""
    alpha, beta = number(node, "alpha"), number(node, "beta")
    builder.write(node, "HardSigmoid", [builder.read(node.inputs[0])], alpha=alpha, beta=beta)


def mish(builder: Builder, node: Node) -> None:
    """x · tanh(ln(1 + eˣ))."""
    title, value = builder.name(node.outputs[0]), builder.read(node.inputs[0])
    inner = builder.emit(f"{title}/softplus", "Softplus", [value])
    builder.write(node, "Mul", [value, builder.emit(f"{title}/tanh", "Tanh", [inner])])


def gelu(builder: Builder, node: Node) -> None:
    """x/2 · (1 + erf(x/√2))."""
    title, value = builder.name(node.outputs[0]), builder.read(node.inputs[0])
    inner = builder.emit(
        f"{title}/scaled", "Div", [value, builder.numbers(f"{title}/root", math.sqrt(2), "float32")]
    )
    erf = builder.emit(f"{title}/erf", "Erf", [inner])
    one = builder.emit(f"{title}/shifted", "Add", [erf, builder.numbers(f"{title}/one", 1.0, "float32")])
    product = builder.emit(f"{title}/product", "Mul", [value, one])
    builder.write(node, "Mul", [product, builder.numbers(f"{title}/half", 0.5, "float32")])


def eltwise(builder: Builder, node: Node) -> None:
    """A function of one or two tensors, by its type."""
    (kind,) = whole(node, "type")
    title = builder.name(node.outputs[0])
    values = [_spread(builder, place, builder.shape(node.outputs[0])) for place in node.inputs]
    if kind == SQUARE:
        builder.write(node, "Mul", [values[0], values[0]])
    elif kind == RSQRT:
        builder.write(node, "Reciprocal", [builder.emit(f"{title}/root", "Sqrt", [values[0]])])
    elif kind in ELTWISE:
        builder.write(node, ELTWISE[kind], values)
    else:
        raise NoFormError(f"its type {kind} needs numbers that the file does not hold")


def one_of_many(builder: Builder, node: Node) -> None:
    """A function of one tensor, by its type."""
    (kind,) = whole(node, "type")
    value, title = builder.read(node.inputs[0]), builder.name(node.outputs[0])
    if kind in UNARY:
        builder.write(node, UNARY[kind], [value])
    elif kind == 4:
        builder.write(node, "Mul", [value, value])
    elif kind == 6:
        builder.write(node, "Reciprocal", [builder.emit(f"{title}/root", "Sqrt", [value])])
    else:
        raise NoFormError(f"its type {kind} is unknown")


def _spread(builder: Builder, place: int, shape: tuple[int, ...]) -> ir.Value:
    """A tensor as it meets others: numbers of one axis, one per channel, along the channels."""
    have = builder.tensor(place).shape
    if len(have) != 1 or have == (1,) or len(shape) < 3:
        return builder.read(place)
    if have[0] != shape[1]:
        raise NoFormError(f"'{builder.name(place)}' has {have[0]} numbers for {shape[1]} channels")
    sizes = [1, have[0], *[1] * (len(shape) - 2)]
    if builder.tensor(place).role == "const":
        return builder.fixed(place, np.reshape(builder.constant(place), sizes))
    title = f"{builder.name(place)}/channels"
    return builder.emit(title, "Reshape", [builder.read(place), builder.numbers(f"{title}/shape", sizes)])
