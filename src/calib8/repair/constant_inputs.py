"""Takes weights away that are out of proportion and multiply what never changes: what they give is a bias.

    y_o = Σ_i W_oi ∗ x_i + b_o,  x_i the same v in all runs   →   W_oi = 0,  b_o + v · Σ taps W_oi

Such a weight gives nothing that the data show, but it takes the codes of all others of its channel. Weights
of ordinary size are left alone, as their inputs may speak in other images: only those are taken that exceed
the median of their channel a hundredfold. Where the layer pads with zeros v must be 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import rank
from calib8.passes.layer_channels import LayerChannels, layer_channels
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.channel_extremes import ChannelExtremes, channel_extremes
from calib8.repair.constant_channels import CONSTANT, MAX_GAIN
from calib8.repair.refit import refitted, without_corrections

FEWEST: Final = 4
"""Fewer weights have no median."""


def cure_constant_inputs(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """The candidate without loud weights for inputs that never change.

    Before → after: see the top of the file; on the data the float function changes by no more than
    ``CONSTANT`` of the input's spread. Corrections of the layers that change are dropped.

    Args:
        candidate: not changed.
        data: the runs in which an input must be constant.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    model = candidate.model.clone()
    suspects = [(layer, loud) for node in model.graph if (layer := _looked_at(node)) is not None
                for loud in [_loud(layer)] if np.any(loud)]  # fmt: skip
    if not suspects or not data.runs:
        return candidate, RepairReport(())
    tensors = {_source(layer): rank(layer.layer.input) or 0 for layer, _ in suspects}
    seen = channel_extremes(candidate.model, tensors, data)
    changed, notes = [], []
    for layer, loud in suspects:
        gone = _of_constants(layer, loud, seen[_source(layer)])
        if np.any(gone):
            _without(layer, gone, seen[_source(layer)]).write(model.graph)
            changed.append(layer.node.name or "")
            notes.append(f"{changed[-1]}: weights for inputs that never change: {int(np.sum(gone))}")
    if not changed:
        return candidate, RepairReport(())
    kept, dropped = without_corrections(candidate, changed)
    result = refitted(kept, model, (), data)
    return result, RepairReport(tuple(changed), (*notes, *dropped))


def _looked_at(node: ir.Node) -> LayerChannels | None:
    """A Conv or Gemm that reads a computed tensor with channels."""
    source = node.inputs[0] if node.inputs else None
    if source is None or source.producer() is None or (rank(source) or 0) < 2:
        return None
    layer = layer_channels(node)
    sums = layer is not None and layer.layer.takes_bias and not layer.layer.transposed
    return layer if sums else None


def _source(layer: LayerChannels) -> str:
    source = layer.layer.input
    assert source is not None
    return source.name or ""


def _loud(layer: LayerChannels) -> npt.NDArray[np.bool_]:
    """Which weights are out of proportion, bool [groups, outputs of a group, inputs of a group]."""
    sizes = np.max(np.abs(layer.weight), axis=3)
    groups, outputs, inputs = sizes.shape
    found = np.zeros(sizes.shape, np.bool_)
    for group in range(groups):
        for output in range(outputs) if inputs >= FEWEST else ():
            row = sizes[group, output]
            if np.any(row > 0.0):
                found[group, output] = row > MAX_GAIN * np.median(row[row > 0.0])
    return found


def _of_constants(
    layer: LayerChannels, loud: npt.NDArray[np.bool_], seen: ChannelExtremes
) -> npt.NDArray[np.bool_]:
    """Those whose input never changes, and gives the same everywhere."""
    spread = float(np.max(seen.maximum) - np.min(seen.minimum))
    still = seen.maximum - seen.minimum <= CONSTANT * spread
    if layer.layer.pads:
        still &= np.maximum(np.abs(seen.minimum), np.abs(seen.maximum)) <= CONSTANT * spread
    if still.size != layer.inputs:
        return np.zeros(loud.shape, np.bool_)
    return loud & still.reshape(layer.weight.shape[0], 1, -1)


def _without(layer: LayerChannels, gone: npt.NDArray[np.bool_], seen: ChannelExtremes) -> LayerChannels:
    """Weights 0, and what they gave in the bias."""
    value = ((seen.minimum + seen.maximum) / 2.0).reshape(layer.weight.shape[0], 1, -1)
    given = np.sum(np.where(gone, np.sum(layer.weight, axis=3) * value, 0.0), axis=2).reshape(-1)
    bias = np.zeros(layer.outputs) if layer.bias is None else layer.bias
    return replace(layer, weight=np.where(gone[..., None], 0.0, layer.weight), bias=bias + given)
