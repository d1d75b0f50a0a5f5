"""What was decided of each node, and how that is told.

The file has codes for some nodes; calib8's engine may compute otherwise.

    20 of 20 Conv quantized; 20 float in calib8's engine because … (Conv)
    7 of 8 other ops quantized; 1 without codes of its own, integers in calib8's engine (Erf)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from calib8.ops.groups import RECURRENT, WEIGHTED_OPS


@dataclass(frozen=True)
class NodeDecision:
    """Whether a node is quantized; ``reason`` is empty if it is."""

    node: str
    op_type: str
    quantized: bool
    reason: str


def described(decisions: Sequence[NodeDecision], engine_floats: Mapping[str, str] | None) -> str:
    """A line per weighted op, then one of the other ops; several reasons have a line each.

    Args:
        decisions: of all nodes.
        engine_floats: node that calib8's engine computes in float → why; None: not known.
    """
    weighted = [one for one in decisions if one.op_type in WEIGHTED_OPS | RECURRENT]
    lines = []
    for op_type in dict.fromkeys(one.op_type for one in weighted):
        lines.append(_line([one for one in weighted if one.op_type == op_type], op_type, engine_floats))
    others = [one for one in decisions if one.op_type not in WEIGHTED_OPS | RECURRENT]
    lines.append(_line(others, "other ops", engine_floats))
    return "\n".join(lines)


def _line(decisions: Sequence[NodeDecision], called: str, engine_floats: Mapping[str, str] | None) -> str:
    done = sum(one.quantized for one in decisions)
    remarks = Counter(_remarks(decisions, engine_floats))
    separator = "; " if len(remarks) == 1 else "\n  "
    listed = "".join(f"{separator}{count} {remark}" for remark, count in remarks.items())
    return f"{done} of {len(decisions)} {called} quantized{listed}"


def _remarks(decisions: Iterable[NodeDecision], engine_floats: Mapping[str, str] | None) -> Iterable[str]:
    """What there is to say of nodes that are not codes throughout."""
    for one in decisions:
        why = None if engine_floats is None else engine_floats.get(one.node)
        if one.quantized and why is not None:
            yield f"float in calib8's engine because {why} ({one.op_type})"
        elif not one.quantized and why is None and engine_floats is not None:
            yield f"without codes of its own, integers in calib8's engine ({one.op_type})"
        elif not one.quantized:
            yield f"float because {one.reason} ({one.op_type})"
