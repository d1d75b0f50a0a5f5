"""Codes of the states of recurrent layers in integers, right at the layer, and the scale of its cell.

    first h ─► Q ─► DQ ─► LSTM ─► Y_h ─► Q ─► DQ        the codes of Y
    first c ─► Q ─► DQ ─┘    └──► Y_c ─► Q ─► DQ        int16, scale 2^p, which the node's metadata state
    first h ─► Q ─► DQ ─► GRU  ─► Y_h ─► Q ─► DQ        int16, scale 2^−15

What reads Y_h as codes of 8 bits has them already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import onnx_ir as ir

from calib8.model.graph import Names, constant, input_at
from calib8.ops.questions import quantizes
from calib8.passes.integer_cells import CELL_SCALE, unread_hidden
from calib8.passes.recurrent_nodes import is_recurrent
from calib8.qparams import INT16_SYMMETRIC, QParams, QuantSpec
from calib8.quantization.second_codes import quantize_value, quantizer_pair
from calib8.scheme import QuantScheme

HIDDEN, CELL = 5, 6
"""Places of the first states."""

STATE_SCALE: Final = 2.0**-15
"""Of the h that a GRU carries on."""


def code_states(
    names: Names,
    quantized: Collection[str],
    qparams: Mapping[str, QParams],
    tensors: Mapping[ir.Value, str],
    scheme: QuantScheme,
    powers: Mapping[str, int],
) -> None:
    """Q/DQ on the first and last states of the named nodes.

    Args:
        names: of the graph.
        quantized: nodes from codes to codes.
        qparams: tensor → codes.
        tensors: the name that every value of the prepared graph had there.
        scheme: type of the codes.
        powers: LSTM → power of two of its cell's scale.
    """
    for node in list(names.graph):
        if not is_recurrent(node) or node.name not in quantized:
            continue
        hidden = (_hidden(node, qparams, tensors, scheme), scheme.activations)
        if node.op_type == "GRU":
            hidden = (QParams(STATE_SCALE, 0), INT16_SYMMETRIC)
        elif (power := powers.get(node.name or "")) is not None:
            node.metadata_props[CELL_SCALE] = str(power)
            _code(names, node, CELL, 2, (QParams(2.0**power, 0), INT16_SYMMETRIC))
        _code(names, node, HIDDEN, 1, hidden)


def _hidden(
    node: ir.Node, qparams: Mapping[str, QParams], tensors: Mapping[ir.Value, str], scheme: QuantScheme
) -> QParams:
    """Codes of h: those of the sequence, of ±1 where nobody reads it."""
    for value in node.outputs[:2]:
        if (found := qparams.get(tensors.get(value, ""))) is not None:
            return found
    return unread_hidden(scheme.activations)


def _code(names: Names, node: ir.Node, place: int, output: int, codes: tuple[QParams, QuantSpec]) -> None:
    """Q/DQ on a first state, and on the last one for those that read it otherwise."""
    value = input_at(node, place)
    if value is not None and constant(value) is None:
        pair = quantizer_pair(names, f"{node.name}/first_{place}", value, *codes)
        names.graph.insert_before(node, pair)
        node.replace_input_with(place, pair[1].outputs[0])
    if len(node.outputs) <= output:
        return
    last = node.outputs[output]
    if last.is_graph_output():
        quantize_value(names, last, codes[0], None, codes[1])
        return
    readers = frozenset(use.node.name or "" for use in last.uses() if not quantizes(use.node))
    if readers:
        quantize_value(names, last, codes[0], readers, codes[1])
