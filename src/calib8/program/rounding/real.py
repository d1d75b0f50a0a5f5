"""Tables of profile ``tengine``: what one code becomes by way of the real number, as in Tengine's kernels.

    y = clip(round(fl(f(fl(s_x·q)) / s_y)), −127, 127)      float32, ties away from zero

A quotient that no int32 holds, or that is no number, becomes −127: so x86 converts it. ``f`` of a float32
number is computed in float64 where Tengine calls the C library, and rounded to float32.
Source: OAID Tengine, ``source/device/cpu/op`` (relu, prelu, sigmoid, clip, eltwise, softmax, concat).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.real import rounded_away
from calib8.program.rules import F32, RealSoftmax

I8 = npt.NDArray[np.int8]
Wide = npt.NDArray[np.int64]
Function = Callable[[F32], F32]

MOST: Final = 127
"""Codes are −127 … 127."""

INT32_ENDS: Final = np.float32(2.0**31)


def codes_of_all() -> npt.NDArray[np.float32]:
    """−128 … 127."""
    return np.arange(-128, 128).astype(np.float32)


def real_steps(values: F32, scale: float) -> Wide:
    """``round(fl(value / scale))`` as int32; INT32_MIN for what does not fit."""
    with np.errstate(all="ignore"):
        steps = rounded_away(np.asarray(values / np.float32(scale), np.float32))
    fits = np.abs(steps) < INT32_ENDS
    return np.where(fits, steps, -INT32_ENDS).astype(np.int64)


def real_table(function: Function, x_scale: float, y_scale: float) -> I8:
    """[256] or [channels, 256] codes of a function, the lowest code first.

    Args:
        function: of the real numbers of all codes, [256].
        x_scale, y_scale: of input and output.
    """
    with np.errstate(all="ignore"):
        values = function(codes_of_all() * np.float32(x_scale))
    return clipped_codes(real_steps(values, y_scale))


def scaled_table(factor: np.float32) -> I8:
    """Codes times a factor: ``clip(round(fl(q·factor)))``."""
    with np.errstate(all="ignore"):
        return clipped_codes(real_steps(codes_of_all() * factor, 1.0))


def joined_table(factor: np.float32) -> I8:
    """The same as Tengine's Concat has it: what lies below −127 becomes 127."""
    with np.errstate(all="ignore"):
        steps = real_steps(codes_of_all() * factor, 1.0)
    return np.where(steps < -MOST, MOST, np.minimum(steps, MOST)).astype(np.int8)


def wrapped_table(function: Function, x_scale: float, y_scale: float) -> I8:
    """A table of Tengine's Clip, which cuts off at 255 and keeps the lowest eight bits."""
    with np.errstate(all="ignore"):
        values = function(codes_of_all() * np.float32(x_scale))
    return np.minimum(real_steps(values, y_scale), 255).astype(np.int8)


def clipped_codes(steps: Wide) -> I8:
    """−127 … 127."""
    return np.clip(steps, -MOST, MOST).astype(np.int8)


def by_library(function: Callable[[float], float]) -> Function:
    """A function of the C library over float64, its results rounded to float32."""

    def apply(values: F32) -> F32:
        return np.array([_safe(function, float(value)) for value in values], np.float64).astype(np.float32)

    return apply


def _safe(function: Callable[[float], float], value: float) -> float:
    try:
        return function(value)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def softmax_table(x_scale: float) -> RealSoftmax:
    """Exponentials of ``fl(fl(s_x·q) − fl(s_x·largest))``, by largest code and code."""
    real = codes_of_all() * np.float32(x_scale)
    below = np.minimum(real[None, :] - real[:, None], np.float32(0))
    table = np.array([math.exp(value) for value in below.ravel().tolist()], np.float32)
    return RealSoftmax(table.reshape(below.shape))
