"""Sums become codes: every rescale of the rules, as one formula each.

    FloatRescale   clip(rint(float32(acc) · factor[c]) + zero_point)              ties to even
    FixedRescale   clip(multiply(acc, multiplier[c], shift[c]) + zero_point)      roundings of fixedpoint
    FloatProduct   clip(rint(fl(fl(float32(acc) · factor) + zero_point)))         ties to even
    TwoSidedRescale, CurveRescale                                                 behind layers, in ``rules``

In FloatProduct the zero point comes before the rounding, so that ties depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import multiply_double_rounding, multiply_rounding_away, multiply_single_rounding
from calib8.program.ops.operand import Ints
from calib8.program.rules import (
    CURVE_FRACTION_BITS,
    CURVE_SEGMENTS,
    CURVE_WIDE_SHIFT,
    CurveRescale,
    FixedRescale,
    FloatProduct,
    FloatRescale,
    LayerRescale,
    TwoSidedRescale,
)
from calib8.program.slot import WIDE_TYPE

INT16_MIN, INT16_MAX = -(1 << 15), (1 << 15) - 1

MULTIPLY: Final[Mapping[str, Callable[[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike], Ints]]] = {
    "double": multiply_double_rounding,
    "single": multiply_single_rounding,
    "away": multiply_rounding_away,
}


def layer_codes(
    acc: Ints, rule: LayerRescale, zero_point: int, low: int, high: int, dtype: str
) -> npt.NDArray[Any]:
    """Codes of a layer's sums, with the function that its rule has; arguments as those of ``rescale``."""
    if isinstance(rule, TwoSidedRescale):
        above, below = (
            rescale(acc, side, zero_point, low, high, dtype) for side in (rule.positive, rule.negative)
        )
        return np.where(acc >= 0, above, below)
    if isinstance(rule, CurveRescale):
        steps = rescale(acc, rule.steps, 0, INT16_MIN, INT16_MAX, "int16").astype(np.int64)
        values = curve_values(steps, rule)
        wide = dtype == WIDE_TYPE
        codes = values << CURVE_WIDE_SHIFT if wide else values >> CURVE_FRACTION_BITS
        return clipped(codes + np.iinfo(dtype).min, low, high, dtype)
    return rescale(acc, rule, zero_point, low, high, dtype)


def curve_values(v: Ints, rule: CurveRescale) -> Ints:
    """What a curve makes of 16-bit steps: codes above the lowest one.

    8-bit codes with 6 more bits and half a code, or 16-bit codes by four.
    """
    start = rule.first << rule.shift
    u = np.clip(v, start, start + (CURVE_SEGMENTS << rule.shift) - 1)
    segment = u >> rule.shift
    distance = (u - (segment << rule.shift)) << (15 - rule.shift)
    value, slope, bend = (
        row.astype(np.int64)[segment - rule.first] for row in (rule.value, rule.slope, rule.bend)
    )
    inside = _saturated(value + _product(_product(bend, distance) + slope, distance))
    beyond = _saturated(v - u)
    return _saturated(inside + _product(beyond, np.where(beyond > 0, rule.above, rule.below)))


def _product(a: Ints, b: Ints) -> Ints:
    """Of a number and parts of 2^15, rounded; ties up."""
    result: Ints = (a * b + (1 << 14)) >> 15
    return result


def _saturated(values: Ints) -> Ints:
    return np.clip(values, INT16_MIN, INT16_MAX)


def rescale(
    acc: Ints,
    rule: FloatRescale | FixedRescale | FloatProduct,
    zero_point: int,
    low: int,
    high: int,
    dtype: str,
) -> npt.NDArray[Any]:
    """Codes of sums.

    Args:
        acc: sums, int64 within int32 or, of what reads 16-bit codes, within 41 bits; channels on the last
            axis.
        rule: the factors, one or one per channel.
        zero_point: of the output.
        low, high: clamp of the codes.
        dtype: of the codes, or ``int16`` for the steps of a curve.
    """
    if acc.ndim == 0:  # an array of one factor would make an axis of it
        return rescale(acc[None], rule, zero_point, low, high, dtype)[0, ...]
    if isinstance(rule, FixedRescale):
        codes = MULTIPLY[rule.rounding](acc, rule.multiplier, rule.shift) + zero_point
        return clipped(codes, low, high, dtype)
    with np.errstate(over="ignore"):  # an infinite product is clipped
        scaled = acc.astype(np.float32) * np.asarray(rule.factor, np.float32)
    if isinstance(rule, FloatProduct):
        return clipped(np.rint(scaled + np.float32(zero_point)), low, high, dtype)
    steps = np.clip(np.rint(scaled), low - zero_point, high - zero_point)
    return clipped(steps.astype(np.int32) + zero_point, low, high, dtype)


def clipped(codes: npt.NDArray[Any], low: int, high: int, dtype: str) -> npt.NDArray[Any]:
    """Whole numbers (int or float, no NaN) clamped to ``low`` … ``high``, as codes."""
    result: npt.NDArray[Any] = np.clip(codes, low, high).astype(dtype)
    return result
