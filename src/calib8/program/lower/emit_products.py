"""The product of two activations, and the number that its sums are multiplied by: attention's 1/√d.

DQ, DQ → MatMul → Mul(number) → Q     one MatMul, whose factor holds the number
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import sole_consumer
from calib8.ops.questions import divides, is_standard, multiplies
from calib8.program.instructions import MatMul
from calib8.program.lower.builder import Builder, shape_of, step_name
from calib8.program.lower.constant_tensors import constant_tensor
from calib8.program.lower.constants import fixed, is_fixed
from calib8.program.lower.convert import coded
from calib8.program.lower.forms import Coded
from calib8.program.lower.layout import logical_order
from calib8.program.lower.results import NOT_CODED, sole_target
from calib8.program.rounding.linear import sums_rescale
from calib8.program.rules import F32


@dataclass(frozen=True)
class Factor:
    """A number that multiplies a product of activations.

    Attributes:
        node: the Mul or the Div.
        number: float32, finite, > 0.
    """

    node: ir.Node
    number: np.float32


def product(builder: Builder, node: ir.Node) -> None:
    """``A @ B``, both in codes; a factor behind it goes into the steps of its sums."""
    lhs, rhs = _coded_side(builder, node.inputs[0]), _coded_side(builder, node.inputs[1])
    if lhs is None or rhs is None:
        raise NoFormError(NOT_CODED)
    if min(len(lhs.order), len(rhs.order)) < 2:
        raise NoFormError("it multiplies vectors")
    lhs, rhs = builder.in_logical_order(lhs), builder.in_logical_order(rhs)
    steps = np.array([np.float32(builder.kind(lhs).scale) * np.float32(builder.kind(rhs).scale)], np.float32)
    factor = factor_behind(node.outputs[0], steps)
    if factor is not None:
        builder.fused.add(factor.node)
        steps = steps * factor.number
    nodes = [node] if factor is None else [node, factor.node]
    _write(builder, nodes, (lhs.slot, rhs.slot), steps)


def _coded_side(builder: Builder, value: ir.Value | None) -> Coded | None:
    """Codes of one side; a constant becomes a tensor of the program."""
    if value is None or not is_fixed(value):
        return coded(builder, value)
    return constant_tensor(builder, value, logical_order(len(shape_of(value))))


def factor_behind(value: ir.Value, steps: F32) -> Factor | None:
    """The only reader of a product, if it multiplies by one positive number that its steps can hold."""
    node = sole_consumer(value)
    if node is None or not is_standard(node) or not (multiplies(node) or divides(node)):
        return None
    place = 1 if node.inputs[0] is value else 0
    array = fixed(node.inputs[place])
    if array is None or array.size != 1 or array.dtype != np.float32 or (divides(node) and place == 0):
        return None
    if shape_of(node.outputs[0]) != shape_of(value):
        return None
    number = np.float32(array.reshape(-1)[0])
    with np.errstate(all="ignore"):
        number = np.float32(1.0) / number if divides(node) else number
        product = steps[0] * number
    return Factor(node, number) if number > 0 and product > 0 and math.isfinite(product) else None


def _write(builder: Builder, nodes: list[ir.Node], inputs: tuple[int, ...], steps: F32) -> None:
    """Codes where exactly one kind of them is read, else sums."""
    value = nodes[-1].outputs[0]
    order = logical_order(len(shape_of(value)))
    target = sole_target(builder, value, order, nodes)
    if target is None:
        builder.forms[value] = sums = builder.sums(value, order, steps)
        builder.steps.append(MatMul(step_name(*nodes), inputs, (sums.slot,), None, 0, 0))
    else:
        rule = sums_rescale(builder.profile, steps, target.kind.scale)
        builder.steps.append(MatMul(target.name, inputs, target.outputs, rule, target.low, target.high))
