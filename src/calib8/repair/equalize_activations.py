"""Activation equalization: the channels that feed a depthwise layer are scaled up to fill its input's range.

    t = f(W x + b) ─► depthwise D            per channel c, seen on the runs: low_c ≤ t_c ≤ high_c
    room_c = min(R.max / high_c, R.min / low_c)           [R.min, R.max] the range of t in the table
    s_c = min(max(1, room_c / margin), largest)
    W_c · s_c,  b_c · s_c,  D_c / s_c

A channel whose values fill a tenth of the range of t has a tenth of its codes; scaled up it has nearly all of
them. Weights with a scale per channel pay nothing for it. A Clip between stays what it was: factors are 1 or
more, so nothing is let through that it cut off, and on the runs nothing new reaches its limit. The margin is
room for values that the runs did not have; what exceeds it on other images is cut off there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.errors import UsageError
from calib8.passes.channel_paths import ChannelPath, channel_paths
from calib8.passes.fold_affine import Vector
from calib8.passes.layer_channels import LayerChannels
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.channel_extremes import ChannelExtremes, channel_extremes
from calib8.repair.refit import refitted, without_corrections
from calib8.table import GIVEN

MARGIN: Final = 1.25
"""How much larger than on the runs a value may get without being cut off."""

LARGEST: Final = 2.0
"""A factor of 2 takes away three quarters of a channel's rounding noise. With much larger ones, a channel
that is almost silent on the runs would be cut off on images where it is louder."""


def equalize_activations(
    candidate: Candidate, data: RepairData, *, margin: float = MARGIN, largest: float = LARGEST
) -> tuple[Candidate, RepairReport]:
    """Equalizes every tensor between a layer and a depthwise layer that alone reads it.

    Args:
        candidate: what to repair; corrections of the layers that change are dropped.
        data: the runs whose extremes count.
        margin, largest: 1 or more, see the top of the file. Channels that differ by orders want a largest
            factor of 100 or 1000.

    Returns:
        The candidate with the new model and ranges, and what was done.

    Raises:
        UsageError: ``margin`` or ``largest`` is below 1.
        CalibrationError: a tensor held NaN or infinite values.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    for name, value, usual in (("margin", margin, MARGIN), ("largest", largest, LARGEST)):
        if not 1.0 <= value < math.inf:
            raise UsageError(f"{name} {value:g}", "must be 1 or more", f"Use {usual:g}")
    model = candidate.model.clone()
    paths = [path for path in channel_paths(model) if _can_be_equalized(path, candidate)]
    tensors = {name: path.source.axes for path in paths for name in _coded(path, candidate)}
    extremes = channel_extremes(model, tensors, data)
    layers: dict[ir.Node, LayerChannels] = {}
    changed: set[str] = set()
    for path in paths:
        factors = np.clip(_room(path, candidate, extremes) / margin, 1.0, largest)
        if np.all(factors == 1.0):
            continue
        source, reader = path.source.node, path.reader.node
        layers[source] = layers.get(source, path.source).scaled(outputs=factors)
        layers[reader] = layers.get(reader, path.reader).scaled(inputs=1.0 / factors)
        changed.update(path.names)
    if not changed:
        return candidate, RepairReport(())
    for layer in layers.values():
        layer.write(model.graph)
    names = tuple(node.name or "" for node in model.graph if node in layers)
    kept, notes = without_corrections(candidate, names)
    result = refitted(kept, model, changed, data)
    return result, RepairReport(names, (*_silent(paths, extremes), *notes))


def _silent(paths: Sequence[ChannelPath], extremes: Mapping[str, ChannelExtremes]) -> tuple[str, ...]:
    """How many channels were zero throughout, if any."""
    last = [extremes[path.names[-1]] for path in paths if path.names[-1] in extremes]
    silent = sum(found.dead for found in last)
    return (f"channels before depthwise layers that were zero in all runs: {silent}",) if silent else ()


def _can_be_equalized(path: ChannelPath, candidate: Candidate) -> bool:
    """Both layers have weights with a scale per channel, and no range between was given by the user."""
    source, reader = path.source.layer, path.reader.layer
    if candidate.scheme.weight_granularity != "per-channel":
        return False
    if not path.reader.depthwise or not reader.direct or not source.windows or source.sharing > 1:
        return False
    coded = _coded(path, candidate)
    return bool(coded) and all(candidate.table.entries[name].method != GIVEN for name in coded)


def _coded(path: ChannelPath, candidate: Candidate) -> list[str]:
    return [name for name in path.names if name in candidate.table.entries]


def _room(path: ChannelPath, candidate: Candidate, extremes: Mapping[str, ChannelExtremes]) -> Vector:
    """Factors that fill the ranges, float64 [channels]; 1 for a channel of zeros."""
    room = np.full(path.source.outputs, np.inf)
    for name in _coded(path, candidate):
        span, seen = candidate.table.entries[name].range.widened_to_zero(), extremes[name]
        high = min(span.max, path.limit)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.minimum(room, np.where(seen.maximum > 0.0, high / seen.maximum, np.inf))
            room = np.minimum(room, np.where(seen.minimum < 0.0, span.min / seen.minimum, np.inf))
    room[~np.isfinite(room)] = 1.0
    return room
