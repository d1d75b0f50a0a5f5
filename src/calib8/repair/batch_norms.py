"""Batch normalizations estimated anew: μ and σ² become those of the calibration images.

    original, its μ and σ² from the runs ─► prepared again ─► new ranges behind every layer that changed

γ and β stay. The float function becomes another one, made for images like these: it is what the int8 model is
judged by from then on. A network whose normalizations were folded at its export has none to estimate.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.errors import ModelError, UsageError
from calib8.model.graph import Names, constant
from calib8.passes.prepare import prepare
from calib8.repair.batch_norm_statistics import BatchNormDrift, reestimate_batch_norms
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.refit import refitted, without_corrections
from calib8.table import GIVEN


def estimate_batch_norms(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """The candidate with normalizations of the runs; ranges that the user gave stay.

    Args:
        candidate: its model must still be ``data.prepared``, for it is prepared anew from the original;
            corrections of the layers that change are dropped.
        data: the runs to estimate from, the model as it was loaded and as it was prepared.

    Returns:
        The candidate and a report that says so (``new_original``); the candidate itself where the original
        has no BatchNormalization with constant parameters.

    Raises:
        UsageError: the original is not known, or other repairs have changed the model before.
        CalibrationError: a tensor held NaN or infinite values.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    if data.original is None or data.prepared is None:
        raise UsageError("bn", "the model as it was loaded is not known", "Name other repairs")
    if candidate.model is not data.prepared:
        raise UsageError("bn", "the model was changed before", "Estimate batch normalizations first")
    found, drifts = reestimate_batch_norms(data.original, data.runs, data.threads, data.progress)
    if not drifts:
        return candidate, RepairReport((), ("no batch normalization in the file: folded at its export",))
    model = data.prepared.clone()
    layers, tensors = _take_constants(model, prepare(found, data.runs[0]).model)
    entries = candidate.table.entries
    free = {name for name in tensors if name in entries and entries[name].method != GIVEN}
    kept, dropped = without_corrections(candidate, layers)
    result = refitted(kept, model, free, data)
    return result, RepairReport(layers, (*_notes(drifts), *dropped), new_original=found)


def _take_constants(model: ir.Model, other: ir.Model) -> tuple[tuple[str, ...], frozenset[str]]:
    """Gives the nodes the constants of a graph of the same nodes, which may have other names.

    Returns:
        Names of the nodes that changed, and of all tensors behind them.

    Raises:
        ModelError: the nodes are others.
    """
    pairs = list(zip(model.graph, other.graph, strict=False))
    alike = all(_shape(left) == _shape(right) for left, right in pairs)
    if not alike or len(model.graph) != len(other.graph):
        problem = "has other nodes when it is prepared with new statistics"
        raise ModelError(model.graph.name or "model", problem, "Leave out 'bn'")
    names = Names(model.graph)
    layers: list[str] = []
    tensors: set[str] = set()
    for left, right in pairs:
        moved = _replace_constants(names, left, right)
        if moved:
            layers.append(left.name or "")
        if moved or any(value is not None and value.name in tensors for value in left.inputs):
            tensors.update(value.name or "" for value in left.outputs)
    ir_passes.RemoveUnusedNodesPass()(model)  # the old constants
    return tuple(layers), frozenset(tensors)


def _shape(node: ir.Node) -> tuple[str, str, tuple[bool, ...]]:
    """What kind of node it is, and which of its inputs are constants."""
    return node.domain, node.op_type, tuple(constant(value) is not None for value in node.inputs)


def _replace_constants(names: Names, node: ir.Node, other: ir.Node) -> bool:
    """Whether any was another one."""
    moved = False
    for index, (old, new) in enumerate(zip(node.inputs, other.inputs, strict=True)):
        array = constant(new)
        if array is not None and not np.array_equal(np.asarray(constant(old)), array):
            node.replace_input_with(index, names.constant(f"{node.name}/estimated", array))
            moved = True
    return moved


def _notes(drifts: tuple[BatchNormDrift, ...]) -> tuple[str, ...]:
    most = max(drifts, key=lambda drift: drift.shift)
    return (
        f"batch normalizations: {len(drifts)}; '{most.name}' moved most, by {most.shift:.2f} deviations",
        "the float function is another one now, and figures from here on are against it",
    )
