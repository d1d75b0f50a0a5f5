"""Equalization through functions: channels get factors that the functions behind or before them take away.

    layer ─► t ─► f ─► v ─► depthwise D       f any function of one tensor: HardSwish, Sigmoid, Mul a, Add b …
    layer·s ─► s·t ─► Mul 1/s ─► f ─► Mul u ─► u·v ─► D/u

    room_c = min(R.max / high_c, R.min / low_c)     of t and of v, [R.min, R.max] the range in the table,
                                                    low_c … high_c the values of channel c on all samples
    s_c, u_c = the largest power of two ≤ min(max(1, room_c), largest)

Where a target computes functions that follow each other as one, only the ends of the chain have codes. One
scale then serves channels of like size, whatever their sizes in the float model, and the chain is a table per
channel. Cross-layer equalization and ``equalize_activations`` need f(s·t) = s·f(t); this needs nothing of f.
The float function stays the same bit for bit, as factors are powers of two. Factors are 1 or more: what a
range cut off before is still cut off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.errors import UsageError
from calib8.model.graph import rank
from calib8.passes.fold_affine import Vector
from calib8.passes.function_factors import (
    FunctionEntry,
    FunctionExit,
    function_entries,
    function_exits,
    powers_of_two,
    scale_into,
    scale_out_of,
)
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.channel_extremes import ChannelExtremes, channel_extremes
from calib8.repair.refit import refitted, without_corrections
from calib8.scheme import QuantScheme
from calib8.table import GIVEN, Range

LARGEST: Final = 1024.0
"""Of a factor. A channel that is nearly silent on all samples may be louder on other images."""


def equalize_through_functions(
    candidate: Candidate, data: RepairData, *, largest: float = LARGEST
) -> tuple[Candidate, RepairReport]:
    """Equalizes every tensor between a layer and a function, and between one and depthwise layers.

    Before → after: see the top of the file. Tensors with a range that the user gave stay as they are, and so
    does everything for targets that have codes beside every op.

    Args:
        candidate: what to repair; corrections of the layers that change are dropped.
        data: all its samples count.
        largest: of a factor, 1 or more.

    Returns:
        The candidate with the new model and ranges, and what was done.

    Raises:
        UsageError: ``largest`` is below 1.
        CalibrationError: a tensor held NaN or infinite values.
        ModelError, DataError: ONNX Runtime cannot run the model, or the samples cannot be read again.
    """
    if not 1.0 <= largest < math.inf:
        raise UsageError(f"largest {largest:g}", "must be 1 or more", f"Use {LARGEST:g}")
    model = candidate.model.clone()
    entries = [found for found in function_entries(model, *_rules(candidate)) if _free(found, candidate)]
    exits = [found for found in function_exits(model, *_rules(candidate)) if _free(found, candidate)]
    ends: list[FunctionEntry | FunctionExit] = [*entries, *exits]
    tensors = {_name(found): rank(found.tensor) or 0 for found in ends}
    extremes = channel_extremes(model, tensors, data, every_sample=True)
    factors = {
        name: powers_of_two(np.clip(_room(candidate.table.entries[name].range, seen), 1.0, largest))
        for name, seen in extremes.items()
    }
    layers = _scaled(model, entries, exits, factors)
    changed = [name for name, found in factors.items() if np.any(found != 1.0)]
    if not changed:
        return candidate, RepairReport((), _silent(extremes))
    names = tuple(node.name or "" for node in model.graph if node in layers)
    result, notes = without_corrections(refitted(candidate, model, changed, data), names)
    told = f"tensors beside functions of which channels were equalized: {len(changed)}"
    return result, RepairReport(names, (told, *_silent(extremes), *notes))


def _rules(candidate: Candidate) -> tuple[QuantScheme, frozenset[str]]:
    return candidate.scheme, candidate.keep_float


def _name(found: FunctionEntry | FunctionExit) -> str:
    return found.tensor.name or ""


def _free(found: FunctionEntry | FunctionExit, candidate: Candidate) -> bool:
    """Whether the tensor has codes whose range the user has not given."""
    entry = candidate.table.entries.get(_name(found))
    return entry is not None and entry.method != GIVEN


def _room(span: Range, seen: ChannelExtremes) -> Vector:
    """Factors that fill the range, float64 [channels]; 1 for a channel of zeros."""
    widened = span.widened_to_zero()
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.where(seen.maximum > 0.0, widened.max / seen.maximum, np.inf)
        below = np.where(seen.minimum < 0.0, widened.min / seen.minimum, np.inf)
    room: Vector = np.minimum(above, below)
    room[~np.isfinite(room)] = 1.0
    return room


def _scaled(
    model: ir.Model,
    entries: Sequence[FunctionEntry],
    exits: Sequence[FunctionExit],
    factors: Mapping[str, Vector],
) -> set[ir.Node]:
    """Puts the factors into the model, where one is not 1; returns the layers that changed."""
    layers: set[ir.Node] = set()
    for entry in entries:
        found = factors[_name(entry)]
        if np.any(found != 1.0):
            scale_into(model.graph, entry, found)
            layers.add(entry.layer.layer)
    for end in exits:
        found = factors[_name(end)]
        if np.any(found != 1.0):
            scale_out_of(model.graph, end, found)
            layers.update(reader.layer for reader in end.readers)
    return layers


def _silent(extremes: Mapping[str, ChannelExtremes]) -> tuple[str, ...]:
    """How many channels were zero throughout, if any."""
    silent = sum(found.dead for found in extremes.values())
    return (f"channels beside functions that were zero in all samples: {silent}",) if silent else ()
