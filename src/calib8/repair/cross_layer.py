"""Cross-layer equalization of a model with its ranges.

1. a ReLU6 between two layers becomes a Relu, for a Clip with an upper limit does not let factors through
       unreached   where calibration never saw its output at the limit (the default)
       replace     whatever it saw; whether the model bears it only images can tell
       keep        nowhere
2. chains of layers are equalized          passes/equalize_layers
3. the tensors that changed get new ranges

With one scale for a whole weight this is what makes depthwise networks work at all; with a scale per channel
it only makes the ranges of activations more alike.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np
import onnx_ir as ir

from calib8.passes.channel_paths import channel_paths
from calib8.passes.equalize_layers import Equalization, equalize_layers
from calib8.passes.unlimit import remove_limits, remove_unreached_limits
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.refit import refitted, without_corrections
from calib8.table import GIVEN, CalibrationTable

Limits: TypeAlias = Literal["unreached", "replace", "keep"]

ORDERS: Final = 30.0
"""Channels that differ by so much from the usual one differ by orders."""


def differ_by_orders(model: ir.Model) -> bool:
    """Whether equalization would divide or multiply a channel 30 times as much as most channels beside it.

    It looks at constants alone, so it costs next to nothing.

    Args:
        model: a prepared float graph.
    """
    for path in channel_paths(model):
        written, read = path.source.output_magnitudes(), path.reader.input_magnitudes()
        alive = (written > 0.0) & (read > 0.0)
        factors = np.sqrt(written[alive] / read[alive])
        if factors.size == 0 or path.limit < np.inf:
            continue
        usual = np.median(factors)
        if max(np.max(factors) / usual, usual / np.min(factors)) > ORDERS:
            return True
    return False


def cross_layer(
    candidate: Candidate, data: RepairData, *, limits: Limits = "unreached"
) -> tuple[Candidate, RepairReport]:
    """Equalizes the layers of a candidate.

    Tensors with a range that the user gave stay as they are.

    Args:
        candidate: what to repair; corrections of the layers that change are dropped.
        data: the samples that the new ranges come from.
        limits: what becomes of ReLU6, see the top of the file.

    Returns:
        The candidate with the new model and ranges, and what was done. With ``replace`` the float function
        is another one wherever a limit was reached; else it is the same on the runs.

    Raises:
        CalibrationError: a tensor held NaN or infinite values.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    model = candidate.model.clone()
    given = {name for name, entry in candidate.table.entries.items() if entry.method == GIVEN}
    freed = _remove_limits(model, candidate.table, limits, given)
    found = equalize_layers(model, kept=given)
    changed = {*found.factors, *(freed if limits == "replace" else ())} - given
    if not found.layers and not changed:
        return candidate, RepairReport((), _notes(found, ()))
    layers = tuple(node.name or "" for node in model.graph if node.name in found.layers)
    kept, dropped = without_corrections(candidate, layers)
    result = refitted(kept, model, changed, data)
    return result, RepairReport(layers, (*_notes(found, freed), *dropped))


def _remove_limits(
    model: ir.Model, table: CalibrationTable, limits: Limits, given: set[str]
) -> tuple[str, ...]:
    """Frees what stands in the way of factors, and nothing else."""
    names = {name for path in channel_paths(model) if given.isdisjoint(path.names) for name in path.names}
    if limits == "keep":
        return ()
    if limits == "replace":
        return remove_limits(model, names)
    seen = {name: entry.observed.max for name, entry in table.entries.items() if entry.count}
    return remove_unreached_limits(model, {name: seen[name] for name in names & seen.keys()})


def _notes(found: Equalization, freed: tuple[str, ...]) -> tuple[str, ...]:
    figures = {
        "chains of layers equalized": len(found.chains),
        "sweeps over them": found.sweeps,
        "upper limits of activations removed": len(freed),
        "layers passed over, as values reach an upper limit behind them": len(found.clipped),
        "channels left alone, as their weights or those that read them are zero": sum(found.dead.values()),
    }
    return tuple(f"{what}: {number}" for what, number in figures.items() if number)
