"""Rounding parameters of a layer with LeakyRelu or PRelu behind it: factors of either side of zero.

factor[c] = s_x·s_w[c] / s_y   from 0 on          slope[c] · s_x·s_w[c] / s_y   below
"""

from __future__ import annotations

import numpy as np

from calib8.errors import UnsupportedModelError
from calib8.fixedpoint import encode_multipliers
from calib8.program.rounding.linear import layer_rescale, multiplier_bits
from calib8.program.rules import F32, FixedRescale, FloatRescale, Profile, Rescale, TwoSidedRescale


def two_sided_rescale(
    profile: Profile,
    input_scale: float,
    weight_scales: F32,
    slopes: F32,
    output_scale: float,
    *,
    fully_connected: bool = False,
    wide_sums: int | None = None,
) -> TwoSidedRescale | None:
    """The rule; None where a factor is too large to be encoded.

    Args:
        profile: the rounding rules.
        input_scale: s_x.
        weight_scales: s_w, [1] or [output channels].
        slopes: below 0, [1] or [output channels], finite, of any sign.
        output_scale: s_y.
        fully_connected, wide_sums: as ``layer_rescale`` takes them.
    """
    try:
        positive = layer_rescale(
            profile,
            input_scale,
            weight_scales,
            output_scale,
            fully_connected=fully_connected,
            wide_sums=wide_sums,
        )
        bits = multiplier_bits(wide_sums)
        negative = _below(positive, input_scale, weight_scales, slopes, output_scale, bits)
    except (UnsupportedModelError, ValueError):
        return None
    return None if negative is None else TwoSidedRescale(positive, negative)


def _below(
    positive: Rescale, input_scale: float, weight_scales: F32, slopes: F32, output_scale: float, bits: int
) -> Rescale | None:
    if isinstance(positive, FloatRescale):
        with np.errstate(over="ignore", under="ignore"):
            factor = np.float32(input_scale) * weight_scales * slopes / np.float32(output_scale)
        return FloatRescale(factor.astype(np.float32)) if np.isfinite(factor).all() else None
    exact = float(input_scale) * weight_scales.astype(np.float64) * slopes.astype(np.float64) / output_scale
    multiplier, shift = encode_multipliers(np.abs(exact), bits)
    return FixedRescale(np.where(exact < 0, -multiplier, multiplier), shift, positive.rounding)
