"""Equalization through functions: channels get factors that the functions behind or before them take away.

    layer ─► t ─► f ─► v ─► layers D          f any function of one tensor: HardSwish, SiLU, Mul a, Add b …
    layer·s ─► s·t ─► Mul 1/s ─► f ─► Mul u ─► u·v ─► D/u

    −low_c … high_c      values of channel c on all samples, w_c = low_c + high_c
    s_c = min(ρ / low_c, 1 / high_c) / least, at most largest, and of that the largest power of two
    ρ:  min mean_c (W / (s_c w_c))²,  W = max s_c low_c + max s_c high_c          likewise u_c

The loudest channels keep factor 1, the others become about as large as the new range W. Its shape ρ, what
is below zero beside what is above, is free; the best one makes the noise of all channels small beside their
own size. A tensor stays as it is if that mean would not fall to ``worth`` of what it was. Depthwise layers
have a scale for the weights of every channel; where others read v, u is weighed against their weights
(``channels_read``).

Where a target computes functions that follow each other as one, only the ends of the chain have codes. One
scale then serves channels of like size, whatever their sizes in the float model, and the chain is a table per
channel. Cross-layer equalization and ``equalize_activations`` need f(s·t) = s·f(t); this needs nothing of f.
The float function stays the same bit for bit, as factors are powers of two.
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
from calib8.repair.channels_read import factors_of_least_noise
from calib8.repair.refit import refitted, without_corrections
from calib8.scheme import QuantScheme
from calib8.table import GIVEN

LARGEST: Final = 1024.0
"""Of a factor. A channel that is nearly silent on all samples may be louder on other images."""

WORTH: Final = 0.2
"""Share of a tensor's mean relative noise that may be left: a Mul more takes time in ONNX Runtime."""

SHAPES: Final = (0.0, *(2.0 ** (step / 4) for step in range(-32, 33)))
"""Parts of a range below zero, the part above it being 1."""


def equalize_through_functions(
    candidate: Candidate, data: RepairData, *, largest: float = LARGEST, worth: float = WORTH
) -> tuple[Candidate, RepairReport]:
    """Equalizes every tensor between a layer and a function, and between one and layers.

    Before → after: see the top of the file. Tensors with a range that the user gave stay as they are, and so
    does everything for targets that have codes beside every op.

    Args:
        candidate: what to repair; corrections of the layers that change are dropped.
        data: all its samples count.
        largest: of a factor, 1 or more.
        worth: share of the noise, over 0 and at most 1, to which that of a tensor must fall.

    Returns:
        The candidate with the new model and ranges, and what was done.

    Raises:
        UsageError: ``largest`` is below 1, or ``worth`` is no such share.
        CalibrationError: a tensor held NaN or infinite values.
        ModelError, DataError: ONNX Runtime cannot run the model, or the samples cannot be read again.
    """
    if not 1.0 <= largest < math.inf:
        raise UsageError(f"largest {largest:g}", "must be 1 or more", f"Use {LARGEST:g}")
    if not 0.0 < worth <= 1.0:
        raise UsageError(f"worth {worth:g}", "must be over 0 and at most 1", f"Use {WORTH:g}")
    model = candidate.model.clone()
    entries = [found for found in function_entries(model, *_rules(candidate)) if _free(found, candidate)]
    exits = [found for found in function_exits(model, *_rules(candidate)) if _free(found, candidate)]
    ends: list[FunctionEntry | FunctionExit] = [*entries, *exits]
    tensors = {_name(found): rank(found.tensor) or 0 for found in ends}
    weighed = {_name(found): found.readers for found in exits if not found.depthwise}
    extremes = channel_extremes(model, tensors, data, every_sample=True, power=bool(weighed))
    factors = {
        name: factors_of_least_noise(seen, weighed[name], largest, worth, _as_alike_as_can_be)
        if name in weighed
        else channel_sizes_alike(seen, largest, worth)
        for name, seen in extremes.items()
    }
    layers = _scaled(model, entries, exits, factors)
    changed = [name for name, found in factors.items() if np.any(found != 1.0)]
    if not changed:
        return candidate, RepairReport((), _silent(extremes))
    names = tuple(node.name or "" for node in model.graph if node in layers)
    kept, notes = without_corrections(candidate, names)
    result = refitted(kept, model, changed, data, scored=False)
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


def _as_alike_as_can_be(seen: ChannelExtremes, largest: float) -> Vector:
    return channel_sizes_alike(seen, largest, 1.0)


def channel_sizes_alike(seen: ChannelExtremes, largest: float, worth: float) -> Vector:
    """Factors that make the channels of one tensor alike: powers of two, 1 or more, float64 [channels].

    See the top of the file. All are 1 where nothing is worth it. A channel of zeros has 1.
    """
    low, high = -np.minimum(seen.minimum, 0.0), np.maximum(seen.maximum, 0.0)
    alive = low + high > 0.0
    factors: Vector = np.ones(alive.size)
    if not np.any(alive):
        return factors
    low, high = low[alive], high[alive]
    best, least = np.ones(low.size), worth * _relative_noise(np.ones(low.size), low, high)
    for shape in SHAPES:
        found = _for_shape(shape, low, high, largest)
        noise = _relative_noise(found, low, high)
        if noise < least:
            best, least = found, noise
    factors[alive] = best
    return factors


def _for_shape(shape: float, low: Vector, high: Vector, largest: float) -> Vector:
    """Factors with which every channel fits a range −shape … 1; all 1 where one does not."""
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.where(low > 0.0, shape / low, np.inf)
        above = np.where(high > 0.0, 1.0 / high, np.inf)
    room = np.minimum(below, above)
    if not np.min(room) > 0.0:
        return np.ones(room.size)
    return powers_of_two(np.minimum(room / np.min(room), largest))


def _relative_noise(factors: Vector, low: Vector, high: Vector) -> float:
    """Mean square of the range over what each channel uses of it."""
    width = np.max(factors * low) + np.max(factors * high)
    return float(np.mean((width / (factors * (low + high))) ** 2))


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
            layers.add(entry.layer.node)
    for end in exits:
        found = factors[_name(end)]
        if np.any(found != 1.0):
            scale_out_of(model.graph, end, found)
            layers.update(reader.node for reader in end.readers)
    return layers


def _silent(extremes: Mapping[str, ChannelExtremes]) -> tuple[str, ...]:
    """How many channels were zero throughout, if any."""
    silent = sum(found.dead for found in extremes.values())
    return (f"channels beside functions that were zero in all samples: {silent}",) if silent else ()
