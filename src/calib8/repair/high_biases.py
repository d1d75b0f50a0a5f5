"""High-bias absorption of a candidate: what all values of a channel have in common moves into the next layer.

    seen       c = max(0, smallest value on the runs)       exact on the runs
    expected   c = max(0, β − 3 |γ|)                        of the batch normalization that was folded

The pass is ``passes/absorb_bias``; tensors that became smaller get new ranges. Values below c, which other
samples may have, are lost: whether the network bears it, samples held back must tell.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calib8.passes.absorb_bias import Absorption, absorb_high_biases, high_bias
from calib8.passes.batch_norm_moments import Moments
from calib8.passes.channel_paths import ChannelPath, channel_paths
from calib8.passes.fold_affine import Vector
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.channel_extremes import channel_extremes
from calib8.repair.refit import refitted, without_corrections
from calib8.table import GIVEN


def absorb_seen(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """Absorbs what no value before a Relu fell below on the runs.

    Args:
        candidate: what to repair; corrections of the layers that change are dropped. Tensors with a range
            that the user gave stay as they are.
        data: the runs that count, and the samples that new ranges come from.

    Raises:
        CalibrationError: a tensor held NaN or infinite values.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    paths = _paths(candidate)
    extremes = channel_extremes(candidate.model, {path.names[0]: path.source.axes for path in paths}, data)
    amounts = {name: np.maximum(0.0, found.minimum) for name, found in extremes.items()}
    return _absorbed(candidate, amounts, data)


def absorb_expected(
    candidate: Candidate, data: RepairData, moments: Mapping[str, Moments]
) -> tuple[Candidate, RepairReport]:
    """Absorbs what 99.865 % of the values before a Relu exceed, by what batch normalizations say of them.

    Args:
        candidate: as for ``absorb_seen``.
        data: the samples that new ranges come from.
        moments: tensor → its distribution, as ``batch_norm_moments`` of the original model gives it; where
            channels were scaled since (equalization), scaled likewise.

    Raises:
        CalibrationError: a tensor held NaN or infinite values.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    amounts: dict[str, Vector] = {}
    for path in _paths(candidate):
        found = moments.get(path.names[0])
        if found is not None and found.deviation is not None and found.mean.size == path.source.outputs:
            amounts[path.names[0]] = high_bias(found.mean, found.deviation)
    return _absorbed(candidate, amounts, data)


def _paths(candidate: Candidate) -> list[ChannelPath]:
    """Those that begin with a Relu, without a range that the user gave."""
    given = {name for name, entry in candidate.table.entries.items() if entry.method == GIVEN}
    paths = channel_paths(candidate.model)
    relus = [path for path in paths if [node.op_type for node in path.nodes[:1]] == ["Relu"]]
    return [path for path in relus if given.isdisjoint(path.names)]


def _absorbed(
    candidate: Candidate, amounts: Mapping[str, Vector], data: RepairData
) -> tuple[Candidate, RepairReport]:
    model = candidate.model.clone()
    found = absorb_high_biases(model, amounts)
    if not found.layers:
        return candidate, RepairReport((), _idle(amounts, found))
    layers = tuple(node.name or "" for node in model.graph if node.name in found.layers)
    kept, dropped = without_corrections(candidate, layers)
    result = refitted(kept, model, found.tensors, data)
    return result, RepairReport(layers, (*_padded(found), *dropped))


def _idle(amounts: Mapping[str, Vector], found: Absorption) -> tuple[str, ...]:
    """Why there is nothing to absorb."""
    if not amounts:
        return ("no Relu between two layers of which anything is known",)
    high = sum(int(np.sum(amount > 0.0)) for amount in amounts.values())
    return _padded(found) if high else ("no channel before a Relu stays above zero",)


def _padded(found: Absorption) -> tuple[str, ...]:
    if not found.padded:
        return ()
    return (f"layers that cannot take biases, as they pad with zeros: {len(found.padded)}",)
