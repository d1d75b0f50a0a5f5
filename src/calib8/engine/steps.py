"""The steps of a plan: the structs of ``csrc/engine/steps/``, field by field, which say what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calib8.engine.fields import Activation, Axes, Pair, Rescale, Single, SumRule, View, Window


@dataclass(frozen=True)
class Step:
    """What all steps have."""

    opcode: ClassVar[str]


@dataclass(frozen=True)
class FillHalo(Step):
    """The border of a tensor in storage."""

    opcode: ClassVar[str] = "fill_halo"

    view: View
    top: int
    left: int
    bottom: int
    right: int
    value: int


@dataclass(frozen=True)
class Copy(Step):
    """Runs of bytes moved."""

    opcode: ClassVar[str] = "copy"

    source_buffer: int
    source_offset: int
    target_buffer: int
    target_offset: int
    run: int
    sizes: Axes
    source_strides: Axes
    target_strides: Axes
    source_tables: Axes
    exclusive_or: int


@dataclass(frozen=True)
class Quantize(Step):
    """float32 to stored codes."""

    opcode: ClassVar[str] = "quantize"

    source_buffer: int
    source_offset: int
    target_buffer: int
    target_offset: int
    sizes: Axes
    source_strides: Axes
    target_strides: Axes
    scale: float
    zero_point: int
    low: int
    high: int
    shift: int
    away: int


@dataclass(frozen=True)
class Dequantize(Step):
    """Stored codes or sums to float32."""

    opcode: ClassVar[str] = "dequantize"

    source_buffer: int
    source_offset: int
    target_buffer: int
    target_offset: int
    source_size: int
    sizes: Axes
    source_strides: Axes
    target_strides: Axes
    scale_strides: Axes
    scales: int
    zero_point: int


@dataclass(frozen=True)
class Conv(Step):
    """Convolution or fully connected layer."""

    opcode: ClassVar[str] = "conv"

    input: View
    output: View
    row_step: int
    column_step: int
    taps: int
    tap_offsets: int
    depth: int
    groups: int
    group_channels: int
    outputs: int
    panels: int
    panel_widths: int
    padded_outputs: int
    weights: int
    weight_bytes: int
    bias: int
    weight_sums: int
    rescale: Rescale
    sum: SumRule
    residual_right: int
    residual: View
    table: int
    activation: Activation


@dataclass(frozen=True)
class Depthwise(Step):
    """One filter per output channel."""

    opcode: ClassVar[str] = "depthwise"

    input: View
    output: View
    kernel_rows: int
    kernel_columns: int
    row_step: int
    column_step: int
    row_dilation: int
    column_dilation: int
    taps: int
    tap_offsets: int
    multiplier: int
    repeats: int
    padded_outputs: int
    weights: int
    layers: int
    bias: int
    rescale: Rescale
    narrow: int
    table: int
    activation: Activation


@dataclass(frozen=True)
class MatMul(Step):
    """Product of two activations."""

    opcode: ClassVar[str] = "mat_mul"

    lhs_buffer: int
    lhs_offset: int
    rhs_buffer: int
    rhs_offset: int
    target_buffer: int
    target_offset: int
    batches: int
    lhs_starts: int
    rhs_starts: int
    rows: int
    depth: int
    columns: int
    lhs_zero: int
    rhs_zero: int
    rescale: Rescale


@dataclass(frozen=True)
class Requantize(Step):
    """Sums to codes."""

    opcode: ClassVar[str] = "requantize"

    tensors: Single
    per_channel: int
    rescale: Rescale


@dataclass(frozen=True)
class Add(Step):
    """Sum or difference of codes."""

    opcode: ClassVar[str] = "add"

    pair: Pair
    sum: SumRule
    table: int


@dataclass(frozen=True)
class AddSums(Step):
    """Sum where an operand is sums."""

    opcode: ClassVar[str] = "add_sums"

    pair: Pair
    rhs_size: int
    kind: int
    per_channel: int
    lhs_factor: int
    rhs_factor: int
    right_shift: int
    output: float
    rhs_zero: int
    zero_point: int
    low: int
    high: int


@dataclass(frozen=True)
class Mul(Step):
    """Product of codes."""

    opcode: ClassVar[str] = "mul"

    pair: Pair
    lhs_zero: int
    rhs_zero: int
    kind: int
    factor: float
    multiplier: int
    exponent: int
    zero_point: int
    output_shift: int
    low: int
    high: int


@dataclass(frozen=True)
class Extreme(Step):
    """Elementwise larger or smaller code."""

    opcode: ClassVar[str] = "extreme"

    pair: Pair
    largest: int


@dataclass(frozen=True)
class Lookup(Step):
    """A table of codes."""

    opcode: ClassVar[str] = "lookup"

    tensors: Single
    per_channel: int
    table: int


@dataclass(frozen=True)
class MaxPool(Step):
    """Largest code of a window."""

    opcode: ClassVar[str] = "max_pool"

    input: View
    output: View
    window: Window


@dataclass(frozen=True)
class AveragePool(Step):
    """Mean of a window."""

    opcode: ClassVar[str] = "average_pool"

    input: View
    output: View
    window: Window
    count_pads: int
    kind: int
    input_scale: float
    output_scale: float
    rounding: int
    multiplier: int
    exponent: int
    input_zero: int
    output_zero: int
    input_shift: int
    output_shift: int
    low: int
    high: int


@dataclass(frozen=True)
class Reduce(Step):
    """Mean, largest or smallest over axes."""

    opcode: ClassVar[str] = "reduce"

    source_buffer: int
    source_offset: int
    target_buffer: int
    target_offset: int
    outer_sizes: Axes
    outer_strides: Axes
    target_strides: Axes
    inner_sizes: Axes
    inner_strides: Axes
    kind: int
    zero_point: int
    rescale: Rescale


@dataclass(frozen=True)
class ArgMax(Step):
    """Index of the largest code."""

    opcode: ClassVar[str] = "arg_max"

    source_buffer: int
    source_offset: int
    target_buffer: int
    target_offset: int
    outer: int
    length: int
    inner: int
    last: int
    item: int


@dataclass(frozen=True)
class Softmax(Step):
    """Softmax over the last axis."""

    opcode: ClassVar[str] = "softmax"

    source_buffer: int
    source_offset: int
    target_buffer: int
    target_offset: int
    rows: int
    classes: int
    kind: int
    table: int
    factor: float
    integer_factor: int
    fraction_bits: int
    zero_point: int


@dataclass(frozen=True)
class ResizeLinear(Step):
    """Bilinear interpolation."""

    opcode: ClassVar[str] = "resize_linear"

    input: View
    output: View
    rounding: int
    row_low: int
    row_high: int
    row_fraction: int
    column_low: int
    column_high: int
    column_fraction: int
    input_scale: float
    output_scale: float
    input_zero: int
    output_zero: int
    input_shift: int
    output_shift: int
