"""Takes the gain away from channels that never change: what they are goes into the bias.

    y_c = W_c ∗ x + b_c,  the same y_c in all runs   →   W_c = 0,  b_c = y_c

A channel that was constant in training has σ² near 0, and its normalization a factor k that explodes: folded
into W_c it turns the rounding of a constant input into a large constant error. Where the input is constant
the output is, and the cure is exact. Channels of ordinary gain are left alone, as they may speak in other
images: only those are taken whose largest weight exceeds the median over the layer's channels a hundredfold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import Names, constant, input_at, int_attribute
from calib8.model.runtime import open_session
from calib8.model.taps import tapped_model
from calib8.passes.fold_affine import output_channels
from calib8.progress import SampleCounter
from calib8.quantization.weights import channel_axis
from calib8.repair.candidate import Candidate, RepairData, RepairReport

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
    names = Names(model.graph)
    notes = []
    for node in list(model.graph):
        if node.name not in suspects:
            continue
        channels = _constant(suspects[node.name], bounds[node.name])
        if channels.size:
            _fix(names, node, channels, bounds[node.name])
            notes.append(f"{node.name}: channels {', '.join(map(str, channels))} are constant")
    changed = tuple(note.partition(": ")[0] for note in notes)
    if not changed:
        return candidate, RepairReport((), ("channels of large gain change in the data",))
    kept = {name: fix for name, fix in candidate.corrections.items() if name not in changed}
    return replace(candidate, model=model, corrections=kept), RepairReport(changed, tuple(notes))


def _exploding(node: ir.Node) -> npt.NDArray[np.int64]:
    """Output channels of a layer whose weights are out of proportion; none of other nodes."""
    weight, bias = constant(input_at(node, 1)), input_at(node, 2)
    plain = node.op_type in ("Conv", "Gemm") or (
        node.op_type == "ConvTranspose" and int_attribute(node, "group", 1) == 1
    )
    if not plain or weight is None or (bias is not None and constant(bias) is None):
        return np.zeros(0, np.int64)
    axis = channel_axis(node)
    others = tuple(index for index in range(weight.ndim) if index != axis)
    gain = np.max(np.abs(weight.astype(np.float64)), axis=others, initial=0.0)
    return np.flatnonzero(gain > MAX_GAIN * np.median(gain))


def _observe(model: ir.Model, layers: Sequence[str], data: RepairData) -> Mapping[str, _Bounds]:
    """Bounds of the outputs of these layers over the runs."""
    outputs = {node.name: node.outputs[0].name or "" for node in model.graph}
    session = open_session(tapped_model(model, [outputs[name] for name in layers]), threads=data.threads)
    counter = SampleCounter("looking for constant channels", len(data.runs), data.progress)
    found: dict[str, _Bounds] = {}
    for feeds in data.runs:
        for name, values in zip(layers, session.run(feeds), strict=True):
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


def _fix(names: Names, node: ir.Node, channels: npt.NDArray[np.int64], bounds: _Bounds) -> None:
    """Weights 0 and the constants as bias."""
    weight = np.array(constant(node.inputs[1]))
    np.moveaxis(weight, channel_axis(node), 0)[channels] = 0.0
    old = constant(input_at(node, 2))
    bias = np.zeros(output_channels(node, weight), np.float32)
    bias += 0.0 if old is None else old.astype(np.float32).reshape(-1)
    bias[channels] = (bounds.low[channels] + bounds.high[channels]) / np.float32(2.0)
    node.replace_input_with(1, names.constant(f"{node.name}/weight", weight))
    if len(node.inputs) < 3:
        node.resize_inputs(3)
    node.replace_input_with(2, names.constant(f"{node.name}/bias", bias))
