"""What picks elements by rank or by indices of several axes, or turns axes around."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.from_tflite.builder import Builder, onnx_type
from calib8.model.from_tflite.reductions import axis_of
from calib8.tflite.graph import Operator


def gather_nd(builder: Builder, operator: Operator) -> None:
    """Parts whose place along the first axes a row of indices names."""
    x, indices = operator.inputs
    y = operator.outputs[0]
    depth = (builder.sizes(indices) or (0,))[-1]
    if not depth:
        raise NoFormError("its rows of indices are empty")
    if builder.is_constant(indices) and (builder.constant(indices) < 0).any():
        raise NoFormError("an index is below 0")
    value = builder.read(indices, builder.filed(indices))
    if builder.tensor(indices).dtype != "int64":
        value = builder.emit(f"{builder.name(y)}/indices", "Cast", [value], to=int(ir.DataType.INT64))
    builder.write(y, builder.filed(y), "GatherND", [builder.read(x, builder.filed(x)), value])


def reverse_v2(builder: Builder, operator: Operator) -> None:
    """The elements along some axes from the last to the first."""
    x, y = operator.inputs[0], operator.outputs[0]
    order, title = builder.order(x), builder.name(y)
    axes = [order.index(axis_of(builder, axis, x)) for axis in builder.integers(operator.inputs[1])]
    bounds = [[-1] * len(axes), [-(1 << 31)] * len(axes), axes, [-1] * len(axes)]
    lists = [builder.numbers(f"{title}/bounds", values) for values in bounds]
    builder.write(y, order, "Slice", [builder.read(x), *lists])


def topk_v2(builder: Builder, operator: Operator) -> None:
    """The largest elements along the last axis and their places, the first among equals first."""
    x, (values, places) = operator.inputs[0], operator.outputs
    [count] = builder.integers(operator.inputs[1])
    if not 1 <= count <= builder.size(x, len(builder.sizes(x)) - 1):
        raise NoFormError(f"it takes the {count} largest of {list(builder.tensor(x).shape)}")
    found = builder.emit_several(
        f"{builder.name(values)}/best", "TopK",
        [builder.read(x, builder.filed(x)), builder.numbers(f"{builder.name(values)}/count", [count])], 2,
    )  # fmt: skip
    builder.write(values, builder.filed(values), "Identity", found[:1])
    kind = int(onnx_type(builder.tensor(places)))
    builder.write(places, builder.filed(places), "Cast", found[1:], to=kind)


def cumsum(builder: Builder, operator: Operator) -> None:
    """Sums of all elements before, with or without the element itself, from either end."""
    x, y = operator.inputs[0], operator.outputs[0]
    [along] = builder.integers(operator.inputs[1])
    order = builder.order(x)
    axis = builder.numbers(f"{builder.name(y)}/axis", np.int64(order.index(axis_of(builder, along, x))))
    options = {name: int(bool(operator.options.get(name, False))) for name in ("exclusive", "reverse")}
    builder.write(y, order, "CumSum", [builder.read(x), axis], **options)


def add_n(builder: Builder, operator: Operator) -> None:
    """The sum of several tensors, one after the other."""
    y, (first, *others) = operator.outputs[0], operator.inputs
    order = builder.order(first)
    total = builder.read(first)
    for place in others[:-1]:
        total = builder.emit(f"{builder.name(y)}/sum", "Add", [total, builder.read(place, order)])
    last = [builder.read(place, order) for place in others[-1:]]
    builder.write(y, order, "Add" if last else "Identity", [total, *last])
