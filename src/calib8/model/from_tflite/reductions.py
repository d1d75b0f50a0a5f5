"""Reductions over axes of the file's order, and the place of the largest or smallest element."""

from __future__ import annotations

from calib8.errors import NoFormError
from calib8.model.from_tflite.builder import Builder, onnx_type
from calib8.model.from_tflite.elementwise import Translate
from calib8.model.from_tflite.orders import Order, as_filed, without
from calib8.tflite.graph import Operator


def axis_of(builder: Builder, axis: int, place: int) -> int:
    """An axis of a tensor, counted from the front.

    Raises:
        NoFormError: the tensor has no such axis.
    """
    rank = len(builder.sizes(place))
    if not -rank <= axis < rank:
        raise NoFormError(f"it works along axis {axis} of '{builder.name(place)}', which has {rank}")
    return axis % rank


def reduction(op: str) -> Translate:
    """MEAN, SUM and the like."""

    def translate(builder: Builder, operator: Operator) -> None:
        x, y = operator.inputs[0], operator.outputs[0]
        axes = sorted({axis_of(builder, axis, x) for axis in builder.integers(operator.inputs[1])})
        order = builder.order(x)
        keep = bool(operator.options.get("keep_dims", False))
        left = order if keep else without(order, axes)
        inputs, places = [builder.read(x)], [order.index(axis) for axis in axes]
        if not axes:
            builder.write(y, order, "Identity", inputs)
        elif op == "ReduceSum":
            inputs.append(builder.numbers(f"{builder.name(y)}/axes", sorted(places)))
            builder.write(y, left, op, inputs, keepdims=int(keep))
        else:
            builder.write(y, left, op, inputs, axes=sorted(places), keepdims=int(keep))

    return translate


def arg(op: str) -> Translate:
    """ARG_MAX, ARG_MIN: the first among equals."""

    def translate(builder: Builder, operator: Operator) -> None:
        x, y = operator.inputs[0], operator.outputs[0]
        order = builder.order(x)
        [axis] = (axis_of(builder, axis, x) for axis in builder.integers(operator.inputs[1]))
        left: Order = without(order, [axis])
        attributes = {"axis": order.index(axis), "keepdims": 0}
        if builder.tensor(y).dtype == "int64":
            builder.write(y, left, op, [builder.read(x)], **attributes)
            return
        index = builder.emit(f"{builder.name(y)}/index", op, [builder.read(x)], **attributes)
        builder.write(y, left, "Cast", [index], to=int(onnx_type(builder.tensor(y))))

    return translate


def shape(builder: Builder, operator: Operator) -> None:
    """Sizes of a tensor, in the order of the file."""
    x, y = operator.inputs[0], operator.outputs[0]
    order = builder.order(x)
    sizes = builder.emit(f"{builder.name(y)}/sizes", "Shape", [builder.read(x)])
    places = [order.index(axis) for axis in as_filed(len(order))]
    picked = builder.emit(
        f"{builder.name(y)}/filed", "Gather", [sizes, builder.numbers(f"{builder.name(y)}/places", places)]
    )
    builder.write(y, as_filed(1), "Cast", [picked], to=int(onnx_type(builder.tensor(y))))
