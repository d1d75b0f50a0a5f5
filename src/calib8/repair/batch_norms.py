"""Batch normalizations estimated anew: μ and σ² become those of the calibration images.

    original, its μ and σ² from the runs ─► prepared again ─► new ranges behind every layer that changed

γ and β stay. The float function becomes another one, made for images like these: it is what the int8 model is
judged by from then on. A network whose normalizations were folded at its export has none to estimate.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from calib8.errors import UsageError
from calib8.model.graph import constant
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
        The candidate and a report that says so (``new_function``); the candidate itself where the original
        has no BatchNormalization with constant parameters.

    Raises:
        UsageError: the original is not known, or other repairs have changed the model before.
        CalibrationError: a tensor held NaN or infinite values.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    if data.original is None or data.prepared is None:
        raise UsageError("bn", "the model as it was loaded is needed", "Give original=")
    if candidate.model is not data.prepared:
        raise UsageError("bn", "the model was changed before", "Estimate batch normalizations first")
    found, drifts = reestimate_batch_norms(data.original, data.runs, data.threads, data.progress)
    if not drifts:
        return candidate, RepairReport((), ("no batch normalization in the file: folded at its export",))
    model = prepare(found, data.runs[0]).model
    layers, tensors = _changed(data.prepared, model)
    entries = candidate.table.entries
    free = {name for name in tensors if name in entries and entries[name].method != GIVEN}
    result, dropped = without_corrections(refitted(candidate, model, free, data), layers)
    return result, RepairReport(layers, (*_notes(drifts), *dropped), new_function=True)


def _changed(before: ir.Model, after: ir.Model) -> tuple[tuple[str, ...], frozenset[str]]:
    """Nodes whose constants are others, and all tensors behind them."""
    old = {node.name: node for node in before.graph}
    layers: list[str] = []
    tensors: set[str] = set()
    for node in after.graph:
        same = node.name in old and _same_constants(old[node.name], node)
        if not same:
            layers.append(node.name or "")
        if not same or any(value is not None and value.name in tensors for value in node.inputs):
            tensors.update(value.name or "" for value in node.outputs)
    return tuple(layers), frozenset(tensors)


def _same_constants(left: ir.Node, right: ir.Node) -> bool:
    if len(left.inputs) != len(right.inputs):
        return False
    pairs = [(constant(a), constant(b)) for a, b in zip(left.inputs, right.inputs, strict=True)]
    return all(a is b if a is None or b is None else np.array_equal(a, b) for a, b in pairs)


def _notes(drifts: tuple[BatchNormDrift, ...]) -> tuple[str, ...]:
    most = max(drifts, key=lambda drift: drift.shift)
    return (
        f"batch normalizations: {len(drifts)}; '{most.name}' moved most, by {most.shift:.2f} deviations",
        "the float function is another one now, and figures from here on are against it",
    )
