"""The instruction set of the integer program: plain frozen data over numbered slots.

A slot (``program.Slot``) is a typed tensor of fixed shape. An instruction reads the slots ``inputs`` and
writes the slots ``outputs``. Images lie in NHWC; weights of a Conv in OHWI (output channel, row, column,
input channel).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calib8.program.rules import (
    I32,
    AlignedSums,
    AverageRule,
    Codes,
    LayerRescale,
    LinearAxis,
    ProductRule,
    Rescale,
    SoftmaxRule,
    SumRule,
    Table,
)


@dataclass(frozen=True, eq=False)
class Instruction:
    """What all instructions have.

    Attributes:
        name: node (or nodes) of the model that it stands for.
        inputs, outputs: numbers of slots.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Quantize(Instruction):
    """float32 → codes at the border: ``clip(round(x / scale) + zero_point)``; NaN gives the lowest code.

    Attributes:
        axes: output axis i is input axis ``axes[i]`` (NCHW → NHWC on the way in).
        rounding: ties to even (``onnx``, ``single``) or away from zero (``tflite``).
    """

    axes: tuple[int, ...]
    rounding: Literal["even", "away"]


@dataclass(frozen=True, eq=False)
class Dequantize(Instruction):
    """Codes or sums → float32 at the border: ``fl(scale · float32(code − zero_point))``.

    Attributes:
        axes: output axis i is input axis ``axes[i]``.
    """

    axes: tuple[int, ...]


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
    """

    weight: Codes
    weight_zero_point: I32
    bias: I32
    rescale: LayerRescale | None
    low: int
    high: int


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
class DepthwiseConv(Weighted):
    """One filter (or ``multiplier`` filters) per channel: weight [rows, columns, output channels].

    Output channel o reads input channel ``o // (output channels / input channels)``.
    """

    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]


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


@dataclass(frozen=True, eq=False)
class FullyConnected(Weighted):
    """[…, inputs] × weight [outputs, inputs] → […, outputs]."""


@dataclass(frozen=True, eq=False)
class MatMul(Instruction):
    """Two activations: ``Σ (a − z_a)(b − z_b)`` over [..., M, K] × [..., K, N], batch axes broadcast."""

    rescale: Rescale | None
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Requantize(Instruction):
    """Sums (int32) → codes."""

    rescale: Rescale
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Add(Instruction):
    """Elementwise sum of codes, broadcast."""

    rule: SumRule
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Sub(Instruction):
    """Elementwise difference of codes, broadcast; same rules with the right side negative."""

    rule: SumRule
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class AddSums(Instruction):
    """Elementwise sum, broadcast, where an operand is a slot of sums (a layer that no quantizer reads).

    Attributes:
        rule: None for ``onnx``: ``clip(rint(fl(fl(s_a[c]·a) + fl(s_b[c]·b)) / s_y) + z_y)`` in float32 with
            the scales of the slots.
    """

    rule: AlignedSums | None
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Mul(Instruction):
    """Elementwise product ``(A − z_a)(B − z_b)`` of codes, broadcast, rescaled by s_a·s_b/s_y."""

    rescale: ProductRule
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Maximum(Instruction):
    """Elementwise larger code, broadcast; all slots share scale and zero point."""


@dataclass(frozen=True, eq=False)
class Minimum(Instruction):
    """Elementwise smaller code, broadcast; all slots share scale and zero point."""


@dataclass(frozen=True, eq=False)
class Lookup(Instruction):
    """A unary function of codes, a change of scale included: ``output = table[code − lowest code]``.

    Attributes:
        table: codes of the output: [256], or [channels, 256] with one row per index of the last axis;
            [65536] for 16-bit codes of the input.
        function: what it computes, for the listing (``Sigmoid``, ``Requantize`` …).
    """

    table: Table
    function: str


@dataclass(frozen=True, eq=False)
class MaxPool(Instruction):
    """Largest code of a window, NHWC; padding never wins. Input and output share scale and zero point."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]


@dataclass(frozen=True, eq=False)
class AveragePool(Instruction):
    """Mean of a window, NHWC.

    Attributes:
        count_pads: padding counts as zeros (real) among the taps; else only valid taps count.
        low, high: clamp of the output codes.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    count_pads: bool
    rule: AverageRule
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Mean(Instruction):
    """Mean (or sum: only the factor differs) over axes: ``acc = Σ (q − z_x)``, rescaled.

    Attributes:
        axes: axes of the input that vanish or become 1 (the output slot's shape says which).
        rescale: by ``s_x / (s_y · count)``, or ``s_x / s_y`` for a sum.
    """

    axes: tuple[int, ...]
    rescale: Rescale
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class ReduceMax(Instruction):
    """Largest code over axes; input and output share scale and zero point."""

    axes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ReduceMin(Instruction):
    """Smallest code over axes; input and output share scale and zero point."""

    axes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ArgMax(Instruction):
    """Index (int64 or int32) of the largest code along an axis; the first (or last) among equals."""

    axis: int
    last: bool


@dataclass(frozen=True, eq=False)
class Softmax(Instruction):
    """Softmax over the last axis."""

    rule: SoftmaxRule


@dataclass(frozen=True, eq=False)
class Concat(Instruction):
    """Joins along an axis; all slots share scale and zero point."""

    axis: int


@dataclass(frozen=True, eq=False)
class ResizeNearest(Instruction):
    """``output[n, i, j] = input[n, rows[i], columns[j]]``, NHWC.

    Attributes:
        rows, columns: int32 indices into the input.
    """

    rows: I32
    columns: I32


@dataclass(frozen=True, eq=False)
class ResizeLinear(Instruction):
    """Bilinear interpolation, NHWC; input and output share scale and zero point, but in profile ``onnx``."""

    rows: LinearAxis
    columns: LinearAxis


@dataclass(frozen=True, eq=False)
class Pad(Instruction):
    """Adds borders of one code.

    Attributes:
        before, after: per axis, ≥ 0.
        value: the code.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: int


@dataclass(frozen=True, eq=False)
class Transpose(Instruction):
    """Output axis i is input axis ``axes[i]``."""

    axes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Reshape(Instruction):
    """Same elements in the same order of memory, new shape."""


@dataclass(frozen=True, eq=False)
class Slice(Instruction):
    """Part of a tensor.

    Attributes:
        starts: first index per axis, ≥ 0.
        steps: per axis, not 0; negative steps walk backwards. The output slot's shape says how many.
    """

    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Gather(Instruction):
    """Picks indices along one axis (channel shuffles, tiling, expanding).

    Attributes:
        axis: of the input.
        indices: int32 [output size of that axis], 0 … size − 1.
    """

    axis: int
    indices: I32


@dataclass(frozen=True, eq=False)
class Float(Instruction):
    """Nodes without an integer form, run by ONNX Runtime.

    Attributes:
        model: bytes of an ONNX model whose inputs and outputs are named as its slots and come in their order.
        nodes: names of its nodes.
        reasons: why each of the nodes has no integer form, in their order.
    """

    model: bytes
    nodes: tuple[str, ...]
    reasons: tuple[str, ...] = ()
