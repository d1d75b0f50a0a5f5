"""What LiteRT's int8 kernels compute of squares: SQUARED_DIFFERENCE and RSQRT.

    SQUARED_DIFFERENCE   d = M((a − z_a) << 7, s_a/2s) − M((b − z_b) << 7, s_b/2s),      s = max(s_a, s_b)
                         y = M(d·d, (2s)²/(2^14·s_y)) + z_y
    RSQRT                y = M(M(1, 1/√(q − z_x) · 2^20), 1/(fl(√s_x)·s_y) · 2^−20) + z_y

M rounds twice (``fixedpoint``). d fits 16 bits: (255 << 7)/2 · 2 < 2^15.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from calib8.errors import NoFormError
from calib8.fixedpoint import (
    INT32_MAX,
    INT32_MIN,
    Ints,
    encode_multiplier,
    multiply_double_rounding,
    rounding_divide_by_power_of_two,
    rounding_doubling_high_multiply,
)
from calib8.program.rules import Codes, ScaledSum
from calib8.program.slot import Slot

LEFT_SHIFT: Final = 7
"""Bits that the operands of a difference gain."""

ONE: Final = (1 << 30, 1)
"""Multiplier and shift of a factor of 1, which changes nothing."""

ROOT_SHIFT: Final = 20
"""Bits that the reciprocal of a root gains."""

ONE_AND_A_HALF: Final = (1 << 28) + (1 << 27)
"""In Q3.28, as the two constants below are."""

ROOT_OF_HALF: Final = 1518500250
"""√½ in Q0.31."""

STEPS: Final = 5
"""Of Newton's method."""


def difference_rule(a: Slot, b: Slot) -> ScaledSum:
    """How the difference of two tensors of int8 codes becomes a 16-bit number."""
    twice_max = 2.0 * max(a.scale, b.scale)
    lhs, rhs = encode_multiplier(a.scale / twice_max), encode_multiplier(b.scale / twice_max)
    return ScaledSum(LEFT_SHIFT, lhs, rhs, ONE)


def square_table(a: Slot, b: Slot, y: Slot) -> Codes:
    """int8 codes of the square of every difference, lowest first: [65536].

    Raises:
        NoFormError: the output's scale is too small, which LiteRT refuses.
    """
    twice_max = 2.0 * max(a.scale, b.scale)
    factor = twice_max * twice_max / ((1 << 2 * LEFT_SHIFT) * y.scale)
    if factor >= 1.0:
        raise NoFormError(f"the scale of its output, {y.scale:.6g}, is too small for those of its inputs")
    steps = np.arange(-(1 << 15), 1 << 15, dtype=np.int64)
    codes = multiply_double_rounding(np.minimum(steps * steps, INT32_MAX), *encode_multiplier(factor))
    return np.clip(codes + y.zero_point, -128, 127).astype(np.int8)


def reciprocal_root_table(x: Slot, y: Slot) -> Codes:
    """int8 codes of 1/√x for every int8 code, lowest first: [256]; the largest one for 0.

    Raises:
        NoFormError: codes below 0, which LiteRT refuses, or scales too far apart.
    """
    if x.zero_point != -128:
        raise NoFormError(f"its input has zero point {x.zero_point}: numbers below 0 have no root")
    root = np.sqrt(np.float32(x.scale)) * np.float32(y.scale)
    try:
        multiplier, shift = encode_multiplier(1.0 / float(root))
    except (ValueError, ZeroDivisionError) as error:
        raise NoFormError(f"scales {x.scale:.6g} → {y.scale:.6g} are too far apart") from error
    codes = [127]
    for value in range(1, 256):
        inverse, power = reciprocal_root(value)
        gained = multiply_double_rounding(1, inverse, power + ROOT_SHIFT)
        codes.append(int(multiply_double_rounding(gained, multiplier, shift - ROOT_SHIFT)) + y.zero_point)
    return np.clip(codes, -128, 127).astype(np.int8)


def reciprocal_root(value: int) -> tuple[int, int]:
    """Multiplier and shift of 1/√value for 1 ≤ value < 2^31; Newton's method in Q3.28 from 1 on."""
    if value == 1:
        return INT32_MAX, 0
    quarters = 0
    while value >= 1 << 29:
        value, quarters = value >> 2, quarters + 1
    pairs = (32 - value.bit_length() - 1) // 2 - 1
    half = int(rounding_divide_by_power_of_two(value << 2 * pairs >> 1, 1))
    x: Ints = np.asarray(1 << 28, np.int64)
    for _ in range(STEPS):
        square = rounding_doubling_high_multiply(x, x)
        cube = _shifted(rounding_doubling_high_multiply(square, x), 6)
        step = rounding_doubling_high_multiply(ONE_AND_A_HALF, x) - rounding_doubling_high_multiply(
            half, cube
        )
        x = _shifted(step, 3)
    multiplier, power = int(rounding_doubling_high_multiply(x, ROOT_OF_HALF)), 11 + quarters - pairs
    return (multiplier << max(-power, 0)), -max(power, 0)


def _shifted(x: Ints, bits: int) -> Ints:
    """To the left, saturated to int32."""
    result: Ints = np.clip(x << bits, INT32_MIN, INT32_MAX)
    return result
