"""Moves between recurrent layers and the states of a streaming model, which stay float32.

    LSTM ── Y_h ── Squeeze ─┬─ Unsqueeze ── Concat ──► stateN          float32
                            └─ Q ── DQ ── Conv                         codes

The gates and states of a layer are float32 whatever its weights are. Codes on the way to the output would
round the state in every frame.
"""

from __future__ import annotations

import onnx_ir as ir

from calib8.model.states import MOVES, stored_states
from calib8.ops.groups import RECURRENT

REASON = "it hands on a state, which stays float32"


def state_moves(model: ir.Model) -> dict[str, str]:
    """Names of the nodes between recurrent layers and the outputs that become states → why they are float.

    Raises:
        ModelError: the states that the model has stored are broken.
    """
    written = set(stored_states(model, model.graph.name or "model").values())
    found: dict[str, str] = {}
    for value in model.graph.outputs if written else ():
        if value.name in written:
            moves, ends = _behind(value)
            if any(end is not None and end.op_type in RECURRENT for end in ends):
                found |= {node.name or "": REASON for node in moves}
    return found


def _behind(value: ir.Value) -> tuple[list[ir.Node], list[ir.Node | None]]:
    """The moves that a value comes through, and what stands before them."""
    moves, ends, waiting, seen = list[ir.Node](), list[ir.Node | None](), [value], set[ir.Value]()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        producer = one.producer()
        if producer is None or producer.op_type not in MOVES:
            ends.append(producer)
            continue
        moves.append(producer)
        read = producer.inputs if producer.op_type == "Concat" else producer.inputs[:1]
        waiting += [source for source in read if source is not None]
    return moves, ends
