"""Where the output pixels of a Resize lie in the input: ONNX's coordinates in ONNX Runtime's float32 order.

    asymmetric              x = i / s
    half_pixel              x = (i + 0.5) / s − 0.5
    pytorch_half_pixel      half_pixel, 0 if there is one output pixel
    half_pixel_symmetric    half_pixel + in/2 · (1 − out / (s · in)),   the last sum in float64
    align_corners           x = i · (in − 1) / (out − 1), 0 if there is one output pixel
    tf_half_pixel_for_nn    x = (i + 0.5) / s

TFLite's bilinear resize steps in 1/1024 of a pixel instead (tensorflow/lite resize_bilinear.h):

    step = (1024·in + out div 2) div out,   x = i·step  (+ step div 2 − 512 if half_pixel)
    align_corners: in − 1 and out − 1 instead

and of uint8 codes in float32: x = i·s or (i + 1/2)·s − 1/2, s = fl(in / out) or fl((in − 1) / (out − 1)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, Literal

import numpy as np

from calib8.errors import UnsupportedModelError
from calib8.program.rules import F32, I32, LinearAxis, Profile

FRACTION_BITS: Final = 10
"""Of the weights of ``tflite`` and ``single``."""

TIE: Final = np.float32(1e-6)
"""So close to the middle of two pixels a position counts as the middle, as in ONNX Runtime 1.31."""

COORDINATE_MODES: Final = (
    "asymmetric",
    "half_pixel",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
    "align_corners",
    "tf_half_pixel_for_nn",
)
"""ONNX's coordinate_transformation_mode, but for tf_crop_and_resize."""


def nearest_indices(input_size: int, output_size: int, scale: float, mode: str, nearest_mode: str) -> I32:
    """Index of the input pixel that each output pixel repeats, along one axis.

    Args:
        input_size, output_size: of the axis, ≥ 1.
        scale: as the node states it, or ``output_size / input_size`` in float32.
        mode: one of ``COORDINATE_MODES``.
        nearest_mode: ``round_prefer_floor``, ``round_prefer_ceil``, ``floor`` or ``ceil``.

    Raises:
        UnsupportedModelError: an unknown mode.
    """
    x = _coordinates(input_size, output_size, scale, mode)
    if np.float32(scale) == 1:
        return np.minimum(np.arange(output_size), input_size - 1).astype(np.int32)
    if nearest_mode not in _NEAREST:
        raise _unknown("nearest_mode", nearest_mode)
    indices = _NEAREST[nearest_mode](x).astype(np.int64)
    return np.clip(indices, 0, input_size - 1).astype(np.int32)


def linear_axis(profile: Profile, input_size: int, output_size: int, scale: float, mode: str) -> LinearAxis:
    """Both neighbours of each output pixel along one axis, and how far it lies towards the higher one.

    Args: as for ``nearest_indices``.

    Raises:
        UnsupportedModelError: an unknown mode.
    """
    if profile == "tflite":
        return _fixed_point_axis(input_size, output_size, scale, mode)
    x = np.clip(_coordinates(input_size, output_size, scale, mode), np.float32(0), np.float32(input_size - 1))
    low = np.minimum(x.astype(np.int64), input_size - 1)
    high = np.minimum(low + 1, input_size - 1)
    fraction = np.where(low == high, np.float32(0.5), x - low.astype(np.float32)).astype(np.float32)
    if profile == "onnx":
        return LinearAxis(low.astype(np.int32), high.astype(np.int32), fraction, "even")
    fixed = np.floor(fraction.astype(np.float64) * (1 << FRACTION_BITS) + 0.5).astype(np.int32)
    return LinearAxis(low.astype(np.int32), high.astype(np.int32), fixed, "up")


def _coordinates(input_size: int, output_size: int, scale: float, mode: str) -> F32:
    """float32 positions of the output pixels in the input, not yet limited to it."""
    if mode not in COORDINATE_MODES:
        raise _unknown("coordinate_transformation_mode", mode)
    half, one = np.float32(0.5), np.float32(1.0)
    s, i = np.float32(scale), np.arange(output_size, dtype=np.float32)
    inputs, outputs = np.float32(input_size), np.float32(output_size)
    if s == one:
        return i
    if mode == "asymmetric":
        return i / s
    if mode == "tf_half_pixel_for_nn":
        return (i + half) / s
    if mode == "half_pixel_symmetric":
        offset = inputs / np.float32(2.0) * (one - outputs / (s * inputs))
        x = np.float64(offset) + (i.astype(np.float64) + 0.5) / np.float64(s) - 0.5
        return x.astype(np.float32)
    if output_size == 1 and mode != "half_pixel":
        return np.zeros(1, np.float32)
    if mode == "align_corners":
        return i * (inputs - one) / (outputs - one)
    return (i + half) / s - half


def _fixed_point_axis(input_size: int, output_size: int, scale: float, mode: str) -> LinearAxis:
    """TFLite's steps of 1/1024; modes that TFLite does not have shift them by a constant."""
    if mode == "align_corners":
        step = _step(input_size - 1, output_size - 1) if output_size > 1 else 0
    elif np.float32(output_size) / np.float32(input_size) == np.float32(scale):
        step = _step(input_size, output_size)
    else:
        step = math.floor((1 << FRACTION_BITS) / scale + 0.5)
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and output_size > 1):
        offset = step // 2 - (1 << (FRACTION_BITS - 1))
    else:
        start = float(_coordinates(input_size, output_size, scale, mode)[0])
        offset = math.floor(start * (1 << FRACTION_BITS) + 0.5)
    x = np.arange(output_size, dtype=np.int64) * step + offset
    low = np.clip(x >> FRACTION_BITS, 0, input_size - 1)
    high = np.clip((x + (1 << FRACTION_BITS) - 1) >> FRACTION_BITS, low, input_size - 1)
    fraction = np.where(low == high, 0, x - (low << FRACTION_BITS))
    return LinearAxis(low.astype(np.int32), high.astype(np.int32), fraction.astype(np.int32), "away")


def float_axis(input_size: int, output_size: int, scale: np.float32, *, half_pixel: bool) -> LinearAxis:
    """Neighbours and fractions of TFLite's bilinear resize of uint8 codes.

    Args:
        input_size, output_size: of the axis, ≥ 1.
        scale: input pixels per output pixel.
        half_pixel: pixels are sampled in their middle.
    """
    half, i = np.float32(0.5), np.arange(output_size, dtype=np.float32)
    x = (i + half) * scale - half if half_pixel else i * scale
    low = np.clip(np.floor(x), 0, input_size - 1)
    high = np.clip(np.ceil(x), 0, input_size - 1)
    fraction: F32 = (x - low).astype(np.float32)
    return LinearAxis(low.astype(np.int32), high.astype(np.int32), fraction, "float_up")


def _step(inputs: int, outputs: int) -> int:
    return ((inputs << FRACTION_BITS) + outputs // 2) // outputs


def _half_up(x: F32) -> F32:
    fraction = x - np.floor(x)
    return np.where(np.abs(fraction - np.float32(0.5)) < TIE, np.ceil(x), np.floor(x + np.float32(0.5)))


def _half_down(x: F32) -> F32:
    fraction = x - np.floor(x)
    return np.where(np.abs(fraction - np.float32(0.5)) < TIE, np.floor(x), np.floor(x + np.float32(0.5)))


_NEAREST: Final[Mapping[str, Callable[[F32], F32]]] = {
    "round_prefer_floor": _half_down,
    "round_prefer_ceil": _half_up,
    "floor": np.floor,
    "ceil": np.ceil,
}


def _unknown(
    attribute: Literal["coordinate_transformation_mode", "nearest_mode"], value: str
) -> UnsupportedModelError:
    known = COORDINATE_MODES if attribute == "coordinate_transformation_mode" else tuple(_NEAREST)
    return UnsupportedModelError(
        "Resize", f"{attribute} {value!r} is not supported", f"Use {', '.join(known)}"
    )
