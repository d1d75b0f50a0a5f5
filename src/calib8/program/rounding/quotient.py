"""Rounding parameters of quotients and lengths.

    onnx             Div: scales, and what each right code stands for         ReduceL2: fl(s_x / s_y)
    tflite, single   Div: multiplier and shift of s_a / (D[B]·s_y), each B    ReduceL2: those of s_x / s_y

A divisor of 0, or one so small that every quotient but 0 is beyond all codes, has the largest multiplier.
"""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np

from calib8.errors import UnsupportedModelError
from calib8.fixedpoint import INT32_MAX, MAX_SHIFT, encode_multiplier
from calib8.program.rules import (
    F32,
    FixedQuotient,
    FixedRescale,
    FloatQuotient,
    FloatRescale,
    Profile,
    QuotientRule,
    Rescale,
)

LARGEST_FACTOR: Final = float(1 << (MAX_SHIFT - 1))
"""Beyond it a single step of the left side is more than any code."""


def quotient_rule(profile: Profile, a_scale: float, divisor: F32, y_scale: float) -> QuotientRule:
    """How ``(a − z_a)`` divided by what the code b stands for becomes a code.

    Args:
        profile: the rounding rules.
        a_scale, y_scale: of the left side and of the result.
        divisor: float32 [256], entry i of the right code i above the lowest; no entry is not-a-number.
    """
    if profile == "onnx":
        return FloatQuotient(a_scale, y_scale, divisor)
    pairs = [_encoded(a_scale / y_scale, float(one)) for one in divisor]
    multipliers, shifts = zip(*pairs, strict=True)
    return FixedQuotient(np.array(multipliers, np.int32), np.array(shifts, np.int32))


def _encoded(factor: float, divisor: float) -> tuple[int, int]:
    """Multiplier, with the sign of the divisor, and shift."""
    sign = int(math.copysign(1, divisor))
    magnitude = abs(divisor)
    if magnitude == 0 or factor / magnitude >= LARGEST_FACTOR:
        return sign * INT32_MAX, MAX_SHIFT
    multiplier, shift = encode_multiplier(factor / magnitude)
    return sign * multiplier, shift


def length_rule(profile: Profile, x_scale: float, y_scale: float) -> Rescale:
    """How the root of a sum of squares of codes becomes a code.

    Raises:
        UnsupportedModelError: the factor is beyond every multiplier.
    """
    try:
        multiplier, shift = encode_multiplier(x_scale / y_scale)
    except ValueError:
        problem = f"input scale / output scale = {x_scale / y_scale:.3g} has no multiplier"
        cure = "Check the scales of its quantizers; calibrate anew"
        raise UnsupportedModelError("ReduceL2", problem, cure) from None
    if profile == "onnx":
        return FloatRescale(np.array([np.float32(x_scale) / np.float32(y_scale)], np.float32))
    rounding: Literal["away", "single"] = "away" if profile == "tflite" else "single"
    return FixedRescale(np.array([multiplier], np.int32), np.array([shift], np.int32), rounding)
