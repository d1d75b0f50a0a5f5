"""Rounding parameters of LayerNorm: what a row with spread 1 is multiplied with, and what is added.

    onnx             factor = fl(scale / s_y),  offset = fl(bias / s_y),  ε = epsilon·n² / s_x² in float64
    tflite, single   multiplier = rint(scale / s_y · 2^(h − 22)),  offset = rint(bias / s_y · 2^(h − 30)),
                     h the largest shift up to 62 with which both stay below 2^31;  ε with 16 fraction bits

Zero points of the input cancel. ``ops.layer_norm`` says what is done with them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.errors import UnsupportedModelError
from calib8.fixedpoint import INT32_MAX
from calib8.ops.limits import LONGEST_ROW, LONGEST_ROW_AROUND_0
from calib8.program.rules import (
    F32,
    NORM_EPSILON_BITS,
    NORM_OFFSET_BITS,
    NORM_VALUE_BITS,
    FixedNorm,
    FloatNorm,
    NormRule,
    Profile,
)

MOST_SHIFT: Final = 62
MOST_EPSILON: Final = 1 << 62


def norm_rule(
    profile: Profile,
    x_scale: float,
    y_scale: float,
    scale: F32,
    bias: F32,
    epsilon: float,
    *,
    centred: bool = True,
) -> NormRule:
    """How rows of codes become codes of rows with mean 0 and spread 1, scaled and shifted.

    Args:
        profile: the rounding profile.
        x_scale, y_scale: of the input and of the output; the input's zero point cancels.
        scale, bias: float32 [channels].
        epsilon: what is added to the variance, or to the mean square, in squares of real numbers.
        centred: the mean is subtracted; else rows may be half as long.

    Raises:
        UnsupportedModelError: rows, scales or parameters out of range.
    """
    count = scale.size
    limit = LONGEST_ROW if centred else LONGEST_ROW_AROUND_0
    if count > limit:
        raise _out_of_range(f"a row of {count} values (limit 2^{limit.bit_length() - 1})")
    steps = epsilon * count * count / (x_scale * x_scale)
    if not 0 <= steps < np.inf:
        raise _out_of_range(f"epsilon {epsilon:.3g} at input scale {x_scale:.3g}")
    if profile == "onnx":
        return _float(y_scale, scale, bias, steps)
    return _fixed(y_scale, scale, bias, steps)


def _float(y_scale: float, scale: F32, bias: F32, epsilon: float) -> FloatNorm:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        factor, offset = scale / np.float32(y_scale), bias / np.float32(y_scale)
    for array, what in ((factor, "scale"), (offset, "bias")):
        if not np.isfinite(array).all():
            raise _out_of_range(f"its {what} at output scale {y_scale:.3g}")
    return FloatNorm(factor, offset, epsilon)


def _fixed(y_scale: float, scale: F32, bias: F32, epsilon: float) -> FixedNorm:
    whole = np.floor(epsilon * (1 << NORM_EPSILON_BITS) + 0.5)
    if whole > MOST_EPSILON:
        raise _out_of_range(f"an epsilon of {epsilon:.3g} steps of its input (limit 2^46)")
    factors, offsets = (array.astype(np.float64) / y_scale for array in (scale, bias))
    shift = np.minimum(_room(factors) + NORM_VALUE_BITS, _room(offsets) + NORM_OFFSET_BITS)
    shift = np.minimum(shift, MOST_SHIFT)
    if shift.min() < 1:
        raise _out_of_range(f"its scale or bias at output scale {y_scale:.3g}")
    return FixedNorm(
        np.rint(np.ldexp(factors, shift - NORM_VALUE_BITS)).astype(np.int32),
        np.rint(np.ldexp(offsets, shift - NORM_OFFSET_BITS)).astype(np.int32),
        shift.astype(np.int32),
        int(whole),
    )


def _room(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """By how many bits each may be shifted to the left so that, rounded, it stays below 2^31.

    Of 0: as many as there may be. Of what is not finite: so few that no shift is left.
    """
    finite = np.isfinite(numbers)
    known = np.where(finite, numbers, 1.0)
    room = 31 - np.frexp(known)[1].astype(np.int64)
    room -= np.abs(np.rint(np.ldexp(known, room))) > INT32_MAX
    room = np.where(numbers == 0, MOST_SHIFT, room)
    return np.where(finite, room, -MOST_SHIFT)


def _out_of_range(what: str) -> UnsupportedModelError:
    cure = "Check the quantizers around it, or leave it in float"
    return UnsupportedModelError("LayerNormalization", f"{what} is out of its range", cure)
