"""Cross-layer equalization and high-bias absorption of a model with its ranges.

1. a ReLU6 between two layers becomes a Relu, for a Clip with an upper limit does not let factors through
       unreached   where calibration never saw its output at the limit (the default)
       replace     whatever it saw; whether the model bears it only images can tell
       keep        nowhere
2. chains of layers are equalized          passes/equalize_layers
3. high biases are absorbed, on request    passes/absorb_bias, c = max(0, smallest value on the runs)
4. the tensors that changed get new ranges

With one scale for a whole weight this is what makes depthwise networks work at all; with a scale per channel
it only makes the ranges of activations more alike.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np
import onnx_ir as ir

from calib8.passes.absorb_bias import Absorption, absorb_high_biases
from calib8.passes.channel_paths import channel_paths
from calib8.passes.equalize_layers import Equalization, equalize_layers
from calib8.passes.unlimit import remove_limits, remove_unreached_limits
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.channel_extremes import channel_extremes
from calib8.repair.refit import refitted, without_corrections
from calib8.table import GIVEN, CalibrationTable

NAME: Final = "equalize-layers"

Limits: TypeAlias = Literal["unreached", "replace", "keep"]


def cross_layer(
    candidate: Candidate, data: RepairData, *, limits: Limits = "unreached", absorb: bool = False
) -> tuple[Candidate, RepairReport]:
    """Equalizes the layers of a candidate.

    Tensors with a range that the user gave stay as they are.

    Args:
        candidate: what to repair; corrections of the layers that change are dropped.
        data: the runs that the new ranges and the absorbed biases come from.
        limits: what becomes of ReLU6, see the top of the file.
        absorb: whether high biases are absorbed.

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
    absorbed = _absorb(model, data, given) if absorb else Absorption()
    changed = {*found.factors, *absorbed.tensors, *(freed if limits == "replace" else ())} - given
    touched = found.layers | absorbed.layers
    if not touched and not changed:
        return candidate, RepairReport(NAME, (), _notes(found, absorbed, ()))
    layers = tuple(node.name or "" for node in model.graph if node.name in touched)
    result, dropped = without_corrections(refitted(candidate, model, changed, data), layers)
    return result, RepairReport(NAME, layers, (*_notes(found, absorbed, freed), *dropped))


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


def _absorb(model: ir.Model, data: RepairData, given: set[str]) -> Absorption:
    """Absorbs what no value before a Relu fell below on the runs."""
    tensors = {
        path.names[0]: path.source.axes
        for path in channel_paths(model)
        if [node.op_type for node in path.nodes[:1]] == ["Relu"] and not given & set(path.names)
    }
    extremes = channel_extremes(model, tensors, data)
    return absorb_high_biases(model, {name: np.maximum(0.0, e.minimum) for name, e in extremes.items()})


def _notes(found: Equalization, absorbed: Absorption, freed: tuple[str, ...]) -> tuple[str, ...]:
    figures = {
        "chains of layers equalized": len(found.chains),
        "sweeps over them": found.sweeps,
        "upper limits of activations removed": len(freed),
        "layers passed over, as values reach an upper limit behind them": len(found.clipped),
        "channels left alone, as their weights or those that read them are zero": sum(found.dead.values()),
        "layers whose biases gave or took": len(absorbed.layers),
        "layers that cannot take biases, as they pad with zeros": len(absorbed.padded),
    }
    return tuple(f"{what}: {number}" for what, number in figures.items() if number)
