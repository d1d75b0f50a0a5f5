"""How sums become codes: the rounding parameters that instructions carry, as plain frozen data.

Every instruction holds its own rule, so that a program means the same bits wherever it runs.
docs/numerics.md gives the formula of every rule; ``reference`` is its executable form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from calib8.profiles import PROFILES as PROFILES
from calib8.profiles import Profile as Profile
from calib8.program.cell_rules import CellFunction as CellFunction
from calib8.program.cell_rules import CellFunctionName as CellFunctionName
from calib8.program.cell_rules import Multipliers as Multipliers
from calib8.program.quotient_rules import FixedQuotient as FixedQuotient
from calib8.program.quotient_rules import FloatQuotient as FloatQuotient
from calib8.program.quotient_rules import QuotientRule as QuotientRule
from calib8.program.real_rules import RealAverage as RealAverage
from calib8.program.real_rules import RealSoftmax as RealSoftmax

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I16 = npt.NDArray[np.int16]
I8 = npt.NDArray[np.int8]
Codes = npt.NDArray[np.uint8] | npt.NDArray[np.int8]
Table = Codes | I16


@dataclass(frozen=True, eq=False)
class FloatRescale:
    """``code = clip(rint(float32(acc) · factor[c]) + zero_point)``, ties to even: profile ``onnx``.

    Attributes:
        factor: float32 [1] or [channels], finite, ≥ 0 (0 only where the product underflows):
            ``fl(fl(input scale · weight scale[c]) / output scale)``.
    """

    factor: F32


@dataclass(frozen=True, eq=False)
class FixedRescale:
    """``code = clip(multiply(acc, multiplier[c], shift[c]) + zero_point)``, integers only.

    Attributes:
        multiplier: int32 [1] or [channels], 0 or in [2^30, 2^31); TFLite's Mean also has [2^29, 2^30), and
            what reads 16-bit codes [2^21, 2^31): |acc| · multiplier stays below 2^62.
        shift: int32 of the same shape, −31 … 30, positive = left.
        rounding: the function of ``fixedpoint``: ``double``, ``single`` or ``away``.
    """

    multiplier: I32
    shift: I32
    rounding: Literal["double", "single", "away"]


Rescale = FloatRescale | FixedRescale


@dataclass(frozen=True, eq=False)
class TwoSidedRescale:
    """A layer and LeakyRelu or PRelu in one rounding: sums below 0 have factors of their own.

    Attributes:
        positive: of sums from 0 on.
        negative: of sums below 0; a negative slope makes its factors (or multipliers) negative.
    """

    positive: Rescale
    negative: Rescale


CURVE_SEGMENTS: Final = 32
CURVE_SHIFT_MAX: Final = 11
CURVE_FRACTION_BITS: Final = 6
"""Of the results of a CurveRescale before they become codes."""

CURVE_WIDE_SHIFT: Final = 2
"""From the results of a CurveRescale to 16-bit codes."""

CURVE_SUMS_MAX: Final = (1 << 30) - 1
"""Up to here goes what ``steps`` of a CurveRescale make of sums, before it saturates."""


@dataclass(frozen=True, eq=False)
class CurveRescale:
    """A layer and a function of its result: 32 quadratic segments over 16-bit steps, integers only.

        v = clip(steps(acc), −2^15, 2^15 − 1)
        u = clip(v, first·2^shift, (first + 32)·2^shift − 1),   i = (u >> shift) − first
        d = (u mod 2^shift) · 2^(15 − shift)
        t = value[i] + R((R(bend[i]·d) + slope[i])·d),   R(p) = (p + 2^14) >> 15
        y = t + R((v − u)·(above where v > u, else below))
        code = clip((y >> 6) + lowest code of the type)         of 8 bits
        code = clip(4·y + lowest code of the type)              of 16 bits

    Sums and differences saturate at 16 bits.

    Attributes:
        steps: the rescale to v.
        shift: 0 … 11; a segment has 2^shift steps.
        first: the first segment; all of them lie within 16 bits.
        value, slope, bend: int16 [32]; |slope| + |bend| < 2^15.
        below, above: slopes before the first and behind the last segment, as parts of 2^15, above −2^15.
        error: the largest difference from the exact function before codes are rounded, in thousandths of
            a code, as lowering measured it; computes nothing.
    """

    steps: Rescale
    shift: int
    first: int
    value: I16
    slope: I16
    bend: I16
    below: int
    above: int
    error: int


LayerRescale = Rescale | TwoSidedRescale | CurveRescale


@dataclass(frozen=True)
class FloatProduct:
    """QLinearMul: ``code = clip(rint(fl(fl(float32(acc) · factor) + zero_point)))``: profile ``onnx``, Mul.

    The zero point comes before the rounding: with an odd one, ties go the other way than in FloatRescale.

    Attributes:
        factor: a finite float32 value ≥ 0: ``fl(fl(s_a · s_b) / s_y)``.
    """

    factor: float


ProductRule = FloatProduct | FixedRescale


@dataclass(frozen=True)
class FloatSum:
    """QLinearAdd: ``clip(rint(fma(A, lhs, fma(B, rhs, fixed))))``, all float32: profile ``onnx``, Add."""

    lhs: float
    rhs: float
    fixed: float


@dataclass(frozen=True)
class DequantizedSum:
    """``clip(rint(fl(fl(s_a·(A − z_a)) ± fl(s_b·(B − z_b))) / s_y) + z_y)``, float32: profile ``onnx``, Sub.

    Attributes:
        lhs, rhs, output: the three scales, float32 values.
    """

    lhs: float
    rhs: float
    output: float


@dataclass(frozen=True)
class ScaledSum:
    """TFLite's Add: ``M(M((A−z_a) << left, lhs) ± M((B−z_b) << left, rhs), output)``, M double rounding.

    Attributes:
        left_shift: 20, of 16-bit codes 15.
        lhs, rhs, output: (multiplier, shift).
    """

    left_shift: int
    lhs: tuple[int, int]
    rhs: tuple[int, int]
    output: tuple[int, int]


@dataclass(frozen=True)
class AlignedSum:
    """``((A−z_a)·lhs ± (B−z_b)·rhs + 2^(shift−1)) >> shift``, one rounding: profile ``single``.

    XNNPACK's form. The sum of the products stays below 2^30; shifts up to 30 need no more than int32. Where
    one of the tensors has 16-bit codes, it stays below 2^47, in int64; profile ``tflite`` adds those so too.

    Attributes:
        lhs, rhs: 0 … 2^21, the larger one in [2^20, 2^21] (less only where the shift is 62); of what reads
            16-bit codes 0 … 2^30, the larger one in [2^29, 2^30].
        shift: right shift, 1 … 62.
    """

    lhs: int
    rhs: int
    shift: int


SumRule = FloatSum | DequantizedSum | ScaledSum | AlignedSum


@dataclass(frozen=True, eq=False)
class AlignedSums:
    """``(a·lhs[c] + b·rhs[c] + 2^(shift[c]−1)) >> shift[c]`` in int64: profiles ``tflite`` and ``single``.

    a and b are sums, or codes minus their zero point.

    Attributes:
        lhs, rhs: int32 [1] or [channels], 0 … 2^30, the larger one of a channel ≥ 2^29 (less only where
            the shift is 62).
        shift: int32 of the same shape, right shift, 1 … 62.
    """

    lhs: I32
    rhs: I32
    shift: I32


@dataclass(frozen=True)
class FloatAverage:
    """QLinearAveragePool: float32 values ``fl(s_x·(q − z_x))`` added tap by tap in row-major order, divided
    by the count, then ``clip(rint(fl(fl(mean / s_y) + z_y)))``: profile ``onnx``.

    Attributes:
        input, output: scales, float32 values.
    """

    input: float
    output: float


@dataclass(frozen=True)
class CodeAverage:
    """``tflite``: mean of the codes themselves, ties away from zero; input and output share scale and
    zero point."""


AverageRule = FloatAverage | CodeAverage | FixedRescale | RealAverage
"""FixedRescale: multiplier[n − 1] serves windows of n taps; ``Σ(q − z_x)`` is what is rescaled."""


@dataclass(frozen=True, eq=False)
class FixedSoftmax:
    """TFLite's fixed-point softmax: Q5.26 differences, Q0.31 exponentials; output scale 1/256, profile
    ``tflite``.

    Attributes:
        multiplier, shift: of ``β · s_x · 2^26``.
        diff_min: differences below it give the smallest code and are not summed.
    """

    multiplier: int
    shift: int
    diff_min: int


@dataclass(frozen=True, eq=False)
class TableSoftmax:
    """Exponentials from a table, summed, then one division; profiles ``onnx`` and ``single``.

    Attributes:
        table: [256], entry i for a code that lies 255 − i below the largest of its row: float32
            ``exp(s_x·(i − 255) + shift)`` (``onnx``) or int32 with 24 fraction bits, ``exp(s_x·(i − 255))``
            (``single``).
        factor: what the share e/Σe is multiplied with: ``floor(fl(1/s_y))`` as float32 value (``onnx``) or
            1/s_y as an integer of ``fraction_bits`` fraction bits, at most 2^37 (``single``).
        fraction_bits: 0 for ``onnx``, 16 for ``single``.
    """

    table: npt.NDArray[np.float32] | I32
    factor: float | int
    fraction_bits: int = 0


SoftmaxRule = FixedSoftmax | TableSoftmax | RealSoftmax

NORM_EPSILON_BITS: Final = 16
NORM_VALUE_BITS: Final = 22
NORM_OFFSET_BITS: Final = 30
"""Of a FixedNorm: fraction bits of ε, those of a row with spread 1, and the place of an offset's last bit."""


@dataclass(frozen=True, eq=False)
class FloatNorm:
    """LayerNorm with one float32 number per row: profile ``onnx``.

    Attributes:
        factor, offset: float32 [channels], finite: ``fl(scale / s_y)`` and ``fl(bias / s_y)``.
        epsilon: ``epsilon·n² / s_x²`` of rows of n codes, a finite float64 number, ≥ 0.
    """

    factor: F32
    offset: F32
    epsilon: float


@dataclass(frozen=True, eq=False)
class FixedNorm:
    """LayerNorm with integers only, one root and one division per row: profiles ``tflite`` and ``single``.

    Attributes:
        multiplier: int32 [channels], above −2^31: ``scale / s_y · 2^(shift − 22)``.
        offset: int32 [channels], above −2^31: ``bias / s_y · 2^(shift − 30)``.
        shift: int32 [channels], right shift, 1 … 62.
        epsilon: ``epsilon·n² / s_x²`` with 16 fraction bits, 0 … 2^62.
    """

    multiplier: I32
    offset: I32
    shift: I32
    epsilon: int


NormRule = FloatNorm | FixedNorm

GROUP_FACTOR_MAX: Final = float(1 << 64)
"""Of a FloatGroupNorm: products with it stay finite in float32."""


def group_epsilon_bits(count: int) -> int:
    """Fraction bits of ε of a group of ``count`` codes, an even number: V·2^bits stays below 2^62."""
    return min(NORM_EPSILON_BITS, 48 - 2 * (count - 1).bit_length())


@dataclass(frozen=True, eq=False)
class FloatGroupNorm:
    """GroupNorm with one float64 number per group and two float32 ones per channel: profile ``onnx``.

    Attributes:
        factor: float32 [channels], ``fl(scale / s_y)``, magnitudes up to 2^64.
        offset: float32 [channels], finite: ``fl(bias / s_y)``.
        epsilon: ``epsilon·n² / s_x²`` of groups of n codes, a finite float64 number, ≥ 0.
    """

    factor: F32
    offset: F32
    epsilon: float


@dataclass(frozen=True, eq=False)
class FixedGroupNorm:
    """GroupNorm with integers only, one root and one division per group: profiles ``tflite`` and ``single``.

    Attributes:
        multiplier, offset: int32 [channels], above −2^31: ``scale / s_y · 2^multiplier_shift`` and
            ``bias / s_y · 2^offset_shift``.
        multiplier_shift, offset_shift: int32 [channels], right shifts, 1 … 126.
        epsilon: ``epsilon·n² / s_x²`` with ``group_epsilon_bits(n)`` fraction bits, 0 … 2^62.
    """

    multiplier: I32
    multiplier_shift: I32
    offset: I32
    offset_shift: I32
    epsilon: int


GroupNormRule = FloatGroupNorm | FixedGroupNorm


@dataclass(frozen=True, eq=False)
class LinearAxis:
    """Linear interpolation along one axis: ``(1 − f[i])·x[low[i]] + f[i]·x[high[i]]``.

    Attributes:
        low, high: int32 [output size], rows or columns of the input.
        fraction: [output size], in [0, 1]: float32 (``onnx``) or int32 with 10 fraction bits (``tflite``,
            ``single``); float32 in [−1, 1] for ``float_up``.
        rounding: of ties of the result: to ``even`` (``onnx``), ``away`` from zero (``tflite``), ``up``
            (``single``); ``float_up``: TFLite's float32 sum of uint8 codes. Rows and columns of one
            instruction agree.
    """

    low: I32
    high: I32
    fraction: npt.NDArray[np.float32] | I32
    rounding: Literal["even", "away", "up", "float_up"]
