"""Functions of single elements, and of tensors that meet each other, from ONNX to Tengine.

Of two tensors the second may be a number, have one number per channel, or the shape of the first: other
shapes Tengine's kernels do not take.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.exporting.tmfile.net import Net
from calib8.model.graph import float_attribute
from calib8.ops.questions import adds, multiplies
from calib8.passes.functions import clip_limits
from calib8.tmfile.graph import Option, made_name

Translate = Callable[[Net, ir.Node], None]

LARGEST: Final = float(np.finfo(np.float32).max)
"""Where a Clip has no limit."""


AXES: Final = (3, 4)
"""Of tensors that an Eltwise takes."""

NEGATIVE: Final = 1
"""Type of a Unary."""

PRODUCT, LARGER = 0, 6
"""Types of an Eltwise."""


def same(op: str) -> Translate:
    """An operator without options, of all inputs, which have one shape."""

    def add(net: Net, node: ir.Node) -> None:
        _check_same(net, node)
        net.write(node, op, [net.read(value) for value in node.inputs])

    return add


def smallest(net: Net, node: ir.Node) -> None:
    """min(a, b, …) = −max(−a, −b, …): files with Tengine's own operator for it are not loaded there."""
    _check_same(net, node)
    shape, title = net.shape(node.outputs[0]), node.outputs[0].name
    negated = []
    for value in node.inputs:
        op, inputs, options = _negation(net, net.read(value), shape)
        negated.append(net.emit(made_name(title, "negated"), shape, op, inputs, **options))
    op, inputs, options = _maximum(net, title, negated, shape)
    most = net.emit(made_name(title, "largest"), shape, op, inputs, **options)
    op, inputs, options = _negation(net, most, shape)
    net.write(node, op, inputs, **options)


def largest(net: Net, node: ir.Node) -> None:
    """The largest of tensors of one shape, two by two, for which there is an int8 kernel."""
    _check_same(net, node)
    tensors, title = [net.read(value) for value in node.inputs], node.outputs[0].name
    op, inputs, options = _maximum(net, title, tensors, net.shape(node.outputs[0]))
    net.write(node, op, inputs, **options)


def _maximum(
    net: Net, title: str | None, tensors: list[str], shape: tuple[int, ...]
) -> tuple[str, list[str], dict[str, Option]]:
    """Operator, inputs and options of the last step; those before it are there."""
    if len(tensors) < 2 or len(shape) not in AXES:
        return "Maximum", tensors, {}
    options: dict[str, Option] = {"type": LARGER, "caffe_flavor": 0}
    first, *others, last = tensors
    for tensor in others:
        first = net.emit(made_name(title, "largest"), shape, "Eltwise", [first, tensor], **options)
    return "Eltwise", [first, last], options


def _negation(net: Net, tensor: str, shape: tuple[int, ...]) -> tuple[str, list[str], dict[str, Option]]:
    """Operator, inputs and options: a product with −1 where there is an int8 kernel for it."""
    if len(shape) not in AXES:
        return "Unary", [tensor], {"type": NEGATIVE}
    minus = net.new_const(f"{tensor}/minus", np.full(1, -1, np.float32))
    return "Eltwise", [tensor, minus], {"type": PRODUCT, "caffe_flavor": 0}


def _check_same(net: Net, node: ir.Node) -> None:
    if len({net.shape(value) for value in (*node.inputs, node.outputs[0])}) != 1:
        raise NoFormError("its inputs differ in shape")


def unary(kind: int) -> Translate:
    """A function of one tensor, by its type."""

    def add(net: Net, node: ir.Node) -> None:
        net.write(node, "Unary", [net.read(node.inputs[0])], type=kind)

    return add


def eltwise(kind: int) -> Translate:
    """A function of one tensor, or of two that meet each other, by its type."""

    def add(net: Net, node: ir.Node) -> None:
        values, shape = list(node.inputs), net.shape(node.outputs[0])
        if len(shape) not in AXES:
            raise NoFormError(f"its tensors have {len(shape)} axes; Tengine's kernel takes 3 or 4")
        if len(values) == 2:
            if net.shape(values[0]) != shape and (adds(node) or multiplies(node)):
                values.reverse()
            shapes = [net.shape(value) for value in values]
            if shapes[0] != shape or not _meets(shapes[1], shape):
                raise NoFormError(f"{list(shapes[0])} and {list(shapes[1])} do not meet in Tengine")
        net.write(node, "Eltwise", [net.read(value) for value in values], type=kind, caffe_flavor=0)

    return add


def _meets(second: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """A number, numbers along the channels, or the same shape."""
    if math.prod(second) == 1 or second == shape:
        return True
    lengths = (1,) * (len(shape) - len(second)) + second
    return len(shape) >= 3 and lengths[1] == shape[1] == math.prod(second)


def relu(net: Net, node: ir.Node) -> None:
    """0 below 0."""
    net.write(node, "ReLU", [net.read(node.inputs[0])], negative_slope=0.0)


def leaky_relu(net: Net, node: ir.Node) -> None:
    """A slope below 0."""
    net.write(node, "ReLU", [net.read(node.inputs[0])], negative_slope=float_attribute(node, "alpha", 0.01))


def clip(net: Net, node: ir.Node) -> None:
    """A clamp."""
    for value in node.inputs[1:]:
        if value is not None:
            net.array(value)
    low, high = clip_limits(node)
    net.write(node, "Clip", [net.read(node.inputs[0])], max=min(high, LARGEST), min=max(low, -LARGEST))


def elu(net: Net, node: ir.Node) -> None:
    """α (eˣ − 1) below 0."""
    net.write(node, "Elu", [net.read(node.inputs[0])], alpha=float_attribute(node, "alpha", 1.0))


def selu(net: Net, node: ir.Node) -> None:
    """λ times ELU."""
    options = {
        "alpha": float_attribute(node, "alpha", 1.67326319217681884765625),
        "lambda": float_attribute(node, "gamma", 1.05070102214813232421875),
    }
    net.write(node, "Selu", [net.read(node.inputs[0])], **options)


def hard_sigmoid(net: Net, node: ir.Node) -> None:
    """α x + β, limited to 0 … 1."""
    alpha, beta = float_attribute(node, "alpha", 0.2), float_attribute(node, "beta", 0.5)
    net.write(node, "HardSigmoid", [net.read(node.inputs[0])], alpha=alpha, beta=beta)


def hard_swish(net: Net, node: ir.Node) -> None:
    """x · max(0, min(1, x/6 + ½)); Tengine's kernel does not look at the options, which are its defaults."""
    net.write(node, "HardSwish", [net.read(node.inputs[0])], alpha=1.0, beta=0.0)


def summed(net: Net, node: ir.Node) -> None:
    """The sum of tensors of one shape."""
    _check_same(net, node)
    net.write(node, "AddN", [net.read(value) for value in node.inputs], axis=0)


def gone(net: Net, node: ir.Node) -> None:
    """What gives its input on; an output of the model needs a node, a Concat of one, which int8 has too."""
    if node.outputs[0].is_graph_output():
        net.write(node, "Concat", [net.read(node.inputs[0])], axis=0)
        return
    net.follows(node.outputs[0], net.read(node.inputs[0]))
