"""The steps that know 16-bit codes: the structs of ``csrc/engine/steps/wide.h``, which say what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calib8.engine.fields import Activation, Axes, Pair, Rescale, Single, SumRule, View, Window
from calib8.engine.steps import Conv, Depthwise, FillHalo, Step


@dataclass(frozen=True)
class Plane(Step):
    """One byte of 16-bit codes."""

    opcode: ClassVar[str] = "plane"

    tensors: Single
    upper: int


@dataclass(frozen=True)
class Finish(Step):
    """Sums of a layer with 16-bit codes to codes."""

    opcode: ClassVar[str] = "finish"

    pair: Pair
    weight: int
    output_size: int
    bias: int
    rescale: Rescale
    activation: Activation


@dataclass(frozen=True)
class WideAdd(Step):
    """Sum or difference of codes of which some have 16 bits."""

    opcode: ClassVar[str] = "wide_add"

    pair: Pair
    lhs_size: int
    rhs_size: int
    output_size: int
    sum: SumRule


@dataclass(frozen=True)
class WideMul(Step):
    """Product of codes of which some have 16 bits."""

    opcode: ClassVar[str] = "wide_mul"

    pair: Pair
    lhs_size: int
    rhs_size: int
    output_size: int
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
class WideLookup(Step):
    """A table from or to 16-bit codes."""

    opcode: ClassVar[str] = "wide_lookup"

    tensors: Single
    input_size: int
    output_size: int
    per_channel: int
    table: int


@dataclass(frozen=True)
class WideMaxPool(Step):
    """Largest 16-bit code of a window."""

    opcode: ClassVar[str] = "wide_max_pool"

    input: View
    output: View
    window: Window


@dataclass(frozen=True)
class WideQuantize(Step):
    """float32 to 16-bit codes."""

    opcode: ClassVar[str] = "wide_quantize"

    source_buffer: int
    source_offset: int
    target_buffer: int
    target_offset: int
    sizes: Axes
    source_strides: Axes
    target_strides: Axes
    scale: float
    zero_point: int
    away: int


@dataclass(frozen=True)
class WideDequantize(Step):
    """16-bit codes to float32."""

    opcode: ClassVar[str] = "wide_dequantize"

    source_buffer: int
    source_offset: int
    target_buffer: int
    target_offset: int
    sizes: Axes
    source_strides: Axes
    target_strides: Axes
    scale: float
    zero_point: int


@dataclass(frozen=True)
class WideConv(Step):
    """Conv that reads or writes 16-bit codes, where every sum fits int32."""

    opcode: ClassVar[str] = "wide_conv"

    layer: Conv
    input_size: int
    output_size: int


@dataclass(frozen=True)
class WideDepthwise(Step):
    """Depthwise likewise."""

    opcode: ClassVar[str] = "wide_depthwise"

    layer: Depthwise
    input_size: int
    output_size: int


@dataclass(frozen=True)
class WideFillHalo(Step):
    """FillHalo with a code of 16 bits."""

    opcode: ClassVar[str] = "wide_fill_halo"

    border: FillHalo
