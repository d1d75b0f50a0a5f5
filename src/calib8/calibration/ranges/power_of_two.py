"""A chosen range as one whose scale is a power of two, for hardware that rescales by shifting.

symmetric    int_bits = ceil(log2 max|x|),  scale = 2^(int_bits − (bits − 1)),  range [−127, 127]·scale
asymmetric   the smallest scale 2^k with ceil(−min/2^k) + ceil(max/2^k) ≤ qmax − qmin,  range of all codes;
             zero point: the middle of those that reach both ends, or the end of the codes if a bound is 0

Exponents are read from the numbers themselves, so powers of two are met exactly: max|x| = 1 has int_bits 0
and scale 2^−7, whose largest code stands for 127/128. A symmetric scale therefore clips up to one step, as in
CMSIS-NN's q7 format; an asymmetric one clips nothing, except where its range would leave float32.
"""

from __future__ import annotations

import math

from calib8.qparams import FLOAT32_MAX, QuantSpec
from calib8.table import Range


def power_of_two(chosen: Range, spec: QuantSpec) -> Range:
    """The range whose scale is a power of two; ``activation_qparams`` gives back exactly that scale.

    Args:
        chosen: any range; it is widened to hold 0. [0, 0] stays as it is.
        spec: how the tensor will be coded.
    """
    widened = chosen.widened_to_zero()
    if widened.magnitude == 0.0:
        return widened
    if spec.symmetric:
        scale = math.ldexp(1.0, _exponent(widened.magnitude) - spec.bits + 1)
        steps = spec.magnitude_levels - 1
        return Range(-steps * scale, steps * scale)
    steps = spec.qmax - spec.qmin
    exponent = _exponent((widened.max - widened.min) / steps)
    while _steps(-widened.min, exponent) + _steps(widened.max, exponent) > steps:
        exponent += 1
    low, high = _ends(widened, exponent, steps)
    while max(-low, high) > FLOAT32_MAX:
        exponent -= 1
        low, high = _ends(widened, exponent, steps)
    return Range(low, high)


def _exponent(value: float) -> int:
    """ceil(log2 value) of a value > 0."""
    mantissa, exponent = math.frexp(value)
    return exponent - 1 if mantissa == 0.5 else exponent


def _steps(length: float, exponent: int) -> int:
    """Smallest number of steps of 2^exponent that reach so far."""
    return math.ceil(math.ldexp(length, -exponent))


def _ends(widened: Range, exponent: int, steps: int) -> tuple[float, float]:
    """Real values of the first and last code at this scale."""
    if widened.min == 0.0:
        below = 0
    elif widened.max == 0.0:
        below = steps
    else:
        needed = _steps(-widened.min, exponent)
        slack = steps - needed - _steps(widened.max, exponent)
        below = min(max(needed + slack // 2, 0), steps)
    return 0.0 - math.ldexp(float(below), exponent), math.ldexp(float(steps - below), exponent)
