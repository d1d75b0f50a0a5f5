"""Sums become codes: every rescale of the rules, as one formula each.

    FloatRescale   clip(rint(float32(acc) · factor[c]) + zero_point)              ties to even
    FixedRescale   clip(multiply(acc, multiplier[c], shift[c]) + zero_point)      roundings of fixedpoint
    FloatProduct   clip(rint(fl(fl(float32(acc) · factor) + zero_point)))         ties to even

In FloatProduct the zero point comes before the rounding, so that ties depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import multiply_double_rounding, multiply_rounding_away, multiply_single_rounding
from calib8.program.instructions import Requantize
from calib8.program.program import Slot
from calib8.program.reference.operand import Ints, Operand
from calib8.program.rules import FixedRescale, FloatProduct, FloatRescale

MULTIPLY: Final[Mapping[str, Callable[[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike], Ints]]] = {
    "double": multiply_double_rounding,
    "single": multiply_single_rounding,
    "away": multiply_rounding_away,
}


def requantize_sums(step: Requantize, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of the sums of a slot; per-channel factors belong to its last axis."""
    acc = operands[0].data.astype(np.int64)
    return rescale(acc, step.rescale, output.zero_point, step.low, step.high, output.dtype)


def rescale(
    acc: Ints,
    rule: FloatRescale | FixedRescale | FloatProduct,
    zero_point: int,
    low: int,
    high: int,
    dtype: str,
) -> npt.NDArray[Any]:
    """Codes of int32 sums.

    Args:
        acc: sums, int64 within int32, channels on the last axis.
        rule: the factors, one or one per channel.
        zero_point: of the output.
        low, high: clamp of the codes.
        dtype: of the codes, ``uint8`` or ``int8``.
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
