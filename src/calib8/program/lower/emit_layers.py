"""Layers with weights: Conv, ConvTranspose, Gemm, MatMul; and the product of two activations.

    DQ → layer → Add(constant) → Relu → Q     one instruction, rescaled to the codes of Q and clamped
    DQ → layer → x · sigmoid(x) → Q           one instruction, whose rule has the function (``functions``)
    DQ → layer → several quantizers or none   int32 sums; each quantizer rescales them by itself

A new kind of layer is a function that lays out input and weight and hands a ``Layer`` on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.additions import addition_behind
from calib8.model.graph import float_attribute, input_at, int_attribute, ints_attribute
from calib8.program.instructions import (
    Conv,
    ConvTranspose,
    DepthwiseConv,
    FullyConnected,
    Weighted,
)
from calib8.program.lower.builder import Builder, shape_of, step_name
from calib8.program.lower.constants import fixed, is_fixed
from calib8.program.lower.emit_products import product
from calib8.program.lower.forms import Coded, Order
from calib8.program.lower.functions import CodedLayer, function_behind, function_rule
from calib8.program.lower.layout import axis_last
from calib8.program.lower.moves import transposed
from calib8.program.lower.results import Target, coded_source, sole_target, target_of
from calib8.program.lower.weights import (
    LARGE_BIAS,
    Weights,
    bias_steps,
    coded_weights,
    in_steps,
    sum_scales,
)
from calib8.program.ops.weighted import largest_wide_sum
from calib8.program.rounding.linear import layer_rescale
from calib8.program.rules import F32, I32, Codes, LayerRescale

NEGATIVE_PADS: Final = "its padding is negative"
NOT_AN_IMAGE: Final = "only convolutions over one, two or three axes have an integer form"


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer on the way to its instruction.

    Attributes:
        node: of the graph.
        source: its input, laid out as the instruction wants it.
        weights: codes and scales.
        codes: the weight in the layout of the instruction.
        bias: as the graph has it.
        axis: logical axis of the output channels; it lies last.
        order: of the output.
        make: builds the instruction from the fields of ``Weighted``.
    """

    node: ir.Node
    source: Coded
    weights: Weights
    codes: Codes
    bias: ir.Value | None
    axis: int
    order: Order
    make: Callable[..., Weighted]


def conv(builder: Builder, node: ir.Node) -> None:
    """2-D convolutions; one filter per input channel becomes DepthwiseConv."""
    weights, source = coded_weights(node.inputs[1], 0), coded_source(builder, node)
    if weights.codes.ndim != 4 or len(source.order) != 4:
        raise NoFormError(NOT_AN_IMAGE)
    groups = int_attribute(node, "group", 1)
    strides, pads, dilations = _window(node)
    if min(pads) < 0:
        raise NoFormError(NEGATIVE_PADS)
    channels = builder.shape(source)[1]
    if groups == channels and groups > 1:
        codes = weights.codes[:, 0].transpose(1, 2, 0)

        def make(**fields: Any) -> Weighted:
            return DepthwiseConv(**fields, strides=strides, pads=pads, dilations=dilations)

    else:
        codes = weights.codes.transpose(0, 2, 3, 1)

        def make(**fields: Any) -> Weighted:
            return Conv(**fields, strides=strides, pads=pads, dilations=dilations, groups=groups)

    image = builder.as_image(source)
    emit(builder, Layer(node, image, weights, codes, input_at(node, 2), 1, image.order, make))


def conv_transpose(builder: Builder, node: ir.Node) -> None:
    """2-D transposed convolutions; weight [I, O / groups, rows, columns] → [O, rows, columns, I / groups]."""
    groups = int_attribute(node, "group", 1)
    weights, source = coded_weights(node.inputs[1], 1, groups), coded_source(builder, node)
    if weights.codes.ndim != 4 or len(source.order) != 4:
        raise NoFormError(NOT_AN_IMAGE)
    strides, pads, dilations = _window(node)
    if min(pads) < 0:
        raise NoFormError(NEGATIVE_PADS)
    inputs, outputs, rows, columns = weights.codes.shape
    split = weights.codes.reshape(groups, inputs // groups, outputs, rows, columns)
    codes = split.transpose(0, 2, 3, 4, 1).reshape(groups * outputs, rows, columns, inputs // groups)

    def make(**fields: Any) -> Weighted:
        return ConvTranspose(**fields, strides=strides, pads=pads, dilations=dilations, groups=groups)

    image = builder.as_image(source)
    emit(builder, Layer(node, image, weights, codes, input_at(node, 2), 1, image.order, make))


def gemm(builder: Builder, node: ir.Node) -> None:
    """Gemm with a constant weight and neither alpha nor beta."""
    if float_attribute(node, "alpha", 1.0) != 1.0 or float_attribute(node, "beta", 1.0) != 1.0:
        raise NoFormError("its factors alpha and beta are not 1")
    by_output = bool(int_attribute(node, "transB", 0))
    weights, source = coded_weights(node.inputs[1], 0 if by_output else 1), coded_source(builder, node)
    if int_attribute(node, "transA", 0):
        source = transposed(source, (1, 0))
    _fully_connected(builder, node, source, weights, by_output, input_at(node, 2))


def mat_mul(builder: Builder, node: ir.Node) -> None:
    """MatMul with a constant matrix on the right, or of two activations, one of which may be constant."""
    if is_fixed(node.inputs[1]) and len(shape_of(node.inputs[1])) < 3:
        weights, source = coded_weights(node.inputs[1], 1), coded_source(builder, node)
        _fully_connected(builder, node, source, weights, False, None)
    else:
        product(builder, node)


def _fully_connected(
    builder: Builder,
    node: ir.Node,
    source: Coded,
    weights: Weights,
    by_output: bool,
    bias: ir.Value | None,
) -> None:
    if weights.codes.ndim != 2 or not source.order:
        raise NoFormError(f"its weight has {weights.codes.ndim} axes")
    codes = weights.codes if by_output else weights.codes.T
    last = len(source.order) - 1
    rows = builder.in_order(source, axis_last(len(source.order), last, source.order))
    emit(builder, Layer(node, rows, weights, codes, bias, last, rows.order, FullyConnected))


def _window(node: ir.Node) -> tuple[tuple[int, int], tuple[int, int, int, int], tuple[int, int]]:
    """Strides, pads and dilations; pads are (top, left, bottom, right)."""
    top, left, bottom, right = ints_attribute(node, "pads", (0, 0, 0, 0))
    down, across = ints_attribute(node, "strides", (1, 1))
    rows, columns = ints_attribute(node, "dilations", (1, 1))
    return (down, across), (top, left, bottom, right), (rows, columns)


def emit(builder: Builder, layer: Layer) -> None:
    """The instruction, with a constant added behind the layer taken into its bias."""
    scales = sum_scales(builder.kind(layer.source).scale, layer.weights)
    if not np.all(np.isfinite(scales) & (scales > 0)):
        raise NoFormError("the steps of its sums are not float32 numbers")
    value, nodes = layer.node.outputs[0], [layer.node]
    bias = bias_steps(layer.bias, scales, shape_of(value)[layer.axis])
    addition = addition_behind(value, layer.axis, fixed)
    if addition is not None:
        bias = _with_addition(bias, in_steps(addition.values, scales))
        value, nodes = addition.node.outputs[0], [layer.node, addition.node]
    builder.fused.update(nodes[1:])
    _write(builder, layer, value, nodes, bias, scales)


def _with_addition(bias: I32, steps: I32) -> I32:
    total = bias.astype(np.int64) + steps
    if not np.array_equal(total, total.astype(np.int32)):
        raise NoFormError(LARGE_BIAS)
    return total.astype(np.int32)


def _write(
    builder: Builder, layer: Layer, value: ir.Value, nodes: list[ir.Node], bias: I32, scales: F32
) -> None:
    """Codes where exactly one kind of them is read, else sums."""
    step = layer.make(
        name=step_name(*nodes),
        inputs=(layer.source.slot,),
        outputs=(),
        rescale=None,
        low=0,
        high=0,
        weight=np.ascontiguousarray(layer.codes),
        weight_zero_point=layer.weights.zero_points,
        bias=bias,
    )
    target = sole_target(builder, value, layer.order, nodes)
    if target is not None:
        rule = layer_rescale(
            builder.profile,
            builder.kind(layer.source).scale,
            layer.weights.scales,
            target.kind.scale,
            fully_connected=layer.make is FullyConnected,
            wide_sums=largest_wide_sum(step, builder.slots[layer.source.slot]),
        )
        builder.steps.append(_delivered(step, target, rule))
    elif not _write_function(builder, layer, value, nodes, step):
        builder.forms[value] = sums = builder.sums(value, layer.order, scales)
        builder.steps.append(replace(step, outputs=(sums.slot,)))


def _write_function(
    builder: Builder, layer: Layer, value: ir.Value, nodes: list[ir.Node], step: Weighted
) -> bool:
    """Codes of the function behind the layer, if there is one that a rule can have."""
    found = function_behind(builder, value)
    if found is None:
        return False
    mark = builder.mark()
    name = step_name(*nodes, *found.nodes)
    target = target_of(builder, found.tail, found.tail.kinds[0], layer.order, name)
    slots = builder.slots[layer.source.slot], builder.slots[target.outputs[0]]
    coded_layer = CodedLayer(step, *slots, layer.weights.scales, layer.axis, target.low, target.high)
    rule = function_rule(builder.profile, found.expression, coded_layer)
    if rule is None:
        builder.back_to(mark)
        return False
    builder.fused.update(found.nodes)
    builder.steps.append(_delivered(step, target, rule))
    return True


def _delivered(step: Weighted, target: Target, rule: LayerRescale) -> Weighted:
    return replace(
        step, name=target.name, outputs=target.outputs, rescale=rule, low=target.low, high=target.high
    )
