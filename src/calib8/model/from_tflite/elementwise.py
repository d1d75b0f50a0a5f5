"""Functions of one tensor, and of two that are broadcast; the result lies as the operands do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.from_tflite.builder import ACTIVATIONS, Builder, onnx_type, target_shape
from calib8.model.from_tflite.orders import Order, as_filed, permutation
from calib8.tflite.graph import Operator

Translate = Callable[[Builder, Operator], None]


def common_order(builder: Builder, places: Sequence[int], rank: int) -> Order:
    """The order of the first computed tensor of so many axes that lies otherwise than filed."""
    orders = [builder.order(place) for place in places if not builder.is_constant(place)]
    return next((order for order in orders if len(order) == rank and order != as_filed(rank)), as_filed(rank))


def broadcast(builder: Builder, place: int, order: Order) -> ir.Value:
    """A tensor as an operand of others that lie in an order; one of fewer axes gets more in front."""
    sizes, rank = builder.sizes(place), len(order)
    missing = rank - len(sizes)
    if not missing or not sizes:
        return builder.read(place, order if sizes else ())
    widened = (*[1] * missing, *sizes)
    if builder.is_constant(place):
        array = builder.constant(place).reshape(target_shape(widened)).transpose(order)
        return builder.fixed(array, place)
    value, title = builder.read(place, builder.filed(place)), builder.name(place)
    shape = builder.numbers(f"{title}/shape", target_shape(widened))
    value = builder.emit(f"{title}/widened", "Reshape", [value, shape])
    if order == as_filed(rank):
        return value
    return builder.emit(f"{title}/transposed", "Transpose", [value], perm=permutation(as_filed(rank), order))


def binary(op: str) -> Translate:
    """A function of two tensors that ONNX has too."""

    def translate(builder: Builder, operator: Operator) -> None:
        y = operator.outputs[0]
        order = common_order(builder, operator.inputs, len(builder.sizes(y)))
        builder.write_activated(
            operator, order, op, [broadcast(builder, place, order) for place in operator.inputs]
        )

    return translate


def squared_difference(builder: Builder, operator: Operator) -> None:
    """(a − b)²."""
    y = operator.outputs[0]
    order = common_order(builder, operator.inputs, len(builder.sizes(y)))
    sides = [broadcast(builder, place, order) for place in operator.inputs]
    value = builder.emit(f"{builder.name(y)}/difference", "Sub", sides)
    builder.write(y, order, "Mul", [value, value])


def floor_div(builder: Builder, operator: Operator) -> None:
    """The quotient in float64, rounded down."""
    y = operator.outputs[0]
    order = common_order(builder, operator.inputs, len(builder.sizes(y)))
    _refuse_zero(builder, operator.inputs[1])
    title, double = builder.name(y), int(ir.DataType.DOUBLE)
    sides = [
        builder.emit(f"{title}/exact", "Cast", [broadcast(builder, place, order)], to=double)
        for place in operator.inputs
    ]
    quotient = builder.emit(f"{title}/floor", "Floor", [builder.emit(f"{title}/quotient", "Div", sides)])
    builder.write(y, order, "Cast", [quotient], to=int(onnx_type(builder.tensor(y))))


def floor_mod(builder: Builder, operator: Operator) -> None:
    """What a division rounded down leaves: it has the sign of the divisor."""
    y = operator.outputs[0]
    order = common_order(builder, operator.inputs, len(builder.sizes(y)))
    _refuse_zero(builder, operator.inputs[1])
    sides = [broadcast(builder, place, order) for place in operator.inputs]
    if builder.tensor(y).dtype != "float32":
        builder.write(y, order, "Mod", sides)
        return
    title, zero = builder.name(y), builder.numbers(f"{builder.name(y)}/zero", 0.0, "float32")
    rest = builder.emit(f"{title}/rest", "Mod", sides, fmod=1)
    signs = [builder.emit(f"{title}/negative", "Less", [value, zero]) for value in (rest, sides[1])]
    other = builder.emit(f"{title}/other", "Xor", signs)
    some = builder.emit(f"{title}/some", "Not", [builder.emit(f"{title}/none", "Equal", [rest, zero])])
    wrong = builder.emit(f"{title}/wrong", "And", [other, some])
    builder.write(y, order, "Where", [wrong, builder.emit(f"{title}/moved", "Add", [rest, sides[1]]), rest])


def _refuse_zero(builder: Builder, place: int) -> None:
    """Raises NoFormError of a constant divisor of 0, which LiteRT refuses."""
    if builder.is_constant(place) and not builder.constant(place).all():
        raise NoFormError(f"it divides by 0, which '{builder.name(place)}' holds")


def not_equal(builder: Builder, operator: Operator) -> None:
    """a ≠ b."""
    y = operator.outputs[0]
    order = common_order(builder, operator.inputs, len(builder.sizes(y)))
    sides = [broadcast(builder, place, order) for place in operator.inputs]
    builder.write(y, order, "Not", [builder.emit(f"{builder.name(y)}/equal", "Equal", sides)])


def unary(op: str) -> Translate:
    """A function of one tensor that ONNX has too."""

    def translate(builder: Builder, operator: Operator) -> None:
        [x], [y] = operator.inputs, operator.outputs
        builder.write(y, builder.order(x), op, [builder.read(x)])

    return translate


def activation(name: str) -> Translate:
    """An activation that other operators can have fused into them."""
    assert name in ACTIVATIONS

    def translate(builder: Builder, operator: Operator) -> None:
        [x], [y] = operator.inputs, operator.outputs
        builder.activate(y, builder.order(x), name, builder.read(x))

    return translate


def leaky_relu(builder: Builder, operator: Operator) -> None:
    """x below 0 times alpha."""
    [x], [y] = operator.inputs, operator.outputs
    alpha = float(operator.options.get("alpha", 0.0))  # type: ignore[arg-type]
    builder.write(y, builder.order(x), "LeakyRelu", [builder.read(x)], alpha=alpha)


def prelu(builder: Builder, operator: Operator) -> None:
    """x below 0 times a tensor that is broadcast."""
    x, alpha = operator.inputs
    order = builder.order(x)
    builder.write(operator.outputs[0], order, "PRelu", [builder.read(x), broadcast(builder, alpha, order)])


def gelu(builder: Builder, operator: Operator) -> None:
    """x · Φ(x), by the error function or by tanh."""
    [x], [y] = operator.inputs, operator.outputs
    value, title = builder.read(x), builder.name(y)

    def number(of: float) -> ir.Value:
        return builder.numbers(f"{title}/constant", of, "float32")

    if operator.options.get("approximate", False):
        cube = builder.emit(f"{title}/cube", "Pow", [value, number(3.0)])
        cubic = builder.emit(f"{title}/cubic", "Mul", [cube, number(0.044715)])
        inner = builder.emit(f"{title}/sum", "Add", [value, cubic])
        inner = builder.emit(f"{title}/scaled", "Mul", [inner, number(math.sqrt(2 / math.pi))])
        curve = builder.emit(f"{title}/tanh", "Tanh", [inner])
    else:
        inner = builder.emit(f"{title}/scaled", "Mul", [value, number(math.sqrt(0.5))])
        curve = builder.emit(f"{title}/erf", "Erf", [inner])
    shifted = builder.emit(f"{title}/shifted", "Add", [curve, number(1.0)])
    half = builder.emit(f"{title}/half", "Mul", [value, number(0.5)])
    builder.write(y, builder.order(x), "Mul", [half, shifted])


def rsqrt(builder: Builder, operator: Operator) -> None:
    """1 / √x."""
    [x], [y] = operator.inputs, operator.outputs
    root = builder.emit(f"{builder.name(y)}/root", "Sqrt", [builder.read(x)])
    builder.write(y, builder.order(x), "Reciprocal", [root])


def square(builder: Builder, operator: Operator) -> None:
    """x²."""
    [x], [y] = operator.inputs, operator.outputs
    builder.write(y, builder.order(x), "Mul", [builder.read(x)] * 2)


def softmax(op: str) -> Translate:
    """Softmax or its logarithm over the last axis of the file's order."""

    def translate(builder: Builder, operator: Operator) -> None:
        [x], [y] = operator.inputs, operator.outputs
        order, value = builder.order(x), builder.read(x)
        beta = float(operator.options.get("beta", 1.0))  # type: ignore[arg-type]
        if beta != 1.0:
            factor = builder.numbers(f"{builder.name(y)}/beta", beta, "float32")
            value = builder.emit(f"{builder.name(y)}/sharpened", "Mul", [value, factor])
        builder.write(y, order, op, [value], axis=order.index(len(order) - 1))

    return translate


def l2_normalization(builder: Builder, operator: Operator) -> None:
    """x / max(√Σ x², 1e-6) over the last axis."""
    [x], [y] = operator.inputs, operator.outputs
    order, value, title = builder.order(x), builder.read(x), builder.name(y)
    axis = order.index(len(order) - 1)
    length = builder.emit(f"{title}/length", "ReduceL2", [value], axes=[axis], keepdims=1)
    floor = builder.numbers(f"{title}/floor", 1e-6, "float32")
    norm = builder.emit(f"{title}/norm", "Max", [length, floor])
    builder.write_activated(operator, order, "Div", [value, norm])


def cast(builder: Builder, operator: Operator) -> None:
    """Another type; fractions are cut off."""
    [x], [y] = operator.inputs, operator.outputs
    for place in (x, y):
        if np.dtype(onnx_type(builder.tensor(place)).numpy()).kind not in "fiub":
            raise NoFormError(f"'{builder.name(place)}' holds {builder.tensor(place).dtype}")
    kind = int(onnx_type(builder.tensor(y)))
    builder.write(y, builder.order(x), "Cast", [builder.read(x)], to=kind)


def select(builder: Builder, operator: Operator) -> None:
    """Elements of one tensor or another, by a third; in SELECT by one of their shape or a single element."""
    y = operator.outputs[0]
    condition, shape = builder.sizes(operator.inputs[0]), builder.sizes(y)
    if operator.op == "SELECT" and condition not in (shape, (), (1,)):
        raise NoFormError(f"it chooses rows of {list(builder.tensor(y).shape)} by {list(condition)}")
    order = common_order(builder, operator.inputs, len(builder.sizes(y)))
    builder.write(y, order, "Where", [broadcast(builder, place, order) for place in operator.inputs])
