"""Convolutions, and fully connected layers; what windows of an image need.

    Conv             acc[n, i, j, o] = Σ x'[n, i·s + h·d − top, j·s + w·d − left, c] · w'[o, h, w, c]
    FullyConnected   acc[…, o] = Σ_c x'[…, c] · w'[o, c]

x' and w' are those of ``weighted``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.instruction import Instruction
from calib8.program.ops.operand import Operand
from calib8.program.ops.shapes import Shape, fitting, image_shape, sliding
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.ops.weighted import (
    LAYER,
    Floats,
    Weighted,
    check_groups,
    check_zero_points,
    finished,
    input_and_weight,
    reach,
    weight_shape,
)
from calib8.program.ops.windows import conv_size
from calib8.program.slot import Slot

WINDOW_ELEMENTS: Final = 1 << 24
"""Images are taken together until their windows fill this many numbers."""


@dataclass(frozen=True, eq=False)
class Conv(Weighted):
    """2-D convolution, NHWC; weight OHWI with I = channels / groups. Padding holds the zero point.

    Attributes:
        strides, dilations: (rows, columns).
        pads: (top, left, bottom, right).
        groups: divides input and output channels.
    """

    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    groups: int


@dataclass(frozen=True, eq=False)
class FullyConnected(Weighted):
    """[…, inputs] × weight [outputs, inputs] → […, outputs]."""


def conv(step: Conv, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Windows of the padded image times filters: one matrix product per group."""
    x, weight = input_and_weight(step, operands[0])
    outputs, rows, columns, depth = weight.shape
    filters = weight.reshape(step.groups, outputs // step.groups, rows * columns * depth).transpose(0, 2, 1)
    image = padded(x, step.pads)
    image = image.reshape(*image.shape[:3], step.groups, depth)
    windows = windows_of(image, (rows, columns), step.strides, step.dilations)
    count, height, width = windows.shape[:3]
    acc = np.empty((count, height, width, outputs), x.dtype)
    together = max(1, WINDOW_ELEMENTS // max(1, windows[0].size))
    for first in range(0, count, together):
        part = windows[first : first + together]
        # [images, height, width, group, depth, rows, columns] → [group, pixels, rows · columns · depth]
        pixels = part.transpose(3, 0, 1, 2, 5, 6, 4).reshape(step.groups, -1, filters.shape[1])
        sums = (pixels @ filters).transpose(1, 0, 2)
        acc[first : first + together] = sums.reshape(-1, height, width, outputs)
    return finished(step, acc, output)


def fully_connected(step: FullyConnected, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """One matrix product over the last axis."""
    x, weight = input_and_weight(step, operands[0])
    return finished(step, x @ weight.T, output)


def padded(x: Floats, pads: tuple[int, int, int, int]) -> Floats:
    """The image with zeros around it; pads are (top, left, bottom, right)."""
    top, left, bottom, right = pads
    if not any(pads):
        return x
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))


def windows_of(
    image: Floats, kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int]
) -> Floats:
    """View [images, output rows, output columns, …, kernel rows, kernel columns] of a padded image."""
    extent = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
    every = np.lib.stride_tricks.sliding_window_view(image, extent, axis=(1, 2))
    view: Floats = every[:, :: strides[0], :: strides[1], ..., :: dilations[0], :: dilations[1]]
    return view


def _conv_shape(step: Step, layer: Conv) -> tuple[Shape, ...]:
    image = image_shape(step, step.inputs[0])
    outputs, rows, columns, inputs = weight_shape(step, layer, 4, "OHWI")
    check_groups(step, layer.groups, image[3], inputs, outputs)
    windows = sliding(step, image, (rows, columns), layer.strides, layer.pads, layer.dilations)
    height, width = (fitting(step, window, conv_size(window)) for window in windows)
    return ((image[0], height, width, outputs),)


def _fully_connected_shape(step: Step, layer: FullyConnected) -> tuple[Shape, ...]:
    shape = step.inputs[0].shape
    outputs, inputs = weight_shape(step, layer, 2, "[outputs, inputs]")
    if not shape or shape[-1] != inputs:
        raise step.error(
            f'has a weight for {inputs} inputs and reads "{step.inputs[0].name}" of shape {list(shape)}',
            "The last axis must be the weight's inputs",
        )
    return ((*shape[:-1], outputs),)


def _macs(layer: Weighted, source: Slot, result: Slot) -> int:
    """Elements of the output, times those of a filter."""
    return math.prod(result.shape) * math.prod(layer.weight.shape[1:])


TRAITS: Final[dict[type[Instruction], Traits]] = {
    Conv: Traits(LAYER, _conv_shape, conv, reach, _macs, check_zero_points),
    FullyConnected: Traits(LAYER, _fully_connected_shape, fully_connected, reach, _macs, check_zero_points),
}
