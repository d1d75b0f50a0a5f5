"""Rounding parameters of layers, Add, Sub and Mul, from the scales of their tensors.

    layer      factor[c] = s_x·s_w[c] / s_y
    Add, Sub   y − z_y = (s_a/s_y)·(a − z_a) ± (s_b/s_y)·(b − z_b)
    Mul        factor = s_a·s_b / s_y

Scales are float32 values. Profile ``onnx`` computes with them in float32, as ONNX Runtime's kernels do
when they are called; ``tflite`` and ``single`` in float64, encoded as an integer and a shift. The factor of
TFLite's Mul is one of float32 all the same.
"""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from calib8.errors import UnsupportedModelError
from calib8.fixedpoint import MULTIPLIER_BITS, encode_multiplier, encode_multipliers
from calib8.program.program import Slot
from calib8.program.rounding.fma import fused_multiply_add
from calib8.program.rules import (
    F32,
    AlignedSum,
    AlignedSums,
    DequantizedSum,
    FixedRescale,
    FloatProduct,
    FloatRescale,
    FloatSum,
    ProductRule,
    Profile,
    Rescale,
    ScaledSum,
    SumRule,
)
from calib8.qparams import QParams

ADD_LEFT_SHIFT: Final = 20
"""Bits that TFLite's Add gains before it scales its 8-bit inputs."""

ALIGNED_BITS: Final = 20
"""The larger multiplier of an AlignedSum lies in [2^20, 2^21]: 2·255·2^21 fits int32."""

ALIGNED_SUMS_BITS: Final = 29
"""The larger multiplier of an AlignedSums lies in [2^29, 2^30]: 2·2^31·2^30 fits int64. So does that of an
AlignedSum that reads 16-bit codes."""

PRODUCT_BITS: Final = 62
"""Sums times a multiplier stay below 2^62, so that half of what is shifted away can be added in int64."""

WIDE_PRODUCT: Final = ((1 << 16) - 1) ** 2
"""The largest (a − z_a)(b − z_b) of 16-bit codes."""

MAX_RIGHT_SHIFT: Final = 62
MAX_RATIO_EXPONENT: Final = 19
"""Ratios from 2^20 on leave no right shift to an AlignedSum."""


def layer_rescale(
    profile: Profile,
    input_scale: float,
    weight_scales: F32,
    output_scale: float,
    *,
    fully_connected: bool = False,
    wide_sums: int | None = None,
) -> Rescale:
    """How ``Σ (x − z_x)(w − z_w) + bias`` becomes a code.

    Args:
        profile: the rounding rules.
        input_scale: s_x; of a product of two activations, that of the left one.
        weight_scales: s_w, [1] or [output channels].
        output_scale: s_y.
        fully_connected: TFLite's FullyConnected rounds once, ties away from zero; only ``tflite`` asks.
        wide_sums: of a layer that reads 16-bit codes, the largest magnitude of its sums: multipliers then
            leave room for it, and ``tflite`` rounds as ``single``.

    Raises:
        UnsupportedModelError: a factor is too large to be encoded.
    """
    if profile == "onnx":
        with np.errstate(over="ignore", under="ignore"):
            factor = np.float32(input_scale) * weight_scales.astype(np.float32) / np.float32(output_scale)
        return FloatRescale(_finite(factor, (input_scale, float(weight_scales.max())), output_scale))
    factors = float(input_scale) * weight_scales.astype(np.float64) / float(output_scale)
    rounding = _fixed_rounding(profile, fully_connected=fully_connected, wide=wide_sums is not None)
    scales = (input_scale, float(weight_scales.max()))
    return _fixed_rescale(factors, rounding, scales, output_scale, multiplier_bits(wide_sums))


def multiplier_bits(wide_sums: int | None) -> int:
    """As many as leave room for sums of 16-bit codes; 31 for those within int32."""
    left = MULTIPLIER_BITS if wide_sums is None else PRODUCT_BITS - wide_sums.bit_length()
    return min(MULTIPLIER_BITS, left)


def sums_rescale(profile: Profile, sum_scales: F32, output_scale: float) -> Rescale:
    """How the sums of a slot become codes: ``layer_rescale`` with the product of the scales given.

    Args:
        profile: the rounding rules.
        sum_scales: ``fl(s_x·s_w[c])``, [1] or [channels].
        output_scale: s_y.

    Raises:
        UnsupportedModelError: a factor is too large to be encoded.
    """
    return layer_rescale(profile, 1.0, sum_scales, output_scale)


def sum_rule(
    profile: Profile,
    op: Literal["add", "sub"],
    a: QParams,
    b: QParams,
    y: QParams,
    *,
    wide: bool = False,
) -> SumRule:
    """How two tensors of codes are added or subtracted; ``wide``: one of them has 16 bits.

    ``onnx``, Add: ONNX Runtime's kernel takes an operand that is one number per run of the last axis first.
    Where that is the left one, exchange the operands and their parameters.

    Raises:
        UnsupportedModelError: the input scales are too large beside the output's.
    """
    if profile == "onnx":
        return _float_sum(a, b, y) if op == "add" else DequantizedSum(a.scale, b.scale, y.scale)
    if wide:
        return _aligned_sum(a, b, y, ALIGNED_SUMS_BITS)
    return _scaled_sum(a, b, y) if profile == "tflite" else _aligned_sum(a, b, y, ALIGNED_BITS)


def _float_sum(a: QParams, b: QParams, y: QParams) -> FloatSum:
    """The constants that QLinearAdd forms: ``fixed = fl(z_y − fma(lhs, z_a, fl(rhs·z_b)))``.

    A ratio whose product with two codes would be infinite is refused.
    """
    with np.errstate(over="ignore", under="ignore"):
        lhs, rhs = np.float32(a.scale) / np.float32(y.scale), np.float32(b.scale) / np.float32(y.scale)
        _finite(np.array([lhs, rhs]) * np.float32(1 << 17), (max(a.scale, b.scale),), y.scale)
        offsets = fused_multiply_add(lhs, np.float32(a.zero_point), rhs * np.float32(b.zero_point))
        fixed = np.float32(y.zero_point) - offsets
    return FloatSum(float(lhs), float(rhs), float(fixed))


def _scaled_sum(a: QParams, b: QParams, y: QParams) -> ScaledSum:
    """TFLite's Add: inputs relative to twice the larger scale, the sum relative to the output."""
    twice_max = 2.0 * max(a.scale, b.scale)
    to_output = twice_max / ((1 << ADD_LEFT_SHIFT) * y.scale)
    try:
        output = encode_multiplier(to_output)
    except ValueError as error:
        raise _too_large((max(a.scale, b.scale),), y.scale) from error
    lhs, rhs = encode_multiplier(a.scale / twice_max), encode_multiplier(b.scale / twice_max)
    return ScaledSum(ADD_LEFT_SHIFT, lhs, rhs, output)


def _aligned_sum(a: QParams, b: QParams, y: QParams, bits: int) -> AlignedSum:
    """XNNPACK's Add: both ratios, rounded to float32, as integers over one power of two."""
    with np.errstate(over="ignore", under="ignore"):
        lhs = float(np.float32(a.scale) / np.float32(y.scale))
        rhs = float(np.float32(b.scale) / np.float32(y.scale))
    exponent = math.frexp(max(lhs, rhs))[1] - 1
    if not max(lhs, rhs) < 2.0 ** (MAX_RATIO_EXPONENT + 1):
        raise _too_large((max(a.scale, b.scale),), y.scale)
    shift = min(bits - exponent, MAX_RIGHT_SHIFT)
    return AlignedSum(round(math.ldexp(lhs, shift)), round(math.ldexp(rhs, shift)), shift)


def sums_rule(profile: Profile, a_scales: F32, b_scales: F32, output_scale: float) -> AlignedSums | None:
    """How two tensors are added of which one or both are sums; None for ``onnx``.

    Args:
        profile: the rounding rules.
        a_scales, b_scales: of the two slots, [1] or [channels].
        output_scale: s_y.

    Raises:
        UnsupportedModelError: the input scales are too large beside the output's.
    """
    if profile == "onnx":
        return None
    a, b = np.broadcast_arrays(a_scales.astype(np.float64), b_scales.astype(np.float64))
    lhs, rhs = a / float(output_scale), b / float(output_scale)
    larger = np.maximum(lhs, rhs)
    exponent = np.frexp(larger)[1].astype(np.int64) - 1
    if exponent.max() >= ALIGNED_SUMS_BITS:
        raise _too_large((float(np.maximum(a, b).max()),), output_scale)
    shift = np.minimum(ALIGNED_SUMS_BITS - exponent, MAX_RIGHT_SHIFT)
    return AlignedSums(
        np.rint(np.ldexp(lhs, shift)).astype(np.int32),
        np.rint(np.ldexp(rhs, shift)).astype(np.int32),
        shift.astype(np.int32),
    )


def product_rule(
    profile: Profile, a_scale: float, b_scale: float, output_scale: float, *, wide: bool = False
) -> ProductRule:
    """How ``(a − z_a)(b − z_b)`` becomes a code; ``wide``: one of them has 16 bits.

    Raises:
        UnsupportedModelError: the factor is too large to be encoded.
    """
    with np.errstate(over="ignore", under="ignore"):
        factor = np.float32(a_scale) * np.float32(b_scale) / np.float32(output_scale)
    if profile == "onnx":
        return FloatProduct(float(_finite(factor.reshape(1), (a_scale, b_scale), output_scale)[0]))
    exact = float(a_scale) * float(b_scale) / float(output_scale)
    factors = np.array([float(factor) if profile == "tflite" else exact])
    rounding, bits = _fixed_rounding(profile, wide=wide), multiplier_bits(WIDE_PRODUCT if wide else None)
    return _fixed_rescale(factors, rounding, (a_scale, b_scale), output_scale, bits)


def clamp(profile: Profile, slot: Slot, low: float | None, high: float | None) -> tuple[int, int]:
    """Codes of the bounds of a fused Relu or Clip: ``round(bound / scale) + zero_point`` within the type.

    Rounding is monotone, so clamping codes to them equals clamping real numbers before they are quantized.
    Ties go away from zero in ``tflite``, else to even. A lower bound above the upper one counts as the upper,
    as in ONNX.

    Args:
        profile: the rounding rules.
        slot: the codes that the layer writes.
        low, high: real bounds, ±inf or None for none.
    """
    info = np.iinfo(slot.dtype)
    lowest = info.min if low is None else _code(profile, slot, low)
    highest = info.max if high is None else _code(profile, slot, high)
    return min(lowest, highest), highest


def _code(profile: Profile, slot: Slot, bound: float) -> int:
    info = np.iinfo(slot.dtype)
    with np.errstate(over="ignore", under="ignore"):
        ratio = float(np.float32(bound) / np.float32(slot.scale))
    steps = min(max(ratio, info.min - slot.zero_point), info.max - slot.zero_point)
    rounded = math.copysign(math.floor(abs(steps) + 0.5), steps) if profile == "tflite" else round(steps)
    return int(rounded) + slot.zero_point


def _fixed_rounding(
    profile: Profile, *, fully_connected: bool = False, wide: bool = False
) -> Literal["double", "single", "away"]:
    if profile == "single" or wide:
        return "single"
    return "away" if fully_connected else "double"


def _fixed_rescale(
    factors: npt.NDArray[np.float64],
    rounding: Literal["double", "single", "away"],
    input_scales: tuple[float, ...],
    output_scale: float,
    bits: int,
) -> FixedRescale:
    try:
        multiplier, shift = encode_multipliers(factors, bits)
    except ValueError as error:
        raise _too_large(input_scales, output_scale) from error
    return FixedRescale(multiplier, shift, rounding)


def _finite(factor: F32, input_scales: tuple[float, ...], output_scale: float) -> F32:
    """The factors themselves.

    Raises:
        UnsupportedModelError: one of them is infinite.
    """
    if not np.isfinite(factor).all():
        raise _too_large(input_scales, output_scale)
    return factor


def _too_large(input_scales: tuple[float, ...], output_scale: float) -> UnsupportedModelError:
    product = " · ".join(f"{scale:.6g}" for scale in input_scales)
    ratio = math.prod(input_scales) / output_scale
    return UnsupportedModelError(
        f"scales {product} / {output_scale:.6g}",
        f"one step of the input is {ratio:.3g} steps of the output, which no multiplier can hold",
        "Calibrate the model again: the output's scale is far too small",
    )
