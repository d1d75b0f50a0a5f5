"""Where the result of an integer instruction goes: into the codes of the quantizers that read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.program.instructions import Instruction
from calib8.program.lower.builder import Builder, step_name
from calib8.program.lower.convert import coded, codes_at
from calib8.program.lower.forms import Coded, CodeType, Order
from calib8.program.lower.readers import Tail, tail_of
from calib8.program.rounding.linear import clamp

NOT_CODED = "its input is not quantized"
COMPUTED = "one of its parameters is computed"
NO_QUANTIZER = "its result is not quantized"


@dataclass(frozen=True)
class Target:
    """One result of an instruction.

    Attributes:
        name: of the instruction.
        outputs: the slot of the result.
        kind: its codes.
        low, high: clamp of the codes.
    """

    name: str
    outputs: tuple[int, ...]
    kind: CodeType
    low: int
    high: int


def coded_source(builder: Builder, node: ir.Node) -> Coded:
    """The first input of a node in codes, without any rounding.

    Raises:
        NoFormError: it has no such form.
    """
    source = coded(builder, node.inputs[0])
    if source is None:
        raise NoFormError(NOT_CODED)
    return source


def deliver(
    builder: Builder,
    node: ir.Node,
    order: Order,
    make: Callable[[Target], Instruction],
    together: Sequence[ir.Node] = (),
) -> None:
    """One instruction per kind of codes that quantizers make of a node's result, behind its Relu or Clip.

    Other readers of the result are float nodes, which compute it once more.

    Args:
        builder: the program.
        node: whose first output it is.
        order: how the result lies.
        make: builds the instruction.
        together: all nodes that the instruction carries out, where there are others before this one.

    Raises:
        NoFormError: no quantizer reads its result.
    """
    tail = tail_of(node.outputs[0])
    if not tail.kinds:
        raise NoFormError(NO_QUANTIZER)
    name = step_name(*(together or (node,)), *tail.activations)
    for kind in tail.kinds:
        builder.steps.append(make(target_of(builder, tail, kind, order, name)))
    builder.fused.update(tail.activations)


def sole_target(builder: Builder, value: ir.Value, order: Order, nodes: Sequence[ir.Node]) -> Target | None:
    """Where a result goes that only one kind of codes is made of; None if there are more kinds or readers.

    Args:
        builder: the program.
        value: the result of the last node.
        order: how it lies.
        nodes: what the instruction stands for, without the Relu or Clip behind it.
    """
    tail = tail_of(value)
    if not tail.only_codes or len(tail.kinds) != 1:
        return None
    builder.fused.update(tail.activations)
    return target_of(builder, tail, tail.kinds[0], order, step_name(*nodes, *tail.activations))


def target_of(builder: Builder, tail: Tail, kind: CodeType, order: Order, name: str) -> Target:
    """A new slot for the codes that a quantizer makes of ``tail.value``, and its clamp."""
    result = builder.codes(tail.value, order, kind)
    low, high = clamp(builder.profile, builder.slots[result.slot], tail.low, tail.high)
    builder.ready[tail.value, kind] = result
    return Target(name, (result.slot,), kind, low, high)


def same_codes(builder: Builder, node: ir.Node) -> list[Coded]:
    """All inputs in one kind of codes: their common one, or that of the only quantizer behind.

    The quantizer is carried out before the node instead of behind it, which gives the same codes.

    Raises:
        NoFormError: there is no such kind, or an input has no codes.
    """
    forms = [coded(builder, value) for value in node.inputs]
    kinds = {builder.kind(form) for form in forms if form is not None}
    if None not in forms and len(kinds) == 1:
        return [form for form in forms if form is not None]
    tail = tail_of(node.outputs[0])
    if not (tail.only_codes and len(tail.kinds) == 1):
        raise NoFormError("its inputs have different scales" if None not in forms else NOT_CODED)
    return _all_at(builder, node, tail.kinds[0])


def _all_at(builder: Builder, node: ir.Node, kind: CodeType) -> list[Coded]:
    made = [codes_at(builder, value, kind) if value is not None else None for value in node.inputs]
    if None in made:
        raise NoFormError(NOT_CODED)
    return [form for form in made if form is not None]
