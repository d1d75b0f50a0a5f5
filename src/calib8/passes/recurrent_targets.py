"""What a target makes of LSTM, GRU and RNN whose weights would become codes, and what else would.

float     the node as it is; the reason names the form, or the target, that has codes for it
hybrid    codes of the weights alone: the node behind DequantizeLinear, or what the runtime has in its place
integer   ``calib8.passes.integer_cells``
"""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from calib8.passes.decisions import NodeDecision
from calib8.passes.integer_cells import why_integer_float
from calib8.passes.recurrent_nodes import is_recurrent, why_recurrent_float
from calib8.scheme import TARGETS, QuantScheme


def with_recurrent(
    model: ir.Model, decisions: list[NodeDecision], scheme: QuantScheme, keep_float: frozenset[str]
) -> list[NodeDecision]:
    """The decisions with LSTM, GRU and RNN whose weights are codes; tensors beside them need none."""
    nodes = {node.name or "": node for node in model.graph if is_recurrent(node)}
    why = {name: _why_no_hybrid(node, scheme) for name, node in nodes.items() if name not in keep_float}
    return [
        replace(one, quantized=not why[one.node], reason=why[one.node]) if one.node in why else one
        for one in decisions
    ]


def why_recurrent_here(node: ir.Node, scheme: QuantScheme, keep_float: frozenset[str]) -> str:
    """Why a recurrent node is float for a target that has it so, and what has codes for it; else empty."""
    if scheme.recurrent != "float" or not is_recurrent(node) or node.name in keep_float:
        return ""
    here = f"the target {scheme.name} has {node.op_type} in float"
    if why_recurrent_float(node):  # nobody has codes for it
        return here
    able = [
        f"its {way} form"
        for way, reason in (("hybrid", _why_no_hybrid(node, scheme)), ("integer", why_integer_float(node)))
        if way in scheme.takes_recurrent and not reason
    ]
    able += [f"the target {one.name}" for one in TARGETS.values() if one.recurrent == "hybrid"]
    return f"{here}; {' and '.join(able)} {'has' if len(able) == 1 else 'have'} codes for it"


def _why_no_hybrid(node: ir.Node, scheme: QuantScheme) -> str:
    """Why the weights of a float node cannot become codes; empty if they can."""
    reason = why_recurrent_float(node)
    if reason or not scheme.contrib_cells or node.op_type in scheme.contrib_cells:
        return reason
    return f"the target {scheme.name} has int8 weights for {' and '.join(scheme.contrib_cells)} alone"
