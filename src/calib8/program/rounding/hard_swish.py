"""TFLite's HardSwish in 16 bits: ``y = x · relu6(x + 3) / 6`` (tensorflow/lite reference/hard_swish.h).

    v = 128·(q − z_x)                                  the input with 7 more bits
    p = v · m_o                                        v in steps of the output, before its shift
    r = ((v · m_r · 2^e_r saturated) + 2^15) / 2       relu6(x + 3) / 6 with 15 fraction bits
    y = r·p / 2^15 / 2^−e_o                            truncated, then rounded, ties away from zero

m_o·2^e_o = s_x/128 / s_y and m_r·2^e_r = s_x/128 / (3/32768), multipliers of 15 fraction bits.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from calib8.fixedpoint import Ints, encode_multiplier, rounding_divide_by_power_of_two

INT16_MIN: Final = -(1 << 15)
INT16_MAX: Final = (1 << 15) - 1


def hard_swish_steps(steps: Ints, source_scale: float, target_scale: float) -> Ints | None:
    """Output codes minus zero point, not yet clipped; None where the scales are too far apart for 16 bits.

    Args:
        steps: input codes minus zero point, −255 … 255.
        source_scale, target_scale: float32 values; 128·target must exceed source.
    """
    with np.errstate(over="ignore", under="ignore"):
        fine = np.float32(source_scale) * np.float32(1.0 / 128.0)
        output_factor = float(fine / np.float32(target_scale))
        relu_factor = float(fine / (np.float32(3.0) / np.float32(32768.0)))
    if not (output_factor < 1.0 and relu_factor < 2.0**30):
        return None
    output, output_shift = encode_multiplier(output_factor)
    if output_shift > 0:
        return None
    values = steps * 128
    scaled = _multiply16(values, _upper_half(output))
    gate = (_gate(values, *encode_multiplier(relu_factor)) + (1 << 15)) >> 1
    product = gate * scaled
    truncated = np.sign(product) * (np.abs(product) >> 15)
    return _divide16(truncated, -output_shift)


def _gate(values: Ints, multiplier: int, shift: int) -> Ints:
    """x / 3 with 15 fraction bits, saturated to [−1, 1)."""
    factor = _upper_half(multiplier)
    if shift > 0:
        # the last doubling comes after the product: it saves a bit there
        return _saturate16(_multiply16(_saturate16(values << min(shift - 1, 16)), factor) << 1)
    return _divide16(_multiply16(values, factor), -shift)


def _upper_half(multiplier: int) -> int:
    return min((multiplier + (1 << 15)) >> 16, INT16_MAX)


def _multiply16(a: Ints, b: int) -> Ints:
    """Doubling high product of 16-bit numbers: ``(a·b + 2^14) >> 15``."""
    return (a * b + (1 << 14)) >> 15


def _divide16(x: Ints, exponent: int) -> Ints:
    """RDPOT of 16-bit numbers; from 2^16 on its mask of 16 bits is −1, and the result ±1 in place of 0."""
    if exponent < 16:
        return rounding_divide_by_power_of_two(x, exponent)
    return np.where(x < 0, np.int64(-1), np.int64(1))


def _saturate16(x: Ints) -> Ints:
    result: Ints = np.clip(x, INT16_MIN, INT16_MAX)
    return result
