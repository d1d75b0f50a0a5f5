"""Pools over windows, means, lengths, extremes and their indices over axes, Softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Literal

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import input_at, int_attribute, ints_attribute
from calib8.ops.groups import GLOBAL_POOLS
from calib8.program.instructions import (
    ArgMax,
    ArgMin,
    AveragePool,
    Instruction,
    MaxPool,
    Mean,
    ReduceL2,
    ReduceMax,
    ReduceMin,
    Reshape,
    Softmax,
)
from calib8.program.lower.builder import Builder, shape_of, step_name
from calib8.program.lower.constants import fixed
from calib8.program.lower.forms import Coded, CodeType, Order, Real
from calib8.program.lower.layout import axis_last, physical, without_axes
from calib8.program.lower.readers import tail_of
from calib8.program.lower.results import NO_QUANTIZER, Target, coded_source, deliver
from calib8.program.program import Slot
from calib8.program.rounding.linear import clamp
from calib8.program.rounding.pools import average_rule, mean_rule
from calib8.program.rounding.quotient import length_rule
from calib8.program.rounding.softmax import softmax_rule

NOT_AN_IMAGE = "only pools over one, two or three axes have an integer form"
Maker = Callable[[Target], Instruction]


def max_pool(builder: Builder, node: ir.Node) -> None:
    """Largest code of a window."""
    source, value = coded_source(builder, node), node.outputs[0]
    if len(source.order) != 4:
        raise NoFormError(NOT_AN_IMAGE)
    refuse_indices(builder, node)
    image = builder.as_image(source)
    kernel, strides, pads = _window(node)
    rows, columns = ints_attribute(node, "dilations", (1, 1))
    builder.forms[value] = builder.moved(
        image,
        physical(shape_of(value), image.order),
        image.order,
        lambda ports: MaxPool(*ports, kernel, strides, pads, (rows, columns)),
        value,
    )


def refuse_indices(builder: Builder, node: ir.Node) -> None:
    """Raises NoFormError of a MaxPool that somebody reads the indices of."""
    if len(node.outputs) > 1 and (builder.readers.get(node.outputs[1]) or node.outputs[1].is_graph_output()):
        raise NoFormError("somebody reads its indices")


def refuse_dilations(node: ir.Node) -> None:
    """Raises NoFormError of an AveragePool whose window has gaps."""
    if any(size != 1 for size in ints_attribute(node, "dilations", ())):
        raise NoFormError("its window is dilated")


def average_pool(builder: Builder, node: ir.Node) -> None:
    """Mean of a window."""
    source = coded_source(builder, node)
    if len(source.order) != 4:
        raise NoFormError(NOT_AN_IMAGE)
    refuse_dilations(node)
    image = builder.as_image(source)
    own = builder.kind(image)
    kernel, strides, pads = _window(node)
    if builder.profile == "onnx" and kernel == builder.shape(source)[2:] and not any(pads):
        mean(builder, node)  # ONNX Runtime takes its global kernel
        return
    count_pads = bool(int_attribute(node, "count_include_pad", 0))

    def make(to: Target) -> Instruction:
        rule = average_rule(builder.profile, own.qparams, to.kind.qparams, math.prod(kernel))
        window = (kernel, strides, pads, count_pads)
        return AveragePool(to.name, (image.slot,), to.outputs, *window, rule, to.low, to.high)

    if builder.profile == "tflite":
        rounded(builder, node, image.order, own, make)
    else:
        deliver(builder, node, image.order, make)


def rounded(builder: Builder, node: ir.Node, order: Order, kind: CodeType, make: Maker) -> None:
    """The result in codes of the operator's own choice; quantizers change them by a table."""
    value = node.outputs[0]
    if not tail_of(value).only_codes:
        raise NoFormError(NO_QUANTIZER)
    result = builder.codes(value, order, kind)
    low, high = clamp(builder.profile, builder.slots[result.slot], None, None)
    builder.steps.append(make(Target(step_name(node), (result.slot,), kind, low, high)))
    builder.forms[value] = result


def _window(node: ir.Node) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int, int, int]]:
    """Kernel, strides and pads; pads are (top, left, bottom, right)."""
    rows, columns = ints_attribute(node, "kernel_shape", (1, 1))
    down, across = ints_attribute(node, "strides", (1, 1))
    top, left, bottom, right = ints_attribute(node, "pads", (0, 0, 0, 0))
    return (rows, columns), (down, across), (top, left, bottom, right)


def mean(builder: Builder, node: ir.Node) -> None:
    """GlobalAveragePool, ReduceMean, ReduceSum, and an AveragePool of the whole image."""
    source = coded_source(builder, node)
    axes = _reduced_axes(node, len(source.order))
    if axes is None:
        raise NoFormError("its axes are computed")
    image = builder.as_image(source) if len(source.order) == 4 else source
    count = math.prod(builder.shape(source)[axis] for axis in axes)
    places, order = _placed(image, axes, keeps=_keeps_axes(node))
    own = builder.kind(image).scale

    def make(to: Target) -> Instruction:
        kind: Literal["mean", "sum"] = "sum" if node.op_type == "ReduceSum" else "mean"
        rule = mean_rule(builder.profile, own, to.kind.scale, count, kind)
        return Mean(to.name, (image.slot,), to.outputs, places, rule, to.low, to.high)

    deliver(builder, node, order, make)


def length(builder: Builder, node: ir.Node) -> None:
    """ReduceL2."""
    source = coded_source(builder, node)
    axes = _reduced_axes(node, len(source.order))
    if axes is None:
        raise NoFormError("its axes are computed")
    places, order = _placed(source, axes, keeps=_keeps_axes(node))
    own = builder.kind(source).scale

    def make(to: Target) -> Instruction:
        rule = length_rule(builder.profile, own, to.kind.scale)
        return ReduceL2(to.name, (source.slot,), to.outputs, places, rule, to.low, to.high)

    deliver(builder, node, order, make)


def extreme(builder: Builder, node: ir.Node) -> None:
    """GlobalMaxPool, ReduceMax, ReduceMin."""
    source, value = coded_source(builder, node), node.outputs[0]
    axes = _reduced_axes(node, len(source.order))
    if axes is None:
        raise NoFormError("its axes are computed")
    places, order = _placed(source, axes, keeps=_keeps_axes(node))
    make = ReduceMin if node.op_type == "ReduceMin" else ReduceMax
    sizes = physical(shape_of(value), order)
    builder.forms[value] = builder.moved(source, sizes, order, lambda ports: make(*ports, places), value)


WHOLE_IMAGE: Final = GLOBAL_POOLS | {"AveragePool"}
"""Pools that are seen as reductions; an AveragePool is one if its window is the image."""


def _reduced_axes(node: ir.Node, rank: int) -> tuple[int, ...] | None:
    """Logical axes that are reduced; None where they are computed or there are none."""
    if node.op_type in WHOLE_IMAGE:
        return tuple(range(2, rank))
    given = input_at(node, 1)
    array = fixed(given)
    if given is not None and array is None:
        return None
    listed = ints_attribute(node, "axes", ()) if array is None else tuple(array.reshape(-1).tolist())
    if not listed and int_attribute(node, "noop_with_empty_axes", 0):
        return None
    return tuple(sorted(int(axis) % rank for axis in listed)) or tuple(range(rank)) or None


def _keeps_axes(node: ir.Node) -> bool:
    return node.op_type in WHOLE_IMAGE or bool(int_attribute(node, "keepdims", 1))


def _placed(source: Coded, axes: Sequence[int], *, keeps: bool) -> tuple[tuple[int, ...], Order]:
    """Physical axes, and the order of the result."""
    places = tuple(sorted(source.order.index(axis) for axis in axes))
    return places, source.order if keeps else without_axes(source.order, axes)


def arg_extreme(builder: Builder, node: ir.Node) -> None:
    """Index of the largest or smallest code, int64 in logical order."""
    kind = ArgMax if node.op_type == "ArgMax" else ArgMin
    source, value = coded_source(builder, node), node.outputs[0]
    rank = len(source.order)
    axis = int_attribute(node, "axis", 0) % rank
    if without_axes(source.order, [axis]) != tuple(range(rank - 1)):
        source = builder.in_logical_order(source)
    place = source.order.index(axis)
    last = bool(int_attribute(node, "select_last_index", 0))
    sizes = builder.slots[source.slot].shape
    kept = int_attribute(node, "keepdims", 1)
    shape = (*sizes[:place], *((1,) if kept else ()), *sizes[place + 1 :])
    inputs, result = (source.slot,), builder.plain(value)
    if shape != builder.slots[result].shape:
        number = builder.slot(Slot(f"{value.name}/index", shape, builder.slots[result].dtype))
        builder.steps.append(kind(step_name(node), inputs, (number,), place, last))
        builder.steps.append(Reshape(step_name(node), (number,), (result,)))
    else:
        builder.steps.append(kind(step_name(node), inputs, (result,), place, last))
    builder.forms[value] = Real(result)


def softmax(builder: Builder, node: ir.Node) -> None:
    """Softmax over one axis, which is laid out last."""
    source = coded_source(builder, node)
    rank = len(source.order)
    axis = int_attribute(node, "axis", -1) % rank
    rows = builder.in_order(source, axis_last(rank, axis, source.order))
    own = builder.kind(rows)
    classes = builder.shape(rows)[axis]

    def make(to: Target) -> Instruction:
        rule = softmax_rule(builder.profile, own.scale, own.dtype, to.kind.qparams, to.kind.dtype, classes)
        return Softmax(to.name, (rows.slot,), to.outputs, rule)

    if builder.profile == "tflite":
        shares = CodeType(own.dtype, 1 / 256, int(np.iinfo(own.dtype).min))
        rounded(builder, node, rows.order, shares, make)
        return
    if tail_of(node.outputs[0]).activations:
        raise NoFormError("an activation follows it")
    deliver(builder, node, rows.order, make)
