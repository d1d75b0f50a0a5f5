"""What LiteRT's kernels of 16-bit activations and 8-bit weights compute: layers, sums, products, two curves.

    convolutions       (acc·m + 2^(14 − shift)) >> (15 − shift)      m: a multiplier rounded to 15 bits
    dense layers       the nearest of acc · multiplier · 2^(shift − 31), ties away from zero
    ADD, SUB           TFLite's Add with 15 bits gained in place of 20
    MUL, QUANTIZE      ``double``, as of 8-bit codes

All zero points are 0. LOGISTIC and TANH interpolate between 256 values of a logistic function:

    v = (q·multiplier + 2^(shift − 1)) >> shift              real: q·s_x ≈ v / (3·2^12)
    T[i] = round(2^16·(σ(i/24) + |σ''(i/24)|/(16·24²)))       a straight line lies below the curve
    LOGISTIC   y = (T[i]·2^9 + r·(T[i + 1] − T[i]) + 2^9) >> 10,            |v| = 2^9·i + r
    TANH       y = (T[i]·2^8 + r·(T[i + 1] − T[i]) − 2^23 + 2^7) >> 8,      |v| = 2^8·i + r

for v ≥ 0, and one step below its mirror image where a tie is rounded for v < 0.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.fixedpoint import Ints, encode_multiplier, encode_multipliers
from calib8.program.rules import F32, I16, FixedRescale, ScaledSum
from calib8.qparams import QParams

REDUCED_BITS: Final = 15
"""Of the multipliers of convolutions."""

ROOM_BITS: Final = 22
"""A reduced multiplier is stored with so many: zeros at its end change nothing."""

ADD_LEFT_SHIFT: Final = 15
"""Bits that ADD gains before it scales its 16-bit inputs."""

OUTPUT_SCALE: Final = 2.0**-15
"""Of LOGISTIC and TANH."""

CURVE_STEPS: Final = 24
"""Table entries of a logistic function from one whole number to the next."""

INPUT_STEPS: Final = 4096
"""Steps of an input as the curves' tables have it, from one whole number to the next, times three."""


def reduced_rescale(input_scale: float, weight_scales: F32, output_scale: float) -> FixedRescale:
    """How the sums of a convolution that reads 16-bit codes become 16-bit codes.

    Args:
        input_scale, output_scale: s_x and s_y.
        weight_scales: [1] or [output channels].

    Raises:
        NoFormError: a factor is too large.
    """
    factors = float(input_scale) * weight_scales.astype(np.float64) / float(output_scale)
    try:
        multiplier, shift = encode_multipliers(factors)
    except ValueError as error:
        raise NoFormError(str(error)) from error
    reduced = np.minimum((multiplier.astype(np.int64) + (1 << 15)) >> 16, (1 << REDUCED_BITS) - 1)
    stored = (reduced << (ROOM_BITS - REDUCED_BITS)).astype(np.int32)
    shift = np.where(stored == 0, 0, shift + (31 - ROOM_BITS)).astype(np.int32)
    if int(shift.max(initial=0)) > 30:
        raise NoFormError(f"one step of its sums is {factors.max():.3g} steps of its output")
    return FixedRescale(stored, shift, "single")


def wide_sum_rule(a: QParams, b: QParams, y: QParams) -> ScaledSum:
    """How two tensors of 16-bit codes are added or subtracted.

    Raises:
        NoFormError: the input scales are too large beside the output's.
    """
    twice_max = 2.0 * max(a.scale, b.scale)
    try:
        output = encode_multiplier(twice_max / ((1 << ADD_LEFT_SHIFT) * y.scale))
    except ValueError as error:
        raise NoFormError(str(error)) from error
    lhs, rhs = encode_multiplier(a.scale / twice_max), encode_multiplier(b.scale / twice_max)
    return ScaledSum(ADD_LEFT_SHIFT, lhs, rhs, output)


def logistic_table(input_scale: float) -> I16:
    """Codes of the logistic function for every code of the input, lowest first: [65536], scale 1/32768."""
    v = _curve_input(input_scale, (0,))
    result = np.where(np.abs(v) >> 9 >= 255, ((1 << 15) - 1) << 10, _between(np.abs(v), 9))
    codes = np.where(v >= 0, result + (1 << 9), (1 << 25) - result + (1 << 9) - 1) >> 10
    return codes.astype(np.int16)


def tanh_table(input_scale: float) -> I16:
    """Codes of the hyperbolic tangent for every code of the input, lowest first: [65536], scale 1/32768."""
    v = _curve_input(input_scale, (0, 1))
    result = np.where(np.abs(v) >> 8 >= 255, ((1 << 16) - 1) << 8, _between(np.abs(v), 8)) - (1 << 23)
    codes = np.where(v >= 0, result + (1 << 7), -result + (1 << 7) - 1) >> 8
    return codes.astype(np.int16)


def _curve_input(scale: float, powers: tuple[int, ...]) -> Ints:
    """v for every code; scales of 2^(power − 12) for one of the ``powers`` are multiplied exactly."""
    codes = np.arange(-(1 << 15), 1 << 15, dtype=np.int64)
    fraction, exponent = math.frexp(scale)
    power = exponent - 1 + INPUT_STEPS.bit_length() - 1
    if fraction == 0.5 and power in powers:
        return codes * (3 << power)
    factor, shift = scale * INPUT_STEPS * 3.0, 0
    while factor <= ((1 << 15) - 1) / 2.0 and shift <= 30:
        factor, shift = factor * 2.0, shift + 1
    rounding = 1 << (shift - 1) if shift else 0
    result: Ints = (codes * int(factor) + rounding) >> shift
    return result


def _curve_values() -> Ints:
    """T, uint16 numbers."""
    i = np.arange(256) / CURVE_STEPS
    logistic = 1.0 / (1.0 + np.exp(-i))
    bend: npt.NDArray[np.float64] = logistic * (1.0 - logistic) * (2.0 * logistic - 1.0)
    values = np.rint((1 << 16) * (logistic + bend / (16 * CURVE_STEPS**2))).astype(np.int64)
    values[-1] = (1 << 16) - 1
    return values


def _between(magnitude: Ints, bits: int) -> Ints:
    values = _curve_values()
    place = np.minimum(magnitude >> bits, 254)
    rest = magnitude & ((1 << bits) - 1)
    result: Ints = (values[place] << bits) + rest * (values[place + 1] - values[place])
    return result
