"""Two graphs compared though one of their nodes chooses: TopK, ArgMax, ArgMin, NonMaxSuppression.

Scores that are almost equal change places by the last bit of a sum, and with them all that is gathered by
their places: the queries of a DETR, boxes. So the second graph gets what the first one chose; what it gives
then, and the scores that it would have chosen by, tell whether it computes the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import constant
from calib8.model.runtime import Arrays, as_written, open_session
from calib8.model.taps import tapped_model
from calib8.ops.groups import CHOICES

Outputs = Sequence[npt.NDArray[Any]]


def with_one_choice(first: ir.Model, second: ir.Model, sample: Arrays) -> tuple[Outputs, Outputs] | None:
    """What both choose by, and their outputs, where the second chooses as the first does.

    Args:
        first, second: graphs of the same inputs and outputs, with inferred types; not changed.
        sample: one array per input, by name.

    Returns:
        None where they do not choose, or not alike: other nodes, settings, constants or numbers of places.
    """
    ours, theirs = _choices(first), _choices(second)
    if not ours or ours.keys() != theirs.keys():
        return None
    if not all(_alike(node, theirs[name]) for name, node in ours.items()):
        return None
    chosen = [value.name or "" for node in ours.values() for value in node.outputs]
    compared = [value.name or "" for value in first.graph.outputs if value.name not in chosen]
    scores, others = ([score for name in ours for score in _scores(nodes[name])] for nodes in (ours, theirs))
    names = (scores, first), (others, second)
    if len(scores) != len(others) or not all(_computes(model, (*own, *compared)) for own, model in names):
        return None
    asked = [*chosen, *scores, *compared]
    results = open_session(tapped_model(first, asked), configure=as_written).run(sample)
    given = dict(zip(chosen, results, strict=False))
    fed = tapped_model(second, [*others, *compared])
    _feed(fed, set(given))
    actual = open_session(fed, configure=as_written).run({**sample, **given})
    return results[len(chosen) :], actual


def _computes(model: ir.Model, names: Iterable[str]) -> bool:
    return {value.name for node in model.graph for value in node.outputs}.issuperset(names)


def _choices(model: ir.Model) -> dict[str, ir.Node]:
    """Name of its first output → node."""
    return {node.outputs[0].name or "": node for node in model.graph if node.op_type in CHOICES}


def _alike(first: ir.Node, second: ir.Node) -> bool:
    """Of one kind, with the same settings and constants."""
    settings = [{name: one.value for name, one in node.attributes.items()} for node in (first, second)]
    fixed = [[constant(value) for value in node.inputs] for node in (first, second)]
    return (
        first.op_type == second.op_type
        and settings[0] == settings[1]
        and len(fixed[0]) == len(fixed[1])
        and all(
            (one is None) == (other is None) and (one is None or np.array_equal(one, other))
            for one, other in zip(*fixed, strict=True)
        )
    )


def _scores(node: ir.Node) -> list[str]:
    """What a node chooses by: all that is computed of its inputs."""
    return [value.name or "" for value in node.inputs if value is not None and constant(value) is None]


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
