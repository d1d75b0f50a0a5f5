"""Two graphs compared though one of their nodes chooses: TopK, ArgMax, ArgMin, NonMaxSuppression.

Scores that are almost equal change places by the last bit of a sum, and with them all that is gathered by
their places: the queries of a DETR, boxes. So the second graph gets what the first one chose; what it gives
then, and the scores that it would have chosen by, tell whether it computes the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.runtime import Arrays, as_written, open_session
from calib8.model.taps import tapped_model

CHOICES: Final = frozenset({"TopK", "ArgMax", "ArgMin", "NonMaxSuppression"})

Outputs = Sequence[npt.NDArray[Any]]


def with_one_choice(first: ir.Model, second: ir.Model, sample: Arrays) -> tuple[Outputs, Outputs] | None:
    """Scores and outputs of both where the second chooses as the first does; None where they do not choose.

    Args:
        first, second: graphs of the same inputs and outputs; not changed.
        sample: one array per input, by name.
    """
    ours, theirs = _choices(first), _choices(second)
    if not ours or ours.keys() != theirs.keys():
        return None
    chosen = [value.name or "" for node in ours.values() for value in node.outputs]
    own = [value.name or "" for value in first.graph.outputs]
    compared = [name for name in own if name not in chosen]
    scores, others = ([_scores(nodes[name]) for name in ours] for nodes in (ours, theirs))
    named = {value.name for node in second.graph for value in node.outputs}
    if not named.issuperset((*others, *compared)):
        return None
    asked = [*chosen, *scores, *compared]
    results = open_session(tapped_model(first, asked), configure=as_written).run(sample)
    given = dict(zip(chosen, results, strict=False))
    fed = tapped_model(second, [*others, *compared])
    _feed(fed, set(given))
    actual = open_session(fed, configure=as_written).run({**sample, **given})
    return results[len(chosen) :], actual


def _choices(model: ir.Model) -> dict[str, ir.Node]:
    """Name of its first output → node."""
    return {node.outputs[0].name or "": node for node in model.graph if node.op_type in CHOICES}


def _scores(node: ir.Node) -> str:
    """What a node chooses by: its last computed input with axes of values."""
    value = node.inputs[1 if node.op_type == "NonMaxSuppression" else 0]
    return "" if value is None else value.name or ""


def _feed(model: ir.Model, names: set[str]) -> None:
    """Makes inputs of the graph of what nodes that choose yield."""
    for node in [node for node in model.graph if node.op_type in CHOICES]:
        for value in node.outputs:
            if value.name in names:
                given = ir.Value(name=value.name, type=value.type, shape=value.shape)
                value.name = f"{value.name}/chosen"
                value.replace_all_uses_with(given)
                model.graph.inputs.append(given)
    ir_passes.RemoveUnusedNodesPass()(model)
