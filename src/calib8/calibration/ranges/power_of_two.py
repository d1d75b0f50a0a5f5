"""Scales that are powers of two: a range widened until its scale is one.

symmetric    T ≤ 2^i  →  scale 2^(i − (bits − 1)), range [−L s, L s],  L = 2^(bits−1) − 1
asymmetric   the smallest 2^n of which the codes, with a whole zero point, reach all of [min, max]
"""

from __future__ import annotations

import math

from calib8.qparams import QuantSpec
from calib8.table import Range


def power_of_two(chosen: Range, spec: QuantSpec) -> Range:
    """The range whose scale is a power of two; [0, 0] stays.

    Args:
        chosen: a range that holds 0.
        spec: how the tensor will be coded.
    """
    if chosen.magnitude == 0.0:
        return chosen
    if spec.symmetric:
        levels = spec.magnitude_levels
        mantissa, exponent = math.frexp(chosen.magnitude)
        if mantissa == 0.5 or chosen.magnitude == math.ldexp(levels - 1, exponent - spec.bits + 1):
            exponent -= mantissa == 0.5
        bound = math.ldexp(levels - 1, exponent - spec.bits + 1)
        return Range(-bound, bound)
    exponent = math.frexp((chosen.max - chosen.min) / (spec.qmax - spec.qmin))[1] - 1
    while True:
        scale = math.ldexp(1.0, exponent)
        below, above = math.ceil(-chosen.min / scale), math.ceil(chosen.max / scale)
        if below + above <= spec.qmax - spec.qmin:
            return Range(-below * scale, (spec.qmax - spec.qmin - below) * scale)
        exponent += 1
