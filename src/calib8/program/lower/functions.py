"""Functions behind a layer without codes between them: the sums go through both in one instruction.

    DQ → layer → LeakyRelu | PRelu → Q           TwoSidedRescale
    DQ → layer → any function of one number → Q  CurveRescale, where it is near enough

A function is what stands between the layer's result and the one quantizer that reads what is made of it:
nodes whose inputs are that result, what others of them made of it, and constants (x · sigmoid(x)). Relu and
Clip at its end are the clamp of the codes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.ops.questions import clips, is_standard
from calib8.program.expressions import (
    NARY_FUNCTIONS,
    UNARY_FUNCTIONS,
    Apply,
    Constant,
    Expression,
    Source,
    evaluate,
    number,
)
from calib8.program.instructions import FullyConnected, Weighted
from calib8.program.lower.builder import Builder, shape_of, values_read
from calib8.program.lower.curves import float_constant, plain_attributes
from calib8.program.lower.readers import Tail, activation_bounds, clipped, finite, tail_of
from calib8.program.lower.rows import varying_axes
from calib8.program.ops.weighted import largest_wide_sum, layer_sums
from calib8.program.program import Slot
from calib8.program.rounding.segments import LayerSums, curve_rescale
from calib8.program.rounding.two_sided import two_sided_rescale
from calib8.program.rules import CURVE_SUMS_MAX, F32, CurveRescale, FloatRescale, Profile, TwoSidedRescale


@dataclass(frozen=True, eq=False)
class FunctionBehind:
    """A function of a layer's result that one quantizer reads.

    Attributes:
        expression: ``Source`` is the result of the layer; constants as the nodes have them.
        nodes: what computes it, in order, Relu and Clip at its end included.
        tail: what reads it; its bounds are those of Relu and Clip at the end.
    """

    expression: Expression
    nodes: tuple[ir.Node, ...]
    tail: Tail


def function_behind(builder: Builder, value: ir.Value) -> FunctionBehind | None:
    """The function behind a layer's result, None where other nodes read a part of it."""
    made: dict[ir.Value, Expression] = {value: Source()}
    nodes: list[ir.Node] = []
    waiting = list(builder.readers.get(value, ()))
    while waiting:
        node = min(waiting, key=builder.places.__getitem__)
        waiting = [other for other in waiting if other is not node]
        expression = _applied(node, made, value)
        if expression is not None:
            made[node.outputs[0]] = expression
            nodes.append(node)
            waiting += builder.readers.get(node.outputs[0], ())
    inside = set(nodes)
    ends = [each for each in made if each.is_graph_output() or not inside.issuperset(_readers(builder, each))]
    tail = tail_of(ends[0]) if len(ends) == 1 and ends[0] is not value else None
    if tail is None or not tail.only_codes or len(tail.kinds) != 1:
        return None
    clamps = _clamps(tail.value, inside)
    low, high = -math.inf, math.inf
    for node in clamps:
        bounds = activation_bounds(node)
        assert bounds is not None
        low, high = clipped(low, *bounds), clipped(high, *bounds)
    expression = made[clamps[0].inputs[0] if clamps else tail.value]  # type: ignore[index]  # it has an input
    ends_at = Tail(tail.value, (), finite(low), finite(high), tail.kinds, True)
    return FunctionBehind(expression, tuple(nodes), ends_at)


def _readers(builder: Builder, value: ir.Value) -> list[ir.Node]:
    return builder.readers.get(value, [])


def _applied(node: ir.Node, made: dict[ir.Value, Expression], value: ir.Value) -> Expression | None:
    """The node as a function of ``value``, None where it is none yet or not at all."""
    known = node.op_type in UNARY_FUNCTIONS or node.op_type in NARY_FUNCTIONS
    if not known or not is_standard(node) or len(node.outputs) != 1:
        return None
    if node.outputs[0].shape != value.shape:
        return None
    if clips(node):
        bounds = activation_bounds(node)
        limits = () if bounds is None else tuple(Constant(np.array(bound, np.float32)) for bound in bounds)
        return Apply("Clip", (made[node.inputs[0]], *limits)) if limits and node.inputs[0] in made else None
    args: list[Expression] = []
    for read in node.inputs:
        arg = _read(read, made, shape_of(value))
        if arg is None:
            return None
        args.append(arg)
    return Apply(node.op_type, tuple(args), plain_attributes(node))


def _read(
    value: ir.Value | None, made: dict[ir.Value, Expression], shape: Sequence[int]
) -> Expression | None:
    """What a node reads as an expression; None where it is neither made yet nor a constant."""
    if value is not None and value in made:
        return made[value]
    try:
        return float_constant(value, shape)
    except NoFormError:
        return None


def _clamps(value: ir.Value, inside: set[ir.Node]) -> list[ir.Node]:
    """Relu and Clip that lead to a value one after the other, the last one last."""
    found: list[ir.Node] = []
    while (node := value.producer()) is not None and node in inside:
        source = values_read(node)[0]
        if activation_bounds(node) is None or len(source.uses()) != 1:
            break
        found.insert(0, node)
        value = source
    return found


@dataclass(frozen=True, eq=False)
class CodedLayer:
    """A layer whose rule is looked for.

    Attributes:
        step: the layer as it makes sums.
        source, target: slots of its input and of the codes behind the function.
        weight_scales: [1] or [output channels].
        axis: logical axis of the output channels.
        low, high: clamp of the codes.
    """

    step: Weighted
    source: Slot
    target: Slot
    weight_scales: F32
    axis: int
    low: int
    high: int


def function_rule(
    profile: Profile, expression: Expression, layer: CodedLayer
) -> TwoSidedRescale | CurveRescale | None:
    """How the sums become codes behind the function; None where no rule is near enough."""
    slopes = _slopes(expression, layer.axis)
    dense = isinstance(layer.step, FullyConnected)
    if slopes is not None:
        source, target = layer.source.scale, layer.target.scale
        wide_sums = largest_wide_sum(layer.step, layer.source)
        rule = two_sided_rescale(
            profile,
            source,
            layer.weight_scales,
            slopes,
            target,
            fully_connected=dense,
            wide_sums=wide_sums,
        )
        if rule is not None:
            return rule
    return None if varying_axes(expression) else _curve(profile, expression, layer, dense)


def _slopes(expression: Expression, axis: int) -> F32 | None:
    """Slopes below 0 of LeakyRelu and PRelu of the layer's result, [1] or [output channels]."""
    if not isinstance(expression, Apply) or not isinstance(expression.args[0], Source):
        return None
    slopes: F32 | None = None
    if expression.op == "LeakyRelu":
        slopes = np.array([number(expression.attributes, "alpha", 0.01, np.zeros(0, np.float32))], np.float32)
    elif expression.op == "PRelu" and varying_axes(expression) <= {axis}:
        array = expression.args[1]
        slopes = array.array.astype(np.float32).reshape(-1) if isinstance(array, Constant) else None
    return slopes if slopes is not None and np.isfinite(slopes).all() else None


def _curve(profile: Profile, expression: Expression, layer: CodedLayer, dense: bool) -> CurveRescale | None:
    reached = layer_sums(layer.step, layer.source)
    largest = np.maximum(-reached.low, reached.high).astype(np.float64)
    steps = np.float64(layer.source.scale) * layer.weight_scales
    reach = float((largest * steps).max())
    if reach == 0.0 or not math.isfinite(reach):
        return None
    wide_sums = largest_wide_sum(layer.step, layer.source)
    sums = LayerSums(layer.source.scale, layer.weight_scales, reach, dense, wide_sums)
    rule = curve_rescale(
        profile, lambda x: evaluate(expression, x), sums, layer.target, layer.low, layer.high
    )
    if rule is None:
        return None
    factor = (
        rule.steps.factor.astype(np.float64)
        if isinstance(rule.steps, FloatRescale)
        else np.ldexp(rule.steps.multiplier.astype(np.float64), rule.steps.shift - 31)
    )
    return rule if (largest * factor).max() <= CURVE_SUMS_MAX else None
