"""Recurrent layers whose samples come first (layout 1) get steps first: ONNX Runtime has kernels for these.

    x [N, T, I] ─► LSTM(layout 1) ─► Y [N, T, D, H],  Y_h [N, D, H]

    x ─ Transpose ─► [T, N, I] ─► LSTM ─► [T, D, N, H] ─ Transpose ─► Y
                                   └────► [D, N, H] ──── Transpose ─► Y_h

First states are transposed as the last ones are, lengths stay. Values only move: every one is the same.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from calib8.errors import ModelError
from calib8.model.graph import Names, input_at, int_attribute, label
from calib8.ops.groups import FIRST_STATES, RECURRENT
from calib8.ops.questions import is_standard

SEQUENCE: Final = 0
"""Place of the input that has a batch axis beside the first states; of the lengths it is the only one."""

SWAPPED: Final = (1, 0, 2)
"""What makes [T, N, I] of [N, T, I], and [D, N, H] of [N, D, H]."""

ALL_STEPS: Final = (2, 0, 1, 3)
"""What makes [N, T, D, H] of [T, D, N, H]."""


def time_first(model: ir.Model, name: str) -> int:
    """Layers of layout 1 → layers of layout 0 with Transposes around them, in branches too.

    Args:
        model: is changed.
        name: what to call it.

    Returns:
        Layers changed.

    Raises:
        ModelError: a layer has a layout that ONNX does not have.
    """
    for node in model.graph.all_nodes():
        if _layout(node) not in (0, 1):
            problem = f"{node.op_type} '{label(node)}' has layout {_layout(node)}; ONNX has 0 and 1"
            raise ModelError(name, problem, "Export it again with layout 0")
    found = [node for node in model.graph.all_nodes() if _layout(node) == 1]
    for node in found:
        _turn(node)
    return len(found)


def _layout(node: ir.Node) -> int:
    """0 of nodes that are no recurrent layers."""
    recurrent = is_standard(node) and node.op_type in RECURRENT
    return int_attribute(node, "layout", 0) if recurrent else 0


def _turn(node: ir.Node) -> None:
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    names = Names(graph)
    for place in (SEQUENCE, *FIRST_STATES):
        value = input_at(node, place)
        if value is not None:
            made = _transpose(names, value, SWAPPED)
            made.outputs[0].name = names.value(f"{value.name}/time_first")
            graph.insert_before(node, made)
            node.replace_input_with(place, made.outputs[0])
    del node.attributes["layout"]
    for place, value in enumerate(node.outputs):
        if value.name and (value.is_graph_output() or list(value.uses())):
            _hand_over(names, node, value, ALL_STEPS if place == 0 else SWAPPED)


def _transpose(names: Names, value: ir.Value, axes: tuple[int, ...]) -> ir.Node:
    made = ir.node("Transpose", [value], {"perm": list(axes)}, name=names.node(f"{value.name}/Transpose"))
    made.outputs[0].type = value.type
    return made


def _hand_over(names: Names, node: ir.Node, old: ir.Value, axes: tuple[int, ...]) -> None:
    """Whoever read a result reads what its Transpose gives, under its name."""
    made = _transpose(names, old, axes)
    new, name = made.outputs[0], old.name
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    made.replace_input_with(0, old)
    old.name = names.value(f"{name}/time_first")
    new.name, new.shape, old.shape = name, old.shape, None
    names.graph.insert_after(node, made)
