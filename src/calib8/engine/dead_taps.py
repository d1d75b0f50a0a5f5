"""Taps of a kernel that read nothing but the border: all of it is the zero point, so their products are zero.

A kernel with a large dilation reaches beyond a small image with most of its taps. Those that no output pixel
sees inside the image are cut off; where others are seen by some outputs only, bands of outputs that see the
same taps are computed one after the other, each with these taps (``windows_of``).

    dilation 24 on 33 rows      outputs 0 … 8     taps    1, 2
                                outputs 9 … 23    tap     1
                                outputs 24 … 32   taps 0, 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, product
from typing import Any, Final

from calib8.engine.frames import FramesConv, depth_of
from calib8.program import instructions as op
from calib8.program.program import Program

SAVED: Final = 0.25
"""Share of the products that windows must save: each is a step of its own, with weights of its own."""

SAVED_PRODUCTS: Final = 1_000_000
PIXELS_PER_WEIGHT: Final = 64
"""Pixels that a weight must serve on average, or fetching all the weights takes as long as was saved."""

MOST_WINDOWS: Final = 9


@dataclass(frozen=True)
class Band:
    """Outputs along one axis, one after the other, and the taps that they see inside the image."""

    outputs: range
    taps: range


@dataclass(frozen=True)
class Axis:
    """One axis of a layer's geometry.

    Attributes:
        size, outputs: of the image, and of the result.
        kernel, stride, dilation, pad: ``pad`` before the image; below 0, the kernel begins inside.
    """

    size: int
    outputs: int
    kernel: int
    stride: int
    dilation: int
    pad: int

    @property
    def beyond(self) -> int:
        """How far behind the image the kernel reaches."""
        last = (self.outputs - 1) * self.stride + (self.kernel - 1) * self.dilation
        return max(last + 1 - self.pad - self.size, 0)

    def taps(self, output: int) -> range:
        """The taps that an output sees inside the image; they lie side by side."""
        start = self.pad - output * self.stride
        first, end = -(-start // self.dilation), (self.size - 1 + start) // self.dilation + 1
        return range(max(first, 0), max(min(end, self.kernel), max(first, 0)))

    def bands(self) -> list[Band]:
        """All outputs, in bands that see the same taps: a band ends where a tap comes in or goes out."""
        ends = {0, self.outputs}
        for tap, edge in product(range(self.kernel), (0, self.size)):
            end = -((tap * self.dilation - self.pad - edge) // self.stride)
            ends.add(min(max(end, 0), self.outputs))
        found = list[Band]()
        for taps, pairs in groupby(pairwise(sorted(ends)), lambda pair: self.taps(pair[0])):
            (first, end), *more = pairs
            found.append(Band(range(first, more[-1][1] if more else end), taps))
        return found

    def live(self) -> range:
        """From the first tap that any output sees to the last one; all where none is seen."""
        seen = [band.taps for band in self.bands() if band.taps]
        if not seen:
            return range(self.kernel)
        return range(min(taps.start for taps in seen), max(taps.stop for taps in seen))


def axes_of(step: op.Conv | op.DepthwiseConv, program: Program) -> tuple[Axis, Axis]:
    """Rows and columns."""
    source, target = program.slots[step.inputs[0]].shape, program.slots[step.outputs[0]].shape
    kernel = step.weight.shape[:2] if isinstance(step, op.DepthwiseConv) else step.weight.shape[1:3]
    kernel = (kernel[0] // depth_of(step), kernel[1])
    rows, columns = (
        Axis(source[i + 1], target[i + 1], kernel[i], step.strides[i], step.dilations[i], step.pads[i])
        for i in (0, 1)
    )
    return rows, columns


def without_dead_taps(program: Program) -> Program:
    """The program with kernels that have no taps at their ends which no output sees inside the image."""
    return replace(program, instructions=tuple(_cropped(step, program) for step in program.instructions))


def _cropped(step: op.Instruction, program: Program) -> op.Instruction:
    if not isinstance(step, op.Conv | op.DepthwiseConv):
        return step
    axes = axes_of(step, program)
    live = [axis.live() for axis in axes]
    if all(len(taps) == axis.kernel for taps, axis in zip(live, axes, strict=True)):
        return step
    rows, columns = (slice(taps.start, taps.stop) for taps in live)
    depthwise = isinstance(step, op.DepthwiseConv)
    weight = step.weight[rows, columns] if depthwise else step.weight[:, rows, columns]
    before = [step.pads[i] - live[i].start * step.dilations[i] for i in (0, 1)]
    behind = [step.pads[i + 2] - (axes[i].kernel - live[i].stop) * step.dilations[i] for i in (0, 1)]
    pads: Any = (*before, *behind)
    return replace(step, weight=weight, pads=pads)


def windows_of(step: op.Conv, program: Program) -> Sequence[tuple[Band, Band]]:
    """Bands of rows × bands of columns that save products; everything in one where they do not."""
    axes = axes_of(step, program)
    whole = tuple(Band(range(axis.outputs), range(axis.kernel)) for axis in axes)
    rows, columns = (axis.bands() for axis in axes)
    seen, weights = 1, 1
    for bands in (rows, columns):
        seen *= sum(len(band.outputs) * len(band.taps) for band in bands)
        weights *= sum(len(band.taps) for band in bands)
    every = math.prod(axis.outputs * axis.kernel for axis in axes)
    saved = (every - seen) * step.weight.shape[0] * step.weight.shape[-1]
    worth = every - seen >= SAVED * every and saved >= SAVED_PRODUCTS and seen >= PIXELS_PER_WEIGHT * weights
    possible = all(band.taps for band in (*rows, *columns)) and _one_result(step, program)
    possible = possible and not isinstance(step, FramesConv)
    if worth and possible and 1 < len(rows) * len(columns) <= MOST_WINDOWS:
        return list(product(rows, columns))
    return [(whole[0], whole[1])]


def _one_result(step: op.Conv, program: Program) -> bool:
    """Whether codes of 8 bits come in and go out: sums of wider ones are computed in parts already."""
    return all(program.slots[slot].is_codes and not program.slots[slot].is_wide
               for slot in (*step.inputs, *step.outputs))  # fmt: skip
