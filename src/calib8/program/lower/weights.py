"""The integer constants of a layer: weight codes, their scales, and the bias in steps of s_x·s_w.

    x·W + b = s_x·s_w[o] · (Σ (q_x − z_x)(q_w − z_w[o]) + b_q[o]),      b_q = rint(b / (s_x·s_w[o]))

A bias whose codes have that scale already is taken as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.coded_array import CodedArray
from calib8.errors import NoFormError
from calib8.fixedpoint import INT32_MAX
from calib8.model.graph import constant
from calib8.program.lower.constants import coded_constant, fixed
from calib8.program.rules import F32, I32, Codes
from calib8.quantization.qdq import dequantizer

BIAS_SCALE_TOLERANCE: Final = 2.0**-21
"""Relative: what a few float32 roundings of s_x·s_w can differ by."""

LARGE_BIAS: Final = "its bias is too large for its sums"


@dataclass(frozen=True, eq=False)
class Weights:
    """Codes of a weight.

    Attributes:
        codes: axes as in the model.
        scales: float32 [1] or [output channels].
        zero_points: int32, of the same shape.
    """

    codes: Codes
    scales: F32
    zero_points: I32


def coded_weights(value: ir.Value | None, axis: int, groups: int = 1) -> Weights:
    """The 8-bit weight behind a DequantizeLinear.

    Args:
        value: the weight as the layer reads it.
        axis: its output-channel axis.
        groups: how often the scales of that axis repeat (a ConvTranspose lists one group's channels).

    Raises:
        NoFormError: there is none.
    """
    node, found = dequantizer(value), coded_constant(value)
    stored = None if node is None else constant(node.inputs[0])
    if stored is not None and stored.dtype not in (np.uint8, np.int8):
        raise NoFormError(f"its weight is {stored.dtype}")
    if found is None:
        raise NoFormError("its weight is computed" if fixed(value) is None else "its weight is not quantized")
    if found.axis is not None and found.axis != axis:
        raise NoFormError("its weight does not have one scale per output channel")
    scales, points = found.scale.reshape(-1), np.asarray(found.zero_point, np.int32).reshape(-1)
    if found.axis is None:
        return Weights(found.values, scales, points)
    return Weights(found.values, np.tile(scales, groups), np.tile(points, groups))


def sum_scales(input_scale: float, weights: Weights) -> F32:
    """What one step of the sums is worth: ``fl(s_x · s_w[o])``, [1] or [output channels]."""
    with np.errstate(over="ignore", under="ignore"):
        scales: F32 = np.float32(input_scale) * weights.scales
    return scales


def bias_steps(value: ir.Value | None, scales: F32, channels: int) -> I32:
    """The bias in steps of the sums, int32 [channels]; zeros without a bias.

    Raises:
        NoFormError: it is computed, of another shape or too large.
    """
    if value is None:
        return np.zeros(channels, np.int32)
    coded = coded_constant(value)
    array = fixed(value)
    if array is None:
        raise NoFormError("its bias is computed")
    if array.size != 1 and (array.size != channels or array.shape[-1] != channels):
        raise NoFormError("its bias is not one number per channel")
    if coded is not None and _same_steps(coded, scales):
        return np.broadcast_to(coded.values.reshape(-1), (channels,)).astype(np.int32)
    return in_steps(np.broadcast_to(array.reshape(-1), (channels,)), scales)


def _same_steps(bias: CodedArray, scales: F32) -> bool:
    """The codes of a bias are steps of the sums already."""
    if bias.values.dtype != np.int32 or np.any(bias.zero_point):
        return False
    return bool(np.allclose(bias.scale.reshape(-1), scales, rtol=BIAS_SCALE_TOLERANCE, atol=0.0))


def in_steps(values: npt.NDArray[Any], scales: F32) -> I32:
    """Float values per channel in steps of the sums.

    Raises:
        NoFormError: they are too large for int32.
    """
    with np.errstate(all="ignore"):
        steps = np.rint(values.astype(np.float64) / scales.astype(np.float64))
    if not np.all(np.abs(steps) <= INT32_MAX):
        raise NoFormError(LARGE_BIAS)
    return steps.astype(np.int32)
