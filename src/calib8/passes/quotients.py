"""Quotients of two tensors, and what is done to the divisor before: one computation from codes to codes.

    a ─────────────────────────► Div(a, ·) ─► y
    b ─► Add ε, Max ε, Sqrt … ─► ·

A target that divides codes takes the divisor through a table, in which such functions cost nothing. There are
no codes between them, which would make divisors of 0 of small ones.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from calib8.model.graph import activation_inputs, scalar_constant, sole_consumer
from calib8.ops.groups import BINARY_OPS, FUNCTIONS, OPERAND_OPS
from calib8.ops.questions import clips, divides, is_standard
from calib8.passes.feeding import feeding_weights

_BEFORE_A_DIVISOR = frozenset({"Add", "Max", "Clip", "Sqrt"})
_POINTWISE = FUNCTIONS | OPERAND_OPS | BINARY_OPS
_MOST_NODES = 3


def quotient_chains(model: ir.Model, computes: Collection[str]) -> tuple[tuple[ir.Node, ...], ...]:
    """The nodes of every quotient with something before its divisor, the Div last, in graph order.

    Args:
        model: a float graph.
        computes: ops that the target computes from codes.
    """
    if "Div" not in computes:
        return ()
    feeding = feeding_weights(model)
    found = (quotient_chain(node) for node in model.graph if node in feeding)
    return tuple(chain for chain in found if len(chain) > 1)


def quotient_chain(node: ir.Node) -> tuple[ir.Node, ...]:
    """What computes a quotient of two tensors from codes of both, the Div last; empty for other nodes."""
    if not divides(node) or not is_standard(node) or len(list(activation_inputs(node))) != 2:
        return ()
    dividend, divisor = node.inputs
    if dividend is None or divisor is None or _root(dividend) is _root(divisor):
        return ()
    nodes, reader = [node], node
    while len(nodes) <= _MOST_NODES and divisor is not None:
        producer = divisor.producer()
        if producer is None or not _is_before(producer) or sole_consumer(divisor) is not reader:
            break
        nodes.insert(0, producer)
        reader, divisor = producer, next(activation_inputs(producer), None)
    return tuple(nodes)


def _is_before(node: ir.Node) -> bool:
    """Whether a node is a function of one tensor with numbers as constants, for which tables are exact."""
    if node.op_type not in _BEFORE_A_DIVISOR or not is_standard(node):
        return False
    sources = list(activation_inputs(node))
    if len(sources) != 1 or sources[0].shape != node.outputs[0].shape:
        return False
    numbers = [
        scalar_constant(value) for value in node.inputs if value is not None and value is not sources[0]
    ]
    return None not in numbers and not (clips(node) and numbers[:1] == [0.0])


def _root(value: ir.Value) -> ir.Value:
    """What a tensor is computed of, place by place, from it alone as far as that is simple to see."""
    node = value.producer()
    while node is not None and node.op_type in _POINTWISE and is_standard(node):
        sources = list(activation_inputs(node))
        if len(sources) != 1:
            break
        value = sources[0]
        node = value.producer()
    return value
