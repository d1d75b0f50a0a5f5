"""Bias correction without data: the mean input of each layer as its batch normalizations tell it.

    e[c]  = mean over pixels of ((W_q − W) ∗ m)[c]          m: every channel at its expected value
    b'[c] = b[c] − e[c]

m comes from ``passes/batch_norm_moments``. Padding is taken as it is: outside the picture there are zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from calib8.model.runtime import open_session
from calib8.passes.batch_norm_moments import Moments
from calib8.repair.biases import put_biases, without_error
from calib8.repair.candidate import Candidate, RepairReport
from calib8.repair.coded_layers import CodedLayer, Doubles, coded_layers
from calib8.repair.layer_means import channel_means, layer_model

FREE_SIZE: Final = 32
"""Pixels along an axis whose size is free: how much of a picture is border is then a guess."""


def correct_biases_analytically(
    candidate: Candidate, moments: Mapping[str, Moments]
) -> tuple[Candidate, RepairReport]:
    """Takes the expected error of rounded weights out of the biases; no data are looked at.

    A bias that an earlier correction put there is replaced; codes of weights stay.

    Args:
        candidate: what to correct.
        moments: tensor → its distribution, as ``batch_norm_moments`` of the original model gives it; where
            channels were scaled since (equalization), scaled likewise.

    Returns:
        The corrected candidate and a report; a note names the layers of whose input nothing is known.

    Raises:
        TableError: the table lacks a tensor.
        ModelError, DataError: ONNX Runtime cannot run a layer.
    """
    layers = coded_layers(candidate, candidate.quantized())
    biases, unknown = [], []
    for layer in layers:
        source = layer.node.inputs[0]
        found = None if source is None else moments.get(source.name or "")
        if layer.layer.takes_bias and (found is None or not _fits(found, layer)):
            unknown.append(f"'{layer.name}'")
        elif layer.layer.takes_bias and found is not None:
            biases.append(without_error(layer, layer.bias, _expected_error(layer, found.mean)))
    result, report = put_biases(candidate, layers, biases)
    return result, RepairReport(report.layers, (*report.notes, *_unknown(unknown)))


def _fits(moments: Moments, layer: CodedLayer) -> bool:
    """Whether there is a mean for every channel that the layer reads."""
    source = layer.node.inputs[0]
    shape = None if source is None else source.shape
    return shape is not None and shape.rank() > 1 and shape[1] == moments.mean.size


def _expected_error(layer: CodedLayer, mean: Doubles) -> Doubles:
    """float64 [output channels] for an input whose channels are constant."""
    source = layer.node.inputs[0]
    assert source is not None and source.shape is not None
    sizes = [size if isinstance(size, int) else FREE_SIZE for size in list(source.shape)[2:]]
    channels = mean.astype(np.float32).reshape(1, -1, *[1] * len(sizes))
    picture = np.ascontiguousarray(np.broadcast_to(channels, (1, mean.size, *sizes)))
    session = open_session(layer_model(layer, layer.weight_error), threads=1, name=layer.name)
    return channel_means(session.run({"x": picture})[0])


def _unknown(names: list[str]) -> list[str]:
    if not names:
        return []
    return [f"batch normalizations tell nothing of the input of {', '.join(names)}"]
