"""What several steps of a plan have in common: the structs of ``csrc/engine``, which say what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calib8.engine.buffers import ARENA as ARENA
from calib8.engine.buffers import CONSTANTS as CONSTANTS
from calib8.engine.buffers import FIRST_PORT as FIRST_PORT

Axes = tuple[int, int, int, int, int, int]

NONE: Final = -1
"""In place of the byte offset of a constant."""


@dataclass(frozen=True)
class View:
    """A tensor [images, rows, columns, channels]; offset in bytes, strides in elements."""

    buffer: int
    offset: int
    images: int
    rows: int
    columns: int
    channels: int
    image_stride: int
    row_stride: int
    column_stride: int


NO_VIEW: Final = View(0, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Rescale:
    """How sums become codes; arrays per channel are constants."""

    kind: int
    factor: int
    shift: int
    zero_point: int
    low: int
    high: int


@dataclass(frozen=True)
class Activation:
    """A function behind a layer, computed from its sums."""

    kind: int = 0
    negative: int = NONE
    negative_shift: int = NONE
    segments: int = NONE
    shift: int = 0
    first: int = 0
    below: int = 0
    above: int = 0


@dataclass(frozen=True)
class SumRule:
    """How two codes are added."""

    kind: int = 0
    negative: int = 0
    lhs: float = 0.0
    rhs: float = 0.0
    output: float = 0.0
    fixed: float = 0.0
    lhs_multiplier: int = 0
    rhs_multiplier: int = 0
    output_multiplier: int = 0
    lhs_exponent: int = 0
    rhs_exponent: int = 0
    output_exponent: int = 0
    left_shift: int = 0
    right_shift: int = 0
    lhs_zero: int = 0
    rhs_zero: int = 0
    output_zero: int = 0
    lhs_shift: int = 0
    rhs_shift: int = 0
    output_shift: int = 0
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class Single:
    """Input and output of an elementwise step; offsets in bytes, strides in elements."""

    sizes: Axes
    input_strides: Axes
    output_strides: Axes
    input_buffer: int
    input_offset: int
    output_buffer: int
    output_offset: int


@dataclass(frozen=True)
class Pair:
    """Operands and output of an elementwise step."""

    sizes: Axes
    lhs_strides: Axes
    rhs_strides: Axes
    output_strides: Axes
    lhs_buffer: int
    lhs_offset: int
    rhs_buffer: int
    rhs_offset: int
    output_buffer: int
    output_offset: int


@dataclass(frozen=True)
class Window:
    """Geometry of a pooling window."""

    kernel_rows: int
    kernel_columns: int
    row_step: int
    column_step: int
    row_dilation: int
    column_dilation: int
    top: int
    left: int
    bottom: int
    right: int
