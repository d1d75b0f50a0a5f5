"""Add, Sub, Mul, Div, Pow, Max, Min of two tensors, or of a tensor and constants.

    two tensors of codes           Add, Sub, Mul, Maximum, Minimum
    a layer's sums and codes       AddSums (the residual of a layer that no quantizer reads)
    a tensor and a constant        a table, one per channel where the constant varies so; of a constant that
                                   varies along several axes the instruction of two tensors
    functions of the same tensor   a table: x · sigmoid(x)

Operands lie as the largest of them does; smaller ones get axes of size 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.ops.groups import BINARY_OPS, COMPARING
from calib8.ops.questions import adds, multiplies
from calib8.program.instructions import Add, AddSums, Instruction, Maximum, Minimum, Mul, Sub
from calib8.program.lower.builder import Builder, shape_of, step_name
from calib8.program.lower.constant_operand import against_constant, varies_along_axes
from calib8.program.lower.constant_tensors import constant_tensor
from calib8.program.lower.constants import is_fixed
from calib8.program.lower.convert import coded, sums_in_order
from calib8.program.lower.curves import applied
from calib8.program.lower.forms import Coded, Curve, Order, Sums
from calib8.program.lower.layout import image_order
from calib8.program.lower.moves import reshaped
from calib8.program.lower.results import NOT_CODED, Target, deliver, same_codes
from calib8.program.rounding.linear import product_rule, sum_rule, sums_rule


def binary(builder: Builder, node: ir.Node) -> None:
    """Any elementwise operator of several tensors."""
    forms = [builder.forms.get(value) for value in node.inputs if value is not None]
    joins = any(isinstance(form, Curve) for form in forms) or any(map(is_fixed, node.inputs))
    if joins or len(node.inputs) != 2:
        _curve(builder, node)
    elif any(isinstance(form, Sums) for form in forms):
        _add_sums(builder, node)
    elif not _two_tensors(builder, node):
        raise NoFormError(NOT_CODED)


def _curve(builder: Builder, node: ir.Node) -> None:
    """A function of one tensor, or else of two whose own functions lose nothing in codes."""
    per_place = varies_along_axes(builder, node) and _and_constant(builder, node)
    delivered = per_place or against_constant(builder, node)
    try:
        made = applied(builder, node)
    except NoFormError:
        pair = len(node.inputs) == 2 and not any(map(is_fixed, node.inputs))
        if not delivered and not (pair and _two_tensors(builder, node)) and not _and_constant(builder, node):
            raise
        return
    if builder.shape(made.source) != shape_of(node.outputs[0]):
        raise NoFormError("it makes its input larger")
    builder.forms[node.outputs[0]] = made


def _and_constant(builder: Builder, node: ir.Node) -> bool:
    """Whether one input is codes and the other a constant in codes; then their instruction is emitted."""
    sides = [coded(builder, value) for value in node.inputs]
    known = [side for side in sides if side is not None]
    if len(sides) != 2 or len(known) != 1 or node.op_type not in BINARY_OPS:
        return False
    [form] = known
    if builder.shape(form) != shape_of(node.outputs[0]):
        return False
    other = constant_tensor(builder, node.inputs[sides.index(None)], form.order)
    if other is None:
        return False
    left, right = (other if side is None else side for side in sides)
    _arithmetic(builder, node, left, right)
    return True


def _two_tensors(builder: Builder, node: ir.Node) -> bool:
    """Whether both inputs are codes; then their instruction is emitted."""
    left, right = (coded(builder, value) for value in node.inputs)
    if left is None or right is None:
        return False
    if node.op_type in COMPARING:
        _selection(builder, node)
    elif node.op_type in BINARY_OPS:
        _arithmetic(builder, node, left, right)
    else:
        raise NoFormError("no integer form with two tensors")
    return True


def _arithmetic(builder: Builder, node: ir.Node, left: Coded, right: Coded) -> None:
    (left, right), order = aligned(builder, (left, right), node.outputs[0])
    if adds(node) and _repeats_along_rows(builder.shape(left), shape_of(node.outputs[0])):
        left, right = right, left
    inputs = (left.slot, right.slot)
    a, b = builder.kind(left).qparams, builder.kind(right).qparams
    wide = any(builder.slots[slot].is_wide for slot in inputs)

    def make(to: Target) -> Instruction:
        if multiplies(node):
            factor = product_rule(builder.profile, a.scale, b.scale, to.kind.scale, wide=wide)
            return Mul(to.name, inputs, to.outputs, factor, to.low, to.high)
        add = adds(node)
        rule = sum_rule(builder.profile, "add" if add else "sub", a, b, to.kind.qparams, wide=wide)
        return (Add if add else Sub)(to.name, inputs, to.outputs, rule, to.low, to.high)

    deliver(builder, node, order, make)


def _repeats_along_rows(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """An operand is one number along the last axis that is longer than 1.

    ONNX Runtime's Add then exchanges the roles of its operands, which changes the rounding of its sums.
    """
    long = [axis for axis, size in enumerate(target) if size > 1]
    return bool(long) and shape[long[-1]] == 1


def aligned(builder: Builder, operands: Sequence[Coded], value: ir.Value) -> tuple[tuple[Coded, ...], Order]:
    """Operands of an elementwise instruction with the rank and order of memory of its output."""
    target = shape_of(value)
    full = next((form for form in operands if builder.shape(form) == target), None)
    order = image_order(len(target)) if full is None else full.order
    return tuple(_in_rank(builder, form, order) for form in operands), order


def _in_rank(builder: Builder, source: Coded, order: Order) -> Coded:
    """Leading axes of size 1 up to the rank of ``order``, then that order."""
    shape = builder.shape(source)
    wide = reshaped(builder, source, (1,) * (len(order) - len(shape)) + shape, "broadcast")
    return builder.in_order(wide, order)


def _selection(builder: Builder, node: ir.Node) -> None:
    """The larger or smaller code; operands of different scales are brought to that of the result."""
    value = node.outputs[0]
    pair, order = aligned(builder, same_codes(builder, node), value)
    result = builder.codes(value, order, builder.kind(pair[0]))
    make = Maximum if node.op_type == "Max" else Minimum
    builder.steps.append(make(step_name(node), tuple(form.slot for form in pair), (result.slot,)))
    builder.forms[value] = result


def _add_sums(builder: Builder, node: ir.Node) -> None:
    """A layer's sums plus codes or other sums, rounded once."""
    forms = [builder.forms.get(value) for value in node.inputs if value is not None]
    sums = next(form for form in forms if isinstance(form, Sums))
    if not adds(node) or not all(form.unbounded for form in forms if isinstance(form, Sums)):
        raise NoFormError("one of its inputs is a layer's result that is not quantized")
    target = shape_of(node.outputs[0])
    order = sums.order
    slots = []
    for value, form in zip(node.inputs, forms, strict=True):
        if isinstance(form, Sums):
            same = builder.shape(form) == target
            side: Coded | Sums | None = sums_in_order(builder, form, order) if same else None
        else:
            side = coded(builder, value)
            side = None if side is None else _in_rank(builder, side, order)
        if side is None:
            raise NoFormError("one of its inputs is not quantized")
        slots.append(side.slot)
    left, right = (builder.slots[slot].scales for slot in slots)

    def make(to: Target) -> Instruction:
        rule = sums_rule(builder.profile, left, right, to.kind.scale)
        return AddSums(to.name, tuple(slots), to.outputs, rule, to.low, to.high)

    deliver(builder, node, order, make)
