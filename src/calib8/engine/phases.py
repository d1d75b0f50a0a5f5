"""The phases of a transposed convolution: which taps meet which of its outputs, and how far they reach.

Output i·s + p (stride s, phase p, padding t) meets tap k of the kernel (dilation d) at input pixel

    i + (p + t − k·d) / s          where that is whole, else not at all

along each axis, so the outputs of one phase are a convolution of the whole input with some of the taps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calib8.program.instructions import ConvTranspose


@dataclass(frozen=True)
class Phase:
    """The outputs ``first``, ``first + stride`` … along one axis.

    Attributes:
        first: the phase, 0 … stride − 1.
        count: how many outputs it has, at least 1.
        taps: (offset of the input pixel, index of the kernel), in the order of the offsets; may be empty.
    """

    first: int
    count: int
    taps: tuple[tuple[int, int], ...]

    @property
    def reach(self) -> tuple[int, int]:
        """Lowest and highest input pixel that is read; one for each output where there are no taps."""
        offsets = [offset for offset, _ in self.taps] or [0]
        return min(offsets), self.count - 1 + max(offsets)


def phases(kernel: int, stride: int, dilation: int, pad: int, outputs: int) -> Iterator[Phase]:
    """All phases of one axis that have outputs.

    >>> [phase.taps for phase in phases(3, 2, 1, 1, 8)]
    [((0, 1),), ((0, 2), (1, 0))]
    """
    for first in range(min(stride, outputs)):
        distances = [(first + pad - index * dilation, index) for index in range(kernel)]
        taps = sorted((distance // stride, index) for distance, index in distances if distance % stride == 0)
        yield Phase(first, -(-(outputs - first) // stride), tuple(taps))


def transposed_halo(
    step: ConvTranspose, source: tuple[int, ...], target: tuple[int, ...]
) -> tuple[int, int, int, int]:
    """How far beyond the image (top, left, bottom, right) its phases read.

    Args:
        step: the instruction.
        source, target: shapes of its input and output.
    """
    ends = []
    for axis in (0, 1):
        kernel, size = step.weight.shape[axis + 1], source[axis + 1]
        geometry = (kernel, step.strides[axis], step.dilations[axis], step.pads[axis], target[axis + 1])
        reaches = [phase.reach for phase in phases(*geometry)]
        ends.append(
            (max(-min(low for low, _ in reaches), 0), max(max(high for _, high in reaches) + 1 - size, 0))
        )
    (top, bottom), (left, right) = ends
    return top, left, bottom, right
