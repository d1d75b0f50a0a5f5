"""Mean errors taken out of biases, and what there is to say of it: the end of every bias correction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from calib8.repair.candidate import Candidate, RepairReport
from calib8.repair.coded_layers import CodedLayer, Doubles, Floats

NAMED: Final = 3
"""So many layers a note names."""

FLOAT32_STEP: Final = 2.0**-24
"""Half the distance from 1 to the next float32: what less than this share of a bias changes nothing."""


@dataclass(frozen=True)
class NewBias:
    """A layer with the bias that it gets.

    Attributes:
        layer: which one.
        bias: float32 [output channels].
        kept: channels that keep what they had although another bias would be right.
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
    differs = ~(np.abs(error) <= FLOAT32_STEP * np.abs(bias))  # True for NaN too
    return NewBias(layer, np.where(fits, wanted, bias).astype(np.float32), int(np.sum(~fits & differs)))


def put_biases(
    candidate: Candidate, layers: Sequence[CodedLayer], biases: Sequence[NewBias]
) -> tuple[Candidate, RepairReport]:
    """The candidate with new biases, everything else as it is, and the report.

    Args:
        candidate: what to put them into.
        layers: all that are coded, to tell of those that cannot have a bias.
        biases: in graph order.
    """
    corrections = dict(candidate.corrections)
    changed = []
    for new in biases:
        name = new.layer.name
        if not np.array_equal(new.bias, current_bias(candidate, new.layer)):
            corrections[name] = replace(candidate.correction(name), bias=new.bias)
            changed.append(name)
    report = RepairReport(tuple(changed), tuple(_notes(layers, biases)))
    return (replace(candidate, corrections=corrections) if changed else candidate), report


def _notes(layers: Sequence[CodedLayer], biases: Sequence[NewBias]) -> Iterator[str]:
    kept = [new for new in biases if new.kept]
    if kept:
        most = sorted(kept, key=lambda new: -new.kept)[:NAMED]
        names = ", ".join(f"'{new.layer.name}' ({new.kept})" for new in most)
        more = f" and {len(kept) - NAMED} more layers" if len(kept) > NAMED else ""
        yield (
            f"channels that keep the bias they had, {sum(new.kept for new in kept)}, as the better one does "
            f"not fit int32 with their small scale; nothing to do: {names}{more}"
        )
    without = [f"'{layer.name}'" for layer in layers if not layer.layer.takes_bias]
    if without:
        yield f"MatMul has no place for a bias: {', '.join(without)}"
