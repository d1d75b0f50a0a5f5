"""What the codes of a layer's constants show: a bias that ran over, a weight that takes the codes of others.

bias      |b'_c − b_c| ≥ 2³⁰ steps, or the code of b'_c is the largest one and more than a step off
outlier   of the weights of channel c that are not 0 more than half have the code 0; where one scale serves
          all channels of a layer: of the weights of the layer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.counterparts import Tap
from calib8.analysis.float_reference import FloatReference
from calib8.analysis.weight_noise import node_of, stored_weight
from calib8.dissection.float_constants import FloatConstants
from calib8.model.graph import constant
from calib8.model.layer import Layer
from calib8.quantization.qdq import codes_of, dequantizer

RAN_OVER: Final = 2.0**30
"""Steps of an int32 bias: no correction takes a quarter of all that there are."""

LARGEST: Final = 2.0**31 - 1.0
"""Code of a bias that was clipped."""

VANISHED: Final = 0.5
"""Share of a channel's weights."""

FEWEST: Final = 4
"""Fewer weights are no majority."""


@dataclass(frozen=True)
class WrongBias:
    """The bias of a channel that its codes do not hold; ``coded`` and ``real`` are what it is by each."""

    channel: int
    coded: float
    real: float


@dataclass(frozen=True)
class OutlierWeight:
    """A channel whose largest weight takes the codes of the others.

    Attributes:
        channel: output channel.
        largest: magnitude of that weight.
        median: of the magnitudes of those that are not 0, among them that share the scale.
        vanished: share of these that have the code 0, 0 … 1.
        whole: all channels of the layer share the scale.
    """

    channel: int
    largest: float
    median: float
    vanished: float
    whole: bool = False


@dataclass(frozen=True)
class ConstantFaults:
    """What is wrong with the constants of one layer; None where nothing is."""

    bias: WrongBias | None
    weight: OutlierWeight | None


def constant_faults(
    int8: ir.Model, taps: Sequence[Tap], reference: FloatReference
) -> dict[str, ConstantFaults]:
    """Layer → what is wrong with its constants, of those layers where something is.

    Args:
        int8: the QDQ graph.
        taps: its layers.
        reference: the float model.
    """
    found = {}
    for tap in taps:
        node = node_of(int8, tap.layer)
        stored = None if node is None else stored_weight(node)
        if node is None or stored is None or tap.layer.reference is None or tap.layer.node is None:
            continue
        original = reference.constants(tap.layer.reference, stored.shape)
        if original is not None:
            faults = ConstantFaults(_bias(node, original), _weight(node, stored, original))
            found[tap.layer.node] = faults
    return {name: faults for name, faults in found.items() if faults != ConstantFaults(None, None)}


def _bias(layer: Layer, original: FloatConstants) -> WrongBias | None:
    """The channel whose bias is farthest from the float one, where no repair could want that."""
    source = dequantizer(layer.bias)
    codes = None if source is None else constant(source.inputs[0])
    scale = None if source is None else codes_of(source).scale
    if codes is None or scale is None or codes.dtype != np.int32 or scale.size not in (1, codes.size):
        return None
    held, steps = (np.asarray(one, np.float64).reshape(-1) for one in (codes, scale))
    real = np.zeros_like(held) if original.bias is None else original.bias.astype(np.float64).reshape(-1)
    if held.shape != real.shape:
        return None
    off = np.abs(held - real / steps)
    ran = (off >= RAN_OVER) | ((np.abs(held) >= LARGEST) & (off > 1.0))
    channel = int(np.argmax(np.where(ran, off, 0.0)))
    coded = float((held * steps)[channel])
    return WrongBias(channel, coded, float(real[channel])) if ran[channel] else None


def _weight(layer: Layer, stored: npt.NDArray[np.float32], original: FloatConstants) -> OutlierWeight | None:
    """The channel most of whose weights are lost; of a layer with one scale the one with the largest."""
    sides = (layer.by_channel(one) for one in (original.weight, stored))
    rows, coded = (one.reshape(one.shape[0] * one.shape[1], -1) for one in sides)
    source = dequantizer(layer.weight)
    scale = None if source is None else codes_of(source).scale
    whole = scale is not None and scale.size == 1 and len(rows) > 1
    channels = len(rows)
    if whole:
        rows, coded = rows.reshape(1, -1), coded.reshape(1, -1)
    there = rows != 0.0
    counts = there.sum(axis=1)
    lost = np.where(counts >= FEWEST, (there & (coded == 0.0)).sum(axis=1) / np.maximum(counts, 1), 0.0)
    row = int(np.argmax(lost))
    if lost[row] <= VANISHED:
        return None
    sizes = np.abs(rows[row]).astype(np.float64)
    channel = int(np.argmax(sizes)) // (sizes.size // channels) if whole else row
    median = float(np.median(sizes[there[row]]))
    return OutlierWeight(channel, float(sizes.max()), median, float(lost[row]), whole)
