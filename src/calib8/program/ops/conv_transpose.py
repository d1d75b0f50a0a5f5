"""Transposed convolutions.

    acc[n, i·s + h·d − top, j·s + w·d − left, o] += x'[n, i, j, c] · w'[o, h, w, c]

x' and w' are those of ``weighted``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.instruction import Instruction
from calib8.program.ops.operand import Operand
from calib8.program.ops.shapes import Shape, image_shape, sliding
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.ops.weighted import (
    LAYER,
    Weighted,
    check_groups,
    check_zero_points,
    finished,
    input_and_weight,
    reach,
    weight_shape,
)
from calib8.program.ops.windows import transposed_sizes
from calib8.program.slot import Slot


@dataclass(frozen=True, eq=False)
class ConvTranspose(Weighted):
    """Scatter: input pixel (h, w) adds w[o, kh, kw, i] to output (h·stride + kh·dilation − top, …).

    weight OHWI with O = all output channels, I = input channels / groups. The size of the output slot says
    what output padding there is.
    """

    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    groups: int


def conv_transpose(step: ConvTranspose, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """One matrix product per kernel tap, scattered over the output; then the padding is cut off."""
    x, weight = input_and_weight(step, operands[0])
    outputs, rows, columns, depth = weight.shape
    count, height, width = x.shape[:3]
    filters = weight.reshape(step.groups, outputs // step.groups, rows, columns, depth)
    pixels = x.reshape(-1, step.groups, depth).transpose(1, 0, 2)
    (down, right), (dilation_down, dilation_right) = step.strides, step.dilations
    top, left = step.pads[:2]
    full = (
        max((height - 1) * down + (rows - 1) * dilation_down + 1, top + output.shape[1]),
        max((width - 1) * right + (columns - 1) * dilation_right + 1, left + output.shape[2]),
    )
    acc = np.zeros((count, *full, outputs), x.dtype)
    for row, column in np.ndindex(rows, columns):
        sums = (pixels @ filters[:, :, row, column].transpose(0, 2, 1)).transpose(1, 0, 2)
        first, start = row * dilation_down, column * dilation_right
        target = acc[:, first : first + height * down : down, start : start + width * right : right]
        target[:, :height, :width] += sums.reshape(count, height, width, outputs)
    acc = acc[:, top : top + output.shape[1], left : left + output.shape[2]]
    return finished(step, acc, output)


def _conv_transpose_shape(step: Step, layer: ConvTranspose) -> Collection[Shape]:
    image = image_shape(step, step.inputs[0])
    outputs, rows, columns, inputs = weight_shape(step, layer, 4, "OHWI")
    check_groups(step, layer.groups, image[3], inputs, outputs)
    windows = sliding(step, image, (rows, columns), layer.strides, layer.pads, layer.dilations)
    heights, widths = (transposed_sizes(window) for window in windows)
    shape = step.output.shape
    fits = len(shape) == 4 and shape[1] in heights and shape[2] in widths
    height, width = (shape[1], shape[2]) if fits else (heights.start, widths.start)
    return ((image[0], height, width, outputs),)


def _macs(layer: ConvTranspose, source: Slot, result: Slot) -> int:
    """Elements of the input, times those that each of them reaches."""
    sizes: tuple[int, ...] = layer.weight.shape
    return math.prod(source.shape) * math.prod(sizes[:3]) // layer.groups


TRAITS: Final[dict[type[Instruction], Traits]] = {
    ConvTranspose: Traits(LAYER, _conv_transpose_shape, conv_transpose, reach, _macs, check_zero_points)
}
