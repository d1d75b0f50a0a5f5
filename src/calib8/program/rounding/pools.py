"""Rounding parameters of means: average pools, means and sums over axes.

mean      factor = s_x / (s_y · n),   n values
sum       factor = s_x / s_y
onnx      fl(s_x / fl(s_y · n)), as QLinearGlobalAveragePool has it; pools as FloatAverage says
tflite    the multiplier of s_x / s_y, divided by n in integers (tensorflow/lite reduce); pools of codes
single    the multiplier of the exact quotient
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from calib8.errors import UnsupportedModelError
from calib8.fixedpoint import encode_multiplier
from calib8.program.rules import (
    AverageRule,
    CodeAverage,
    FixedRescale,
    FloatAverage,
    FloatRescale,
    Profile,
    Rescale,
)
from calib8.qparams import QParams


def average_rule(profile: Profile, x: QParams, y: QParams, taps: int) -> AverageRule:
    """How the taps of a window become their mean.

    Args:
        profile: the rounding profile.
        x, y: scale and zero point of input and output.
        taps: values of a full window, ≥ 1.

    Raises:
        ValueError: ``tflite`` averages codes, so input and output must share scale and zero point.
        UnsupportedModelError: s_x/s_y is beyond every multiplier.
    """
    if profile == "onnx":
        return FloatAverage(x.scale, y.scale)
    if profile == "tflite":
        if x != y:
            raise ValueError("TFLite's AveragePool has the scale and zero point of its input")
        return CodeAverage()
    pairs = [_encode("AveragePool", x.scale / (y.scale * count)) for count in range(1, taps + 1)]
    multipliers, shifts = zip(*pairs, strict=True)
    return FixedRescale(np.array(multipliers, np.int32), np.array(shifts, np.int32), "single")


def mean_rule(
    profile: Profile, x_scale: float, y_scale: float, count: int, kind: Literal["mean", "sum"]
) -> Rescale:
    """How ``Σ (q − z_x)`` over ``count`` values becomes the code of their mean or sum.

    Raises:
        UnsupportedModelError: the factor is beyond every multiplier.
    """
    divisor = count if kind == "mean" else 1
    if profile == "onnx":
        with np.errstate(over="ignore", under="ignore"):
            factor = np.float32(x_scale) / (np.float32(y_scale) * np.float32(divisor))
        if not np.isfinite(factor):
            raise _too_far("Mean", x_scale / (y_scale * divisor))
        return FloatRescale(np.array([factor], np.float32))
    if profile == "single":
        return _fixed(*_encode("Mean", x_scale / (y_scale * divisor)), "single")
    multiplier, shift = _encode("Mean", x_scale / y_scale)
    bits = min(divisor.bit_length() - 1, 32, 31 + shift)
    return _fixed((multiplier << bits) // divisor, shift - bits, "double")


def _fixed(multiplier: int, shift: int, rounding: Literal["double", "single"]) -> FixedRescale:
    return FixedRescale(np.array([multiplier], np.int32), np.array([shift], np.int32), rounding)


def _encode(op: str, factor: float) -> tuple[int, int]:
    try:
        return encode_multiplier(factor)
    except ValueError:
        raise _too_far(op, factor) from None


def _too_far(op: str, factor: float) -> UnsupportedModelError:
    size = "inf" if math.isinf(factor) else f"{factor:.3g}"
    return UnsupportedModelError(
        op,
        f"input scale / (output scale · count) = {size} has no multiplier",
        "Check the scales of its quantizers; calibrate anew",
    )
