"""DepthwiseConv: taps as offsets into a stored border, zero points folded into the bias.

    acc = Σ (x − z_x)(w − z_w) + b = Σ x·(w − z_w) + (b − z_x · Σ(w − z_w)),    x stored codes

The weights keep the order of the channels: kernels interleave them exactly as they interleave the codes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.engine import steps
from calib8.engine.emit.constant_channels import with_constant_channels
from calib8.engine.emit.conv import frame_rows, fused_table, int8_layers, some_images
from calib8.engine.emit.rescale import layer_fields
from calib8.engine.emit.widths import sized
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fields import NONE, View
from calib8.engine.frames import FramesDepthwise, runs
from calib8.engine.fuse import Work
from calib8.program import rules
from calib8.program.instructions import DepthwiseConv

BLOCK: Final = 64
"""Channels that arrays are filled up to."""

QUAD: Final = 4
"""Taps of one dot product."""

LANE: Final = 16
"""Channels whose codes lie in one 128-bit lane."""

NARROW: Final = 1 << 30
"""Below this, sums and results need no care with int32."""

NARROW_SHIFT: Final = -2
"""Largest shift whose rounding constant lies in the upper half of the 64-bit product."""


def emit_depthwise(work: Work, out: Emitter) -> None:
    """One Depthwise step; over frames, one for every run of output images."""
    step = work.instruction
    assert isinstance(step, DepthwiseConv)
    step = with_constant_channels(step, out.slot(step.inputs[0]), out.slot(step.outputs[0]))
    image = out.view(step.inputs[0])
    rows, columns, channels = step.weight.shape
    points = step.weight_zero_point.astype(np.int16)
    weight = (step.weight.astype(np.int16) - points).reshape(rows * columns, channels)
    padded = -(-channels // BLOCK) * BLOCK
    full, layers = _padded_taps(weight, padded)
    zero_point = out.stored_zero_point(step.inputs[0])
    places = np.minimum(np.arange(padded), channels - 1)
    bias = (step.bias - zero_point * weight.sum(axis=0, dtype=np.int64))[places].astype(np.int32)
    rule = _quiet(step.rescale)
    multiplier = channels // image.channels
    rescale, activation = layer_fields(out, rule, step.low, step.high, step.outputs[0], channels, places)
    layer = steps.Depthwise(
        input=image,
        output=out.view(work.output),
        kernel_rows=rows,
        kernel_columns=columns,
        row_step=step.strides[0],
        column_step=step.strides[1],
        row_dilation=step.dilations[0],
        column_dilation=step.dilations[1],
        taps=len(full),
        tap_offsets=out.constant(_offsets(step, image, layers, len(full))),
        multiplier=multiplier,
        repeats=out.constant(_repeats(multiplier, padded)) if multiplier > 1 else NONE,
        padded_outputs=padded,
        weights=out.constant(full),
        layers=layers,
        bias=out.constant(bias),
        rescale=rescale,
        narrow=_narrow(rule, _largest_sums(weight, step.bias, zero_point)),
        table=fused_table(work, out),
        activation=activation,
    )
    _add(layer, step, work, out)


def _add(layer: steps.Depthwise, step: DepthwiseConv, work: Work, out: Emitter) -> None:
    """The step, or one for every run of output images, whose taps lie anywhere."""
    products = _products(step, layer.output)
    if not isinstance(step, FramesDepthwise):
        out.add(sized(layer, work, out), work, products)
        return
    places = layer.kernel_rows * layer.kernel_columns
    for output, source in runs(step.first):
        part = replace(
            layer,
            input=some_images(layer.input, source, out.item_size(step.inputs[0])),
            output=some_images(layer.output, range(output, output + len(source)), out.item_size(work.output)),
            kernel_rows=places,
            kernel_columns=1,
            row_dilation=1,
            column_dilation=1,
        )
        out.add(sized(part, work, out), work, products * len(source) // step.first.size)


def _products(step: DepthwiseConv, target: View) -> int:
    """Multiplications of the layer."""
    return int(target.images * target.rows * target.columns * step.weight.size)


def _padded_taps(weight: npt.NDArray[np.int16], padded: int) -> tuple[npt.NDArray[np.int8], int]:
    """The layers of [taps, channels] one after the other, filled up with 0, and how many there are."""
    taps = np.concatenate(layers := int8_layers(weight))
    full = np.zeros((-(-len(taps) // QUAD) * QUAD, padded), np.int8)
    full[: len(taps), : weight.shape[1]] = taps
    return full, len(layers)


def _offsets(step: DepthwiseConv, image: View, layers: int, count: int) -> npt.NDArray[np.int64]:
    """Elements from the input pixel of an output to each tap."""
    rows, columns, _ = step.weight.shape
    down = (np.arange(rows) * step.dilations[0] - step.pads[0]) * image.row_stride
    if isinstance(step, FramesDepthwise):
        down = frame_rows(step, rows, image)
    right = np.arange(columns) * step.dilations[1] - step.pads[1]
    taps = (down[:, None] + right * image.column_stride).reshape(-1)
    every = np.concatenate([taps] * layers)
    return np.concatenate([every, np.full(count - len(every), every[0])]).astype(np.int64)


def _repeats(multiplier: int, padded: int) -> npt.NDArray[np.uint8]:
    """Input channel of every output channel, counted from that of the first one of its lane."""
    channels = np.arange(padded)
    result: npt.NDArray[np.uint8] = (channels // multiplier - channels // LANE * LANE // multiplier).astype(
        np.uint8
    )
    return result


def _largest_sums(
    weight: npt.NDArray[np.int16], bias: npt.NDArray[np.int32], zero_point: int
) -> npt.NDArray[np.int64]:
    """Per channel, what ``|acc|`` can reach over all codes."""
    positive = np.maximum(weight, 0).sum(axis=0, dtype=np.int64)
    negative = np.minimum(weight, 0).sum(axis=0, dtype=np.int64)
    below, above = -zero_point, 255 - zero_point
    low, high = below * positive + above * negative, above * positive + below * negative
    result: npt.NDArray[np.int64] = np.maximum(-low, high) + np.abs(bias.astype(np.int64))
    return result


def _quiet(rule: rules.LayerRescale | None) -> rules.LayerRescale | None:
    """The rule with small shifts where the multiplier is 0, so that dead channels ask for no special care."""
    if not isinstance(rule, rules.FixedRescale):
        return rule
    shift = np.where(rule.multiplier == 0, np.minimum(rule.shift, NARROW_SHIFT), rule.shift)
    return replace(rule, shift=shift.astype(np.int32))


def _narrow(rule: rules.LayerRescale | None, largest: npt.NDArray[Any]) -> int:
    """Whether kernels may compute with int32 and int32 from float32 without a look at overflow.

    0: no; 1: yes; 2: yes, but some shifts are larger than the fixed-point forms of all kernels take.
    """
    if isinstance(rule, rules.TwoSidedRescale):
        sides = _narrow(rule.positive, largest), _narrow(_unsigned(rule.negative), largest)
        return max(sides) if all(sides) else 0
    if isinstance(rule, rules.CurveRescale):
        return _narrow(rule.steps, largest)
    if rule is None or largest.max(initial=0) >= NARROW:
        return 0
    if isinstance(rule, rules.FloatRescale):
        return int((largest * rule.factor.astype(np.float64)).max(initial=0) < NARROW)
    if rule.rounding == "away":
        return 0
    if rule.shift.max(initial=NARROW_SHIFT) <= NARROW_SHIFT:
        return 1
    factor = np.ldexp(rule.multiplier.astype(np.float64), rule.shift - 31)
    return 2 if (largest * factor).max(initial=0) < NARROW else 0


def _unsigned(rule: rules.Rescale) -> rules.Rescale:
    """The rule with the magnitudes of its factors."""
    if isinstance(rule, rules.FloatRescale):
        return rules.FloatRescale(np.abs(rule.factor))
    return replace(rule, multiplier=np.abs(rule.multiplier))


EMIT: Final[Emits] = {
    DepthwiseConv: emit_depthwise,
    FramesDepthwise: emit_depthwise,
}
