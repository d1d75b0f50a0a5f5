"""What layers with weights have in common: exact integer sums of products, then one rescale.

    acc[o] = Σ x' · w'[o] + bias[o],     x' = x − z_x,  w' = w − z_w[o]

so that padding (which holds z_x) adds 0. The products are summed by a float matrix product over whole
numbers. That is exact in every order of summation as long as no partial sum reaches 2^24 in float32, or 2^53
in float64; sums of 8-bit codes stay below 2^31, of 16-bit codes below 2^40. An engine without sums of that
width computes

    Σ (x − z_x)·w' + bias  =  256 · Σ hi·w' + Σ lo·w' + (bias − z_x·Σ w'),     x = 256·hi + lo

with hi in −128 … 127 and lo in 0 … 255, where either sum is one of 8-bit codes and fits int32.

No accumulator leaves its type, proven from the actual weights. With P = Σ max(w − z_w, 0) and
N = Σ min(w − z_w, 0) of an output channel, and codes x in [qmin, qmax],

    Σ (x − z_x)(w − z_w)   lies in   [a·P + b·N,  b·P + a·N],     a = qmin − z_x ≤ 0 ≤ b = qmax − z_x

and both ends are reached. Required of every channel:

    max |Σ (x − z_x)(w − z_w)| + |bias| ≤ 2^31 − 1
    max |Σ u·(w − z_w)|                 ≤ 2^31 − 1,     u = x − qmin in 0 … 255

The second is for engines that feed unsigned codes and fold the rest into
``bias − (z_x − qmin)·Σ(w − z_w)``; that bias is the accumulator at x = qmin, so the first covers it.
Partial sums stay inside, in any order, for 0 lies in every range. A transposed convolution is bounded as if
all taps met in one output.

Of 16-bit codes x = 256·hi + lo the second is required alone: it holds the sums of hi (−128 … 127) and of lo
(0 … 255) within int32, and with them the accumulator below 2^40. Sums that are written as such fit int32
like all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from calib8.coded_array import channel_blocks
from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import ANY_CODES, SUMS, Takes
from calib8.program.ops.operand import Ints, Operand
from calib8.program.ops.reach import LEVELS, Interval, check_sums, code_steps
from calib8.program.ops.rescale import layer_codes
from calib8.program.ops.shapes import Shape
from calib8.program.ops.step import Step
from calib8.program.rules import I32, Codes, LayerRescale
from calib8.program.slot import Slot

Floats: TypeAlias = npt.NDArray[np.floating[Any]]

FLOAT32_EXACT: Final = 1 << 24
"""Up to here every whole number is a float32."""

LAYER: Final = Takes((ANY_CODES,), (*ANY_CODES, *SUMS))


@dataclass(frozen=True, eq=False)
class Weighted(Instruction):
    """What all layers with weights have: ``acc[o] = Σ (x − z_x)(w[o] − z_w[o]) + bias[o]``.

    Of 8-bit codes x they fit int32; of 16-bit ones they are whole numbers below 2^40 in magnitude, none of
    whose bits is lost.

    Attributes:
        weight: int8 or uint8; layout per instruction.
        weight_zero_point: int32 [1] or [output channels]; [0] for symmetric weights.
        bias: int32 [output channels].
        rescale: how acc becomes a code, a function behind the layer included; None: the output is a slot of
            sums, which fit int32.
        low, high: clamp of the output codes, fused activation included; the type's range without one.
            Meaningless for sums.
        channel_axis: of the weight, along which its output channels lie.
    """

    channel_axis: ClassVar[int] = 0

    weight: Codes
    weight_zero_point: I32
    bias: I32
    rescale: LayerRescale | None
    low: int
    high: int


def weight_shape(step: Step, layer: Weighted, rank: int, layout: str) -> Shape:
    """Shape of the weight, with bias and zero points checked against its output channels."""
    shape = layer.weight.shape
    if len(shape) != rank or min(shape) < 1:
        raise step.error(f"has a weight of shape {list(shape)}", f"It must be {layout}")
    outputs = shape[layer.channel_axis]
    if layer.bias.shape != (outputs,):
        raise step.error(f"has a bias of shape {list(layer.bias.shape)}", f"It must be [{outputs}]")
    if layer.weight_zero_point.shape not in ((1,), (outputs,)):
        raise step.error(
            f"has weight zero points of shape {list(layer.weight_zero_point.shape)}",
            f"Give [1] or [{outputs}]",
        )
    return shape


def check_groups(step: Step, groups: int, channels: int, inputs: int, outputs: int) -> None:
    """Refuses groups that do not divide the channels."""
    if inputs * groups != channels or outputs % groups:
        raise step.error(
            f"has {groups} groups, {channels} input channels and a weight for {inputs} → {outputs}",
            "Groups must divide both, and the weight's last axis is input channels / groups",
        )


def reach(step: Step, layer: Weighted, inputs: Sequence[Interval]) -> Interval:
    """What the sums of a layer may be, per output channel.

    Raises:
        ModelError: they may leave int32.
    """
    positive, negative = weight_sums(layer)
    low, high = _products(step.inputs[0], positive, negative)
    bias = layer.bias.astype(np.int64)
    if layer.rescale is None or not step.inputs[0].is_wide:
        check_sums(step, np.maximum(-low, high) + np.abs(bias), "sums and bias")
    check_sums(step, LEVELS * np.maximum(positive, -negative), "sums over unsigned codes")
    return Interval(low + bias, high + bias)


def layer_sums(layer: Weighted, source: Slot) -> Interval:
    """What the sums of a layer may be, per output channel."""
    low, high = _products(source, *weight_sums(layer))
    bias = layer.bias.astype(np.int64)
    return Interval(low + bias, high + bias)


def largest_wide_sum(layer: Weighted, source: Slot) -> int | None:
    """The largest magnitude of the sums of a layer that reads 16-bit codes; None for 8-bit ones."""
    if not source.is_wide:
        return None
    return int(layer_sums(layer, source).largest.max())


def _products(source: Slot, positive: Ints, negative: Ints) -> tuple[Ints, Ints]:
    below, above = code_steps(source)
    return below * positive + above * negative, above * positive + below * negative


def weight_sums(layer: Weighted) -> tuple[Ints, Ints]:
    """Sums of the positive and of the negative weights (minus their zero point) per output channel."""
    weight, taps = layer.weight, _taps(layer)
    outputs = weight.shape[layer.channel_axis]
    points = np.broadcast_to(layer.weight_zero_point, (outputs,))
    # Σ max(w − z, 0) = Σ max(w, z) − taps·z needs no copy of the weights wider than they are.
    added = weight.size // outputs * points.astype(np.int64)
    positive, negative = np.empty((2, outputs), np.int64)
    for part, block in channel_blocks(weight, layer.channel_axis):
        aligned = _along_channels(layer, points[part].astype(weight.dtype))
        positive[part] = np.maximum(block, aligned).sum(axis=taps, dtype=np.int64) - added[part]
        negative[part] = np.minimum(block, aligned).sum(axis=taps, dtype=np.int64) - added[part]
    return positive, negative


def _taps(layer: Weighted) -> tuple[int, ...]:
    """Axes of the weight over which products are added up."""
    return tuple(axis for axis in range(layer.weight.ndim) if axis != layer.channel_axis)


def _along_channels(layer: Weighted, points: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """[1] or [output channels] in a shape that broadcasts to the weight."""
    return points.reshape([-1 if axis == layer.channel_axis else 1 for axis in range(layer.weight.ndim)])


def check_zero_points(step: Step, layer: Weighted) -> None:
    """Refuses zero points of weights that no weight could have."""
    limits, points = np.iinfo(layer.weight.dtype), layer.weight_zero_point
    outside = points[(points < limits.min) | (points > limits.max)]
    if outside.size:
        raise step.error(
            f"has the weight zero point {outside[0]}",
            f"{layer.weight.dtype} needs {limits.min} … {limits.max}",
        )


def finished(step: Weighted, acc: Floats, output: Slot) -> npt.NDArray[Any]:
    """What a layer writes of its products' sums."""
    return written(acc.astype(np.int64) + step.bias, step.rescale, step.low, step.high, output)


def written(acc: Ints, rule: LayerRescale | None, low: int, high: int, output: Slot) -> npt.NDArray[Any]:
    """Codes of sums, or the sums where there is no rule."""
    if rule is None:
        return acc.astype(np.int32)
    return layer_codes(acc, rule, output.zero_point, low, high, output.dtype)


def input_and_weight(step: Weighted, x: Operand) -> tuple[Floats, Floats]:
    """``x − z_x`` and ``w − z_w`` in a float type in which all sums of their products are exact."""
    weight = step.weight.astype(np.int32) - _along_channels(step, step.weight_zero_point)
    largest_sum = int(np.abs(weight).sum(axis=_taps(step), dtype=np.int64).max(initial=0))
    dtype = exact_type(largest_sum * largest_step(x.slot))
    return centred(x, dtype), weight.astype(dtype)


def exact_type(bound: int) -> np.dtype[np.floating[Any]]:
    """The float type in which whole numbers up to ``bound`` are exact."""
    return np.dtype(np.float32 if bound <= FLOAT32_EXACT else np.float64)


def largest_step(slot: Slot) -> int:
    """Largest ``|code − zero_point|``."""
    info = np.iinfo(slot.dtype)
    return max(info.max - slot.zero_point, slot.zero_point - info.min)


def centred(x: Operand, dtype: np.dtype[np.floating[Any]]) -> Floats:
    """``code − zero_point``."""
    steps: Floats = np.subtract(x.data, x.slot.zero_point, dtype=dtype)
    return steps
