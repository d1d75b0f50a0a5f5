"""Rounding parameters of Softmax.

    onnx      QLinearSoftmax of ONNX Runtime: e[i] = float32(exp(s_x·(i − 255) + shift)) with
              shift = max(0, fl(ln(fl(FLT_MAX / n))) − 5) for n classes, and floor(fl(1/s_y)); all e[i]
              times the largest 2^-k ≤ 1 with which no product of the two leaves float32
    tflite    gemmlowp's fixed point: multiplier and shift of s_x·2^26
    single    e[i] = round(2^24 · exp(s_x·(i − 255))), 1/s_y with 16 fraction bits

Zero points of the input cancel. ``ops.softmax`` says what is done with them.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calib8.errors import UnsupportedModelError
from calib8.fixedpoint import INT32_MAX, encode_multiplier
from calib8.program.rules import FixedSoftmax, Profile, SoftmaxRule, TableSoftmax
from calib8.qparams import QParams

INTEGER_BITS: Final = 5
"""Of the differences x − max, which are Q5.26."""

TABLE_BITS: Final = 24
"""Fraction bits of the exponentials of ``single``."""

FACTOR_BITS: Final = 16
"""Fraction bits of 1/s_y of ``single``."""

MAX_CLASSES: Final = 1 << 20
"""Σe < 2^44, so that Σe·2^(FACTOR_BITS + 1) and 2·e·factor stay below 2^62."""

MIN_OUTPUT_SCALE: Final = 2.0**-21


def softmax_rule(
    profile: Profile, x_scale: float, x_dtype: str, y: QParams, y_dtype: str, classes: int
) -> SoftmaxRule:
    """How a row of codes becomes shares of one.

    Args:
        profile: the rounding profile.
        x_scale, x_dtype: of the input; its zero point cancels.
        y, y_dtype: of the output.
        classes: length of the rows.

    Raises:
        ValueError: ``tflite`` and an output that is not 1/256 at the lowest code of its type.
        UnsupportedModelError: an input scale, output scale or number of classes out of range.
    """
    if profile == "onnx":
        return _float_table(x_scale, y.scale, classes)
    if profile == "single":
        return _integer_table(x_scale, y.scale, classes)
    if y.scale != 1 / 256 or y.zero_point != np.iinfo(y_dtype).min:
        raise ValueError("TFLite's Softmax has output scale 1/256 and the lowest code as zero point")
    return _fixed(x_scale)


def _float_table(x_scale: float, y_scale: float, classes: int) -> TableSoftmax:
    largest = float(np.finfo(np.float32).max / np.float32(classes))
    steps = max(0.0, float(np.float32(math.log(largest))) - 5.0) / x_scale
    table = np.array([math.exp((code - 255 + steps) * x_scale) for code in range(256)], np.float32)
    with np.errstate(over="ignore"):
        inverse = np.float32(1.0) / np.float32(y_scale)
    if not np.isfinite(inverse):
        raise _out_of_range(f"output scale {y_scale:.3g}")
    factor = float(np.floor(inverse))
    room = float(np.finfo(np.float32).max) / (float(table[-1]) * max(factor, 1.0))
    return TableSoftmax(np.ldexp(table, min(0, math.frexp(room)[1] - 1)), factor)


def _integer_table(x_scale: float, y_scale: float, classes: int) -> TableSoftmax:
    if classes > MAX_CLASSES:
        raise _out_of_range(f"{classes} classes (limit 2^20)")
    if y_scale < MIN_OUTPUT_SCALE:
        raise _out_of_range(f"output scale {y_scale:.3g} (limit 2^-21)")
    steps = range(-255, 1)
    table = [math.floor(math.exp(step * x_scale) * (1 << TABLE_BITS) + 0.5) for step in steps]
    factor = math.floor((1 << FACTOR_BITS) / y_scale + 0.5)
    return TableSoftmax(np.array(table, np.int32), factor, FACTOR_BITS)


def _fixed(x_scale: float) -> FixedSoftmax:
    factor = x_scale * 2.0 ** (31 - INTEGER_BITS)
    if factor <= 1.0:
        raise _out_of_range(f"input scale {x_scale:.3g} (limit 2^-26)")
    if factor >= 2.0**30:
        # one step down is e^-16 or less: only codes equal to the largest count
        return FixedSoftmax(INT32_MAX, 31, 0)
    multiplier, shift = encode_multiplier(factor)
    radius = ((1 << INTEGER_BITS) - 1) * 2.0 ** (31 - INTEGER_BITS - shift)
    return FixedSoftmax(multiplier, shift, -math.floor(radius))


def _out_of_range(what: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        "Softmax", f"{what} is out of its range", "Check the quantizers around it, or leave it in float"
    )
