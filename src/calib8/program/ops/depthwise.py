"""Depthwise convolutions: as ``conv``, one input channel per output channel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.conv import padded, windows_of
from calib8.program.ops.instruction import Instruction
from calib8.program.ops.operand import Operand
from calib8.program.ops.shapes import Shape, fitting, image_shape, sliding
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.ops.weighted import (
    LAYER,
    Weighted,
    check_zero_points,
    finished,
    input_and_weight,
    reach,
    weight_shape,
)
from calib8.program.ops.windows import conv_size
from calib8.program.slot import Slot


@dataclass(frozen=True, eq=False)
class DepthwiseConv(Weighted):
    """One filter (or ``multiplier`` filters) per channel: weight [rows, columns, output channels].

    Output channel o reads input channel ``o // (output channels / input channels)``.
    """

    channel_axis: ClassVar[int] = 2

    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]


def depthwise_conv(step: DepthwiseConv, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """One multiply-add of the whole image per kernel tap."""
    x, weight = input_and_weight(step, operands[0])
    rows, columns, outputs = weight.shape
    image = padded(x, step.pads)
    if outputs != image.shape[3]:
        image = np.repeat(image, outputs // image.shape[3], axis=3)
    windows = windows_of(image, (rows, columns), step.strides, step.dilations)
    acc = np.zeros(windows.shape[:4], x.dtype)
    for row, column in np.ndindex(rows, columns):
        acc += windows[..., row, column] * weight[row, column]
    return finished(step, acc, output)


def _depthwise_shape(step: Step, layer: DepthwiseConv) -> tuple[Shape, ...]:
    image = image_shape(step, step.inputs[0])
    rows, columns, outputs = weight_shape(step, layer, 3, "[rows, columns, channels]")
    if outputs % image[3]:
        raise step.error(f"makes {outputs} channels of {image[3]}", "The former must be a multiple")
    windows = sliding(step, image, (rows, columns), layer.strides, layer.pads, layer.dilations)
    height, width = (fitting(step, window, conv_size(window)) for window in windows)
    return ((image[0], height, width, outputs),)


def _macs(layer: DepthwiseConv, source: Slot, result: Slot) -> int:
    """Elements of the output, times those of a filter."""
    return math.prod(result.shape) * math.prod(layer.weight.shape[:2])


TRAITS: Final[dict[type[Instruction], Traits]] = {
    DepthwiseConv: Traits(LAYER, _depthwise_shape, depthwise_conv, reach, _macs, check_zero_points)
}
