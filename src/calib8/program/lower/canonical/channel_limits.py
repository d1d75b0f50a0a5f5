"""What stands before codes with one scale per channel, as limits of the codes under one common zero point.

clip(rint(clip(x, a, b)/s_c) + z_c, qmin, qmax) − z_c = clip(rint(x/s_c), first_c, last_c)
first_c = max(qmin − z_c, rint(a/s_c)),   last_c = min(qmax − z_c, rint(b/s_c))       rint is monotone
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import constant, sole_consumer
from calib8.ops.questions import has_slopes
from calib8.program.lower.canonical.movers import activation_bounds

CODES: Final = 256
"""Codes of uint8 and int8."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Chain:
    """The nodes before a quantizer that change places with a factor > 0, and that nobody else reads.

    Attributes:
        top: the value before all of them.
        reader: the node that reads it, the quantizer itself if there is no other.
        activations: the Relu and Clip nodes whose bounds the codes can take over, from the quantizer upwards.
        low, high: those bounds, ±inf without one.
    """

    top: ir.Value
    reader: ir.Node
    activations: tuple[ir.Node, ...]
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Limits:
    """One zero point for all channels, and the codes that each channel may have with it.

    Attributes:
        zero_point: within the type of the codes.
        low, high: [C], within the type of the codes.
    """

    zero_point: int
    low: Ints
    high: Ints

    @property
    def are_common(self) -> bool:
        """All channels have the same."""
        return bool(np.all(self.low == self.low[0]) and np.all(self.high == self.high[0]))


def chain_before(quantizer: ir.Node) -> Chain | None:
    """Walks up from a quantizer; None without an input.

    Bounds are taken over through MaxPools, not through what changes values.
    """
    activations: list[ir.Node] = []
    low, high, only_moves = -math.inf, math.inf, True
    reader, top = quantizer, quantizer.inputs[0]
    while top is not None and sole_consumer(top) is reader and (node := top.producer()) is not None:
        bounds = activation_bounds(node)
        if bounds is not None and only_moves:
            activations.append(node)
            low, high = (min(max(bound, low), high) for bound in bounds)
        elif _scales_with_input(node):
            only_moves = only_moves and node.op_type == "MaxPool"
        else:
            break
        reader, top = node, node.inputs[0]
    return None if top is None else Chain(top, reader, tuple(activations), low, high)


def _scales_with_input(node: ir.Node) -> bool:
    """``f(k·x) = k·f(x)`` for every k > 0 that is constant within a channel."""
    if node.domain:
        return False
    if node.op_type == "MaxPool":
        return not any(value.uses() or value.is_graph_output() for value in node.outputs[1:])
    if has_slopes(node):
        return constant(node.inputs[1]) is not None
    return node.op_type in ("Relu", "LeakyRelu")


def common_limits(
    scale: npt.NDArray[np.float32], zero_point: Ints, lowest: int, low: float, high: float
) -> Limits | None:
    """The limits for the zero point that most channels have, or for the nearest one that they allow.

    Args:
        scale: [C].
        zero_point: [C].
        lowest: smallest code of the type.
        low, high: bounds of the values before they are quantized, ±inf without one.

    Returns:
        None where the limits of all channels together span more than 256 codes.
    """
    highest = lowest + CODES - 1
    with np.errstate(over="ignore"):
        bounds = [np.rint(np.float32(bound) / scale).astype(np.float64) for bound in (low, high)]
    last = np.clip(bounds[1], lowest - zero_point, highest - zero_point)
    first = np.minimum(np.maximum(bounds[0], lowest - zero_point), last)
    smallest = max(lowest, lowest - int(first.min()))
    largest = min(highest, highest - int(last.max()))
    if smallest > largest:
        return None
    values, counts = np.unique(zero_point, return_counts=True)
    point = min(max(int(values[counts.argmax()]), smallest), largest)
    return Limits(point, first.astype(np.int64) + point, last.astype(np.int64) + point)
