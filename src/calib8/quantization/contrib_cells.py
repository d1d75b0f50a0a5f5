"""Hybrid recurrent layers as ONNX Runtime has them: one node that holds int8 weights, in place of another.

    x, W, R, B … ─► LSTM ─► Y, Y_h, Y_c

    x ─► DynamicQuantizeLSTM (com.microsoft) ─► Y, Y_h, Y_c
         W int8 [D, I, 4·H], R int8 [D, H, 4·H], one scale float32 [D, 4·H] for every gate and unit

What is multiplied with them gets codes while the model runs, one scale for all samples of a step, of all
steps for x; gates and states are float32. Everything else, lengths, first states and peepholes too, is read
as the LSTM reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import CONTRIB, Names, constant, input_at
from calib8.passes.recurrent_nodes import WEIGHTS, is_recurrent
from calib8.quantization.recurrent_weights import coded_rows

INPUTS: Final = 8
"""Of an LSTM; behind them come scales and zero points of W and R."""


def replace_cells(names: Names, quantized: Collection[str], ops: Mapping[str, str]) -> None:
    """The named nodes become those that have codes of their weights.

    Args:
        names: of the graph, which is changed.
        quantized: names of nodes.
        ops: recurrent op → op of ``com.microsoft``.
    """
    for node in list(names.graph):
        if is_recurrent(node) and node.name in quantized:
            _replace(names, node, ops[node.op_type])


def _replace(names: Names, node: ir.Node, op: str) -> None:
    graph = names.graph
    inputs = [input_at(node, place) for place in range(INPUTS)]
    replaced = [value for place in WEIGHTS if (value := inputs[place]) is not None]
    scales: list[ir.Value | None] = []
    for place in WEIGHTS:
        inputs[place], *more = _coded(names, node, place)
        scales += more
    made = ir.Node(
        CONTRIB,
        op,
        [*inputs, *scales],
        [one for one in node.attributes.values() if one.name != "layout"],
        outputs=_taken(node),
        name=node.name,
    )
    graph.insert_before(node, made)
    graph.remove(node, safe=True)
    graph.opset_imports.setdefault(CONTRIB, 1)
    for value in replaced:
        if not list(value.uses()):
            graph.initializers.pop(value.name or "", None)


def _coded(names: Names, node: ir.Node, place: int) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Codes of a weight [D, 4·H, K] as [D, K, 4·H], their scales and zero points."""
    value = node.inputs[place]
    weight = constant(value)
    assert value is not None and weight is not None
    parts = [coded_rows(weight[d : d + 1].astype(np.float32)) for d in range(len(weight))]
    codes = np.concatenate([part.values for part in parts]).transpose(0, 2, 1)
    scale = np.stack([np.asarray(part.scale, np.float32).reshape(-1) for part in parts])
    return (
        names.constant(f"{value.name}/codes", codes),
        names.constant(f"{value.name}/codes/scale", scale),
        names.constant(f"{value.name}/codes/zero_point", np.zeros(scale.shape, np.int8)),
    )


def _taken(node: ir.Node) -> list[ir.Value]:
    """Values with the names, types and readers of the results of a node, which loses them."""
    taken = []
    for old in node.outputs:
        new = ir.Value(name=old.name, type=old.type, shape=old.shape)
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
        old.name = None
        taken.append(new)
    return taken
