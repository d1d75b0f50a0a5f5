"""Takes the gain away from channels that never change: what they are goes into the bias.

    y_c = W_c ∗ x + b_c,  the same y_c in all runs   →   W_c = 0,  b_c = y_c

A channel that was constant in training has σ² near 0, and its normalization a factor k that explodes: folded
into W_c it turns the rounding of a constant input into a large constant error. Where the input is constant
the output is, and the cure is exact. Channels of ordinary gain are left alone, as they may speak in other
images: only those are taken whose largest weight exceeds the median over the layer's channels a hundredfold,
those without weights not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.taps import Taps
from calib8.passes.layer_channels import layer_channels
from calib8.progress import SampleCounter
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.refit import refitted, without_corrections

MAX_GAIN: Final = 100.0
"""Largest weight of a channel over the median of the layer's channels that is left alone."""

CONSTANT: Final = 1e-5
"""Spread of a channel over the spread of its layer up to which it is constant: 1/400 of an 8-bit step."""

Array = npt.NDArray[np.float32]


@dataclass
class _Bounds:
    """Smallest and largest value of every output channel."""

    low: Array
    high: Array


def cure_constant_channels(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """The candidate whose exploding channels that never change are constants.

    Before → after: ``Conv(x, W, b)`` → the same with ``W_c = 0`` and ``b_c = y_c`` for such channels c. On
    the data the float function changes by no more than ``CONSTANT`` of the layer's spread. Corrections of
    the layers that change are dropped: they belong to the old weights.

    Args:
        candidate: not changed.
        data: the runs in which a channel must be constant.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    suspects = {node.name or "": wide for node in candidate.model.graph if (wide := _exploding(node)).size}
    if not suspects or not data.runs:
        return candidate, RepairReport(())
    bounds = _observe(candidate.model, list(suspects), data)
    model = candidate.model.clone()
    notes = []
    for node in list(model.graph):
        if node.name not in suspects:
            continue
        channels = _constant(suspects[node.name], bounds[node.name])
        if channels.size:
            _fix(model.graph, node, channels, bounds[node.name])
            notes.append(f"{node.name}: channels {', '.join(map(str, channels))} are constant")
    changed = tuple(note.partition(": ")[0] for note in notes)
    if not changed:
        return candidate, RepairReport((), ("channels of large gain change in the data",))
    kept, dropped = without_corrections(candidate, changed)
    result = refitted(kept, model, (), data)
    return result, RepairReport(changed, (*notes, *dropped))


def _exploding(node: ir.Node) -> npt.NDArray[np.int64]:
    """Output channels of a layer whose weights are out of proportion; none of other nodes."""
    layer = layer_channels(node)
    if layer is None or not layer.layer.takes_bias:
        return np.zeros(0, np.int64)
    gain = layer.output_magnitudes()
    return np.flatnonzero(gain > MAX_GAIN * np.median(gain[gain > 0.0])) if np.any(gain) else np.zeros(0, int)


def _observe(model: ir.Model, layers: Sequence[str], data: RepairData) -> Mapping[str, _Bounds]:
    """Bounds of the outputs of these layers over the runs."""
    outputs = {node.name: node.outputs[0].name or "" for node in model.graph}
    taps = Taps(model, [outputs[name] for name in layers], data.threads)
    counter = SampleCounter("looking for constant channels", len(data.runs), data.progress)
    found: dict[str, _Bounds] = {}
    for feeds in data.runs:
        tensors = taps.values(feeds)
        for name in layers:
            values = np.asarray(tensors[outputs[name]], np.float32)
            rows = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)
            low, high = rows.min(axis=1), rows.max(axis=1)
            old = found.setdefault(name, _Bounds(low, high))
            found[name] = _Bounds(np.minimum(old.low, low), np.maximum(old.high, high))
        counter(1)
    return found


def _constant(channels: npt.NDArray[np.int64], bounds: _Bounds) -> npt.NDArray[np.int64]:
    """Those that do not change."""
    low, high = bounds.low.astype(np.float64), bounds.high.astype(np.float64)
    spread = float(high.max() - low.min())
    return channels[(high - low)[channels] <= CONSTANT * spread]


def _fix(graph: ir.Graph, node: ir.Node, channels: npt.NDArray[np.int64], bounds: _Bounds) -> None:
    """Weights 0 and the constants as bias."""
    layer = layer_channels(node)
    assert layer is not None
    rows = layer.weight.reshape(layer.outputs, -1).copy()
    rows[channels] = 0.0
    bias = np.zeros(layer.outputs) if layer.bias is None else layer.bias.copy()
    bias[channels] = (bounds.low[channels] + bounds.high[channels]) / np.float32(2.0)
    replace(layer, weight=rows.reshape(layer.weight.shape), bias=bias).write(graph)
