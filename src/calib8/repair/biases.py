"""Mean errors taken out of biases, and what there is to say of it: the end of every bias correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calib8.repair.candidate import Candidate, RepairReport
from calib8.repair.coded_layers import CodedLayer, Doubles, Floats


@dataclass(frozen=True)
class NewBias:
    """A layer with the bias that it gets.

    Attributes:
        layer: which one.
        bias: float32 [output channels].
        kept: channels that keep what they had.
    """

    layer: CodedLayer
    bias: Floats
    kept: int


def current_bias(candidate: Candidate, layer: CodedLayer) -> Floats:
    """float32 [output channels]: the bias of the layer's correction if there is one, else its own."""
    corrected = candidate.correction(layer.name).bias
    return layer.bias if corrected is None else corrected


def without_error(layer: CodedLayer, bias: Floats, error: Doubles) -> NewBias:
    """``bias − error`` in every channel whose scale can hold it, ``bias`` in the others.

    Args:
        layer: whose bias.
        bias: float32 [output channels].
        error: float64 [output channels]; NaN and infinite ones are left alone.
    """
    wanted = bias.astype(np.float64) - error
    fits = layer.holds(wanted)
    return NewBias(layer, np.where(fits, wanted, bias).astype(np.float32), int(np.sum(~fits)))


def put_biases(
    repair: str, candidate: Candidate, layers: Sequence[CodedLayer], biases: Sequence[NewBias]
) -> tuple[Candidate, RepairReport]:
    """The candidate with new biases, everything else as it is, and the report.

    Args:
        repair: its name.
        candidate: what to put them into.
        layers: all that are coded, to tell of those that cannot have a bias.
        biases: in graph order.
    """
    corrections = dict(candidate.corrections)
    changed, notes = [], []
    for new in biases:
        name, size = new.layer.name, len(new.bias)
        if new.kept:
            kept = f"{new.kept} of {size} channels of '{name}' keep their bias"
            notes.append(f"{kept}: int32 has no room for a new one")
        if new.kept < size:
            corrections[name] = replace(candidate.correction(name), bias=new.bias)
            changed.append(name)
    without = [f"'{layer.name}'" for layer in layers if not layer.takes_bias]
    if without:
        notes.append(f"MatMul has no place for a bias: {', '.join(without)}")
    return replace(candidate, corrections=corrections), RepairReport(repair, tuple(changed), tuple(notes))
