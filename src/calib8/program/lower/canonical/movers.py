"""Ops that a quantizer may change places with: they move values or choose among them.

    Q(f(x)) = f'(Q(x))   where f' is f on the codes: Q is monotone and elementwise, and Q(DQ(q)) = q

A number that f brings in (the padding of a Pad, the limits of a Clip) is coded by the quantizer behind.
"""

from __future__ import annotations

import onnx_ir as ir

from calib8.model.graph import constant, input_at, scalar_constant
from calib8.ops.groups import CLAMPS, JOINING, MOVES
from calib8.ops.questions import pads, rectifies, resizes
from calib8.program.lower.canonical.codings import Coding


def data_inputs(node: ir.Node) -> list[int]:
    """Places of the inputs whose values move through a node; empty for an op that is no move.

    No move is a Resize that interpolates or extrapolates, a MaxPool whose indices are read, a Max or Min
    with a constant (that is a function of one tensor).
    """
    if node.op_type not in MOVES or node.domain or not node.inputs:
        return []
    if resizes(node) and not _only_repeats(node):
        return []
    if (
        any(value.uses() or value.is_graph_output() for value in node.outputs[1:])
        and node.op_type == "MaxPool"
    ):
        return []
    if node.op_type in ("Max", "Min") and any(constant(value) is not None for value in node.inputs):
        return []
    return list(range(len(node.inputs))) if node.op_type in JOINING else [0]


def _only_repeats(node: ir.Node) -> bool:
    mode, positions = node.attributes.get("mode"), node.attributes.get("coordinate_transformation_mode")
    nearest = mode is None or mode.as_string() == "nearest"
    return nearest and (positions is None or positions.as_string() != "tf_crop_and_resize")


def activation_bounds(node: ir.Node) -> tuple[float, float] | None:
    """Limits of a Relu or of a Clip with constant limits, ±inf where there are none; None for other nodes."""
    if node.op_type not in CLAMPS or node.domain:
        return None
    if rectifies(node):
        return 0.0, float("inf")
    low, high = input_at(node, 1), input_at(node, 2)
    limits = (
        float("-inf") if low is None else scalar_constant(low),
        float("inf") if high is None else scalar_constant(high),
    )
    return None if limits[0] is None or limits[1] is None else (limits[0], limits[1])


def stays_on_grid(node: ir.Node, coding: Coding) -> bool:
    """What a move or an activation makes of dequantized codes are again values of these codes."""
    if pads(node):
        mode = node.attributes.get("mode")
        value = input_at(node, 2)
        stated = 0.0 if value is None else scalar_constant(value)
        other = mode is not None and mode.as_string() != "constant"
        return other or (stated is not None and coding.holds(stated))
    bounds = activation_bounds(node)
    if bounds is None:
        return bool(data_inputs(node))
    low, high = coding.real(coding.lowest), coding.real(coding.highest)
    return all(not low < bound < high or coding.holds(bound) for bound in bounds)
