"""Integers instead of real factors: the one place where fixed-point rounding is defined.

    encode          M ≈ multiplier · 2^(shift − 31),   multiplier in [2^30, 2^31),  shift positive = left
    SRDHM(a, b)     (a·b + 2^30) >> 31                              ties towards +∞
    RDPOT(x, e)     x / 2^e                                         ties away from zero
    double          RDPOT(SRDHM(x << max(shift, 0), multiplier), max(−shift, 0))        gemmlowp, TFLite
    single          (x·multiplier + 2^(30 − shift)) >> (31 − shift)                     ties towards +∞
    away            the nearest integer of x·multiplier / 2^(31 − shift)                ties away from zero

All arrays broadcast. Values are int64 arrays that hold int32 numbers unless said otherwise; >> is the
arithmetic shift. Sources: gemmlowp (Jacob et al. 2018, arXiv:1712.05877), TensorFlow Lite.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

INT32_MIN: Final = -(1 << 31)
INT32_MAX: Final = (1 << 31) - 1
MULTIPLIER_BITS: Final = 31
MIN_SHIFT: Final = -31
MAX_SHIFT: Final = 30


def encode_multiplier(factor: float, bits: int = MULTIPLIER_BITS) -> tuple[int, int]:
    """Multiplier and shift of a real factor ≥ 0: ``factor ≈ multiplier · 2^(shift − 31)``.

    Factors below 2^−32 become (0, 0), as in TFLite.

    Args:
        factor: finite.
        bits: of the multiplier, up to 31; fewer leave room for larger sums.

    Raises:
        ValueError: the factor is negative, not finite, or needs a left shift beyond 30.
    """
    if not (math.isfinite(factor) and factor >= 0.0):
        raise ValueError(f"{factor} is not a factor for a fixed-point multiplier")
    if factor == 0.0:
        return 0, 0
    fraction, shift = math.frexp(factor)
    multiplier = math.floor(fraction * (1 << bits) + 0.5)
    if multiplier == 1 << bits:
        multiplier, shift = 1 << (bits - 1), shift + 1
    if shift < MIN_SHIFT:
        return 0, 0
    shift += MULTIPLIER_BITS - bits
    if shift > MAX_SHIFT:
        raise ValueError(f"{factor} is too large for a fixed-point multiplier (limit 2^{MAX_SHIFT})")
    return multiplier, shift


def encode_multipliers(
    factors: npt.NDArray[np.float64], bits: int = MULTIPLIER_BITS
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """``encode_multiplier`` of every element: multipliers and shifts of the same shape."""
    pairs = [encode_multiplier(float(factor), bits) for factor in factors.reshape(-1)]
    multipliers = np.array([multiplier for multiplier, _ in pairs], np.int32).reshape(factors.shape)
    shifts = np.array([shift for _, shift in pairs], np.int32).reshape(factors.shape)
    return multipliers, shifts


def rounding_doubling_high_multiply(a: npt.ArrayLike, b: npt.ArrayLike) -> Ints:
    """SRDHM: ``(a·b + 2^30) >> 31``, saturated to int32 (only INT32_MIN · INT32_MIN needs it)."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    result: Ints = np.minimum((product + (1 << 30)) >> 31, INT32_MAX)
    return result


def rounding_divide_by_power_of_two(x: npt.ArrayLike, exponent: npt.ArrayLike) -> Ints:
    """RDPOT: ``x / 2^exponent`` to the nearest integer, ties away from zero; exponent in 0 … 31."""
    values, shift = np.asarray(x, np.int64), np.asarray(exponent, np.int64)
    mask = (np.int64(1) << shift) - 1
    threshold = (mask >> 1) + (values < 0)
    return (values >> shift) + ((values & mask) > threshold)


def multiply_double_rounding(x: npt.ArrayLike, multiplier: npt.ArrayLike, shift: npt.ArrayLike) -> Ints:
    """``x · multiplier · 2^(shift − 31)`` with two roundings.

    The left shift saturates to int32: TFLite leaves its overflow undefined, and a saturated product still
    lies beyond every code.
    """
    exponent = np.asarray(shift, np.int64)
    shifted: Ints = np.clip(np.asarray(x, np.int64) << np.maximum(exponent, 0), INT32_MIN, INT32_MAX)
    high = rounding_doubling_high_multiply(shifted, multiplier)
    return rounding_divide_by_power_of_two(high, np.maximum(-exponent, 0))


def multiply_single_rounding(x: npt.ArrayLike, multiplier: npt.ArrayLike, shift: npt.ArrayLike) -> Ints:
    """``x · multiplier · 2^(shift − 31)`` with one rounding, ties towards +∞; shift in −31 … 30."""
    right = 31 - np.asarray(shift, np.int64)
    product = np.asarray(x, np.int64) * np.asarray(multiplier, np.int64)
    result: Ints = (product + (np.int64(1) << (right - 1))) >> right
    return result


def multiply_rounding_away(x: npt.ArrayLike, multiplier: npt.ArrayLike, shift: npt.ArrayLike) -> Ints:
    """``x · multiplier · 2^(shift − 31)`` with one rounding, ties away from zero; shift in −31 … 30."""
    right = 31 - np.asarray(shift, np.int64)
    product = np.asarray(x, np.int64) * np.asarray(multiplier, np.int64)
    magnitude = (np.abs(product) + (np.int64(1) << (right - 1))) >> right
    result: Ints = np.where(product < 0, -magnitude, magnitude)
    return result
