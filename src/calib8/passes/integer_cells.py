"""LSTM and GRU in integers throughout: which nodes can be, their tensors, the power of two of a cell.

    x 8 bits ─► LSTM ─► Y, Y_h 8 bits of one scale             first h likewise
                     └► Y_c 16 bits around 0, scale 2^p        first c likewise
    x 8 bits ─► GRU  ─► Y 8 bits                               first and last h 16 bits of scale 2^−15

    p = ⌈log2(max |c| / 2^15)⌉ of all steps, −15 … −9

Nobody but the layer itself sees c, so its range has a name of its own in tables: that of the node with
``/cell`` behind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np
import onnx_ir as ir

from calib8.errors import TableError
from calib8.model.graph import float_attribute
from calib8.model.states import MOVES
from calib8.ops.groups import FIRST_STATES, QUANTIZERS, RECURRENT
from calib8.parameters import parameter
from calib8.passes.recurrent_nodes import (
    DEFAULTS,
    activations_of,
    constant_states,
    cuts_sequences,
    direction_count,
    is_recurrent,
    why_recurrent_float,
)
from calib8.qparams import QParams, QuantSpec, activation_qparams
from calib8.table import GIVEN, CalibrationTable

LEAST_CELL_POWER, MOST_CELL_POWER = -15, -9
LARGEST_CODE: Final = 1 << 15
GATE_LIMIT: Final = 8.0
"""What gates read is held within this, whatever clips it."""

CELL_SCALE: Final = "calib8.cell_power"
"""Key of a node's metadata: p of its cell."""

STATE_REASON: Final = "it hands on a state of a recurrent layer"


def why_integer_float(node: ir.Node) -> str:
    """Why an LSTM or GRU cannot be computed in integers throughout; empty if it can."""
    if node.op_type not in ("LSTM", "GRU"):
        return f"{node.op_type} has no form of integers throughout"
    reason = why_recurrent_float(node)
    if reason:
        return reason
    return why_no_integer_cell(node)


def why_no_integer_cell(node: ir.Node) -> str:
    """The same of what a node says of its cell, weights apart."""
    wanted = DEFAULTS[node.op_type] * direction_count(node)
    other = [one.name for one, name in zip(activations_of(node), wanted, strict=False) if one.name != name]
    if other:
        return f"its activation {other[0]} has no form of integers"
    clip = float_attribute(node, "clip", 0.0)
    if 0.0 < clip < GATE_LIMIT:
        return f"it clips what gates read at {clip:g}"
    if any(np.any(array) for array in constant_states(node)):
        return "its first states are constants that are not 0"
    return "its sequences have lengths" if cuts_sequences(node) else ""


def integer_cells(model: ir.Model, keep_float: frozenset[str]) -> dict[ir.Node, str]:
    """Recurrent nodes of a float graph → why they are not computed in integers, empty where they are."""
    kept = "the user keeps it in float"
    return {
        node: kept if node.name in keep_float else why_integer_float(node)
        for node in model.graph
        if is_recurrent(node)
    }


class Use(Protocol):
    """A reader of a value, and the place of the input that it is."""

    @property
    def node(self) -> ir.Node:
        """The reader."""
        ...

    @property
    def idx(self) -> int:
        """The place."""
        ...


def reads_codes(use: Use, taking: set[ir.Node]) -> bool:
    """Whether a node of ``taking`` reads the codes of a value: states of recurrent layers are apart."""
    return use.node in taking and not (use.node.op_type in RECURRENT and use.idx in FIRST_STATES)


def carries_codes(value: ir.Value, taking: set[ir.Node]) -> bool:
    """Whether a result of a node of integers has codes that others read: its states alone have none."""
    node = value.producer()
    if node is None or node.op_type not in RECURRENT:
        return True
    if value is node.outputs[0]:
        return bool(list(value.uses()) or value.is_graph_output())
    is_hidden = value is node.outputs[1]
    return is_hidden and any(reads_codes(use, taking) for use in value.uses())


def state_readers(value: ir.Value, taking: set[ir.Node]) -> frozenset[str] | None:
    """Names of the nodes that read a last state as codes; None where a value is no last state."""
    node = value.producer()
    if node is None or node.op_type not in RECURRENT or value is node.outputs[0]:
        return None
    return frozenset(use.node.name or "" for use in value.uses() if reads_codes(use, taking))


def moved_states(model: ir.Model) -> dict[str, str]:
    """Names of the nodes that only move last states to outputs of the graph → why they have no codes."""
    found: dict[str, str] = {}
    for value in model.graph.outputs:
        moves: list[ir.Node] = []
        if value.producer() is not None and _only_states(value, moves):
            found |= {node.name or "": STATE_REASON for node in moves}
    return found


def _only_states(value: ir.Value, moves: list[ir.Node]) -> bool:
    """Whether nothing but moves of last states makes a value; these are added."""
    node = value.producer()
    if node is None:
        return False
    if node.op_type in RECURRENT:
        return value is not node.outputs[0]
    if node.op_type not in MOVES:
        return False
    if node not in moves:
        moves.append(node)
    read = node.inputs if node.op_type == "Concat" else node.inputs[:1]
    return all(source is not None and _only_states(source, moves) for source in read)


def comes_of_states(value: ir.Value) -> bool:
    """Whether nothing but moves and quantizers stands between recurrent layers and a value."""
    node = value.producer()
    if node is None or node.op_type in RECURRENT:
        return node is not None
    if node.op_type not in MOVES | QUANTIZERS:
        return False
    read = node.inputs if node.op_type == "Concat" else node.inputs[:1]
    return all(source is not None and comes_of_states(source) for source in read)


def unread_hidden(spec: QuantSpec) -> QParams:
    """Codes of the h of a layer whose Y nobody reads: those of ±1, within which it stays."""
    return activation_qparams(-1.0, 1.0, spec)


def cell_name(node: ir.Node) -> str:
    """What tables call c of all steps of an LSTM."""
    return f"{node.name}/cell"


def cells_of(model: ir.Model, keep_float: frozenset[str] = frozenset()) -> dict[str, ir.Node]:
    """Name of c → LSTM, of all that can be computed in integers."""
    found = integer_cells(model, keep_float)
    return {cell_name(node): node for node, why in found.items() if not why and node.op_type == "LSTM"}


def cell_powers(model: ir.Model, quantized: frozenset[str], table: CalibrationTable) -> dict[str, int]:
    """Names of quantized LSTMs → p of their cells.

    Raises:
        TableError: the table has no range of one.
    """
    powers = {}
    for name, node in cells_of(model).items():
        if node.name not in quantized:
            continue
        if name not in table.entries:
            cure = f"Calibrate this model again, or give it with {parameter('ranges')}"
            raise TableError(name, "the table lacks it, the cell of an LSTM in integers", cure)
        entry = table.entries[name]
        given = entry.method == GIVEN or not entry.count
        powers[node.name or ""] = power_of(entry.range.magnitude if given else entry.observed.magnitude)
    return powers


def power_of(largest: float) -> int:
    """p of cells within ± ``largest``."""
    if not largest > 0.0:
        return LEAST_CELL_POWER
    return int(np.clip(math.ceil(math.log2(largest / LARGEST_CODE)), LEAST_CELL_POWER, MOST_CELL_POWER))


def stored_power(metadata: Mapping[str, str]) -> int | None:
    """p that the metadata of a node state; None where they state none."""
    text = metadata.get(CELL_SCALE, "")
    known = range(LEAST_CELL_POWER, MOST_CELL_POWER + 1)
    return next((power for power in known if text == str(power)), None)
