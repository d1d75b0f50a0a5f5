"""Rounding parameters of GroupNorm: what a channel with spread 1 is multiplied with, and what is added.

    onnx             factor = fl(scale / s_y),  offset = fl(bias / s_y),  ε = epsilon·n² / s_x² in float64
    tflite, single   multiplier = rint(scale / s_y · 2^shift) of 31 bits, offset likewise;  ε in whole numbers

Zero points of the input cancel. ``ops.group_norm`` says what is done with them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from calib8.errors import UnsupportedModelError
from calib8.ops.limits import LARGEST_GROUP
from calib8.program.rules import (
    F32,
    GROUP_FACTOR_MAX,
    I32,
    FixedGroupNorm,
    FloatGroupNorm,
    GroupNormRule,
    Profile,
    group_epsilon_bits,
)

MOST_EPSILON: Final = 1 << 62
MOST_SHIFT: Final = 126


def group_norm_rule(
    profile: Profile, count: int, x_scale: float, y_scale: float, scale: F32, bias: F32, epsilon: float
) -> GroupNormRule:
    """How codes of a group become codes of a group with mean 0 and spread 1, scaled and shifted.

    Args:
        profile: the rounding profile.
        count: codes of a group: pixels of an image times channels of the group.
        x_scale, y_scale: of the input and of the output; the input's zero point cancels.
        scale, bias: float32 [channels].
        epsilon: what is added to the variance, in squares of real numbers.

    Raises:
        UnsupportedModelError: groups, scales or parameters out of range.
    """
    if count > LARGEST_GROUP:
        raise _out_of_range(f"a group of {count} values (limit 2^23)")
    steps = epsilon * count * count / (x_scale * x_scale)
    if not 0 <= steps < np.inf:
        raise _out_of_range(f"epsilon {epsilon:.3g} at input scale {x_scale:.3g}")
    if profile == "onnx":
        return _float(y_scale, scale, bias, steps)
    return _fixed(y_scale, scale, bias, steps, group_epsilon_bits(count))


def _float(y_scale: float, scale: F32, bias: F32, epsilon: float) -> FloatGroupNorm:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        factor, offset = scale / np.float32(y_scale), bias / np.float32(y_scale)
    if not (np.abs(factor) <= GROUP_FACTOR_MAX).all():
        raise _out_of_range(f"its scale at output scale {y_scale:.3g}")
    if not np.isfinite(offset).all():
        raise _out_of_range(f"its bias at output scale {y_scale:.3g}")
    return FloatGroupNorm(factor, offset, epsilon)


def _fixed(y_scale: float, scale: F32, bias: F32, epsilon: float, bits: int) -> FixedGroupNorm:
    whole = np.floor(epsilon * (1 << bits) + 0.5)
    if whole > MOST_EPSILON:
        raise _out_of_range(f"an epsilon of {epsilon:.3g} steps of its input (limit 2^{62 - bits})")
    (multiplier, multiplier_shift), (offset, offset_shift) = (
        _normalized(array, y_scale, what) for array, what in ((scale, "scale"), (bias, "bias"))
    )
    return FixedGroupNorm(multiplier, multiplier_shift, offset, offset_shift, int(whole))


def _normalized(array: F32, y_scale: float, what: str) -> tuple[I32, I32]:
    """Numbers of 31 bits and how many of these are fraction bits, 1 … 126; below 2^−96 all are 0."""
    numbers = array.astype(np.float64) / y_scale
    if not (np.abs(numbers) < 1 << 30).all():
        raise _out_of_range(f"its {what} at output scale {y_scale:.3g}")
    shift = 31 - np.frexp(numbers)[1].astype(np.int64)
    shift -= np.abs(np.rint(np.ldexp(numbers, shift))) >= 1 << 31
    shift = np.where(numbers == 0, MOST_SHIFT, np.clip(shift, 1, MOST_SHIFT))
    return np.rint(np.ldexp(numbers, shift)).astype(np.int32), shift.astype(np.int32)


def _out_of_range(what: str) -> UnsupportedModelError:
    cure = "Check the quantizers around it, or leave it in float"
    return UnsupportedModelError("GroupNormalization", f"{what} is out of its range", cure)
