"""Layers: exact integer sums of products, then one rescale.

    Conv             acc[n, i, j, o] = Σ x'[n, i·s + h·d − top, j·s + w·d − left, c] · w'[o, h, w, c]
    DepthwiseConv    the same, one input channel per output channel
    ConvTranspose    acc[n, i·s + h·d − top, j·s + w·d − left, o] += x'[n, i, j, c] · w'[o, h, w, c]
    FullyConnected   acc[…, o] = Σ_c x'[…, c] · w'[o, c]
    MatMul           acc = a' @ b'

with ``x' = x − z_x`` and ``w' = w − z_w[o]``, so that padding (which holds z_x) adds 0; then ``acc + bias``.

The products are summed by a float matrix product over whole numbers. That is exact in every order of
summation as long as no partial sum reaches 2^24 in float32, or 2^53 in float64; sums of 8-bit codes stay
below 2^31, of 16-bit codes below 2^40. An engine without sums of that width computes

    Σ (x − z_x)·w' + bias  =  256 · Σ hi·w' + Σ lo·w' + (bias − z_x·Σ w'),     x = 256·hi + lo

with hi in −128 … 127 and lo in 0 … 255, where either sum is one of 8-bit codes and fits int32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from calib8.program.instructions import (
    Conv,
    ConvTranspose,
    DepthwiseConv,
    FullyConnected,
    MatMul,
    Weighted,
)
from calib8.program.program import Slot
from calib8.program.reference.operand import Ints, Operand
from calib8.program.reference.requantize import layer_codes
from calib8.program.rules import LayerRescale

Floats: TypeAlias = npt.NDArray[np.floating[Any]]

FLOAT32_EXACT: Final = 1 << 24
"""Up to here every whole number is a float32."""

WINDOW_ELEMENTS: Final = 1 << 24
"""Images are taken together until their windows fill this many numbers."""


def conv(step: Conv, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Windows of the padded image times filters: one matrix product per group."""
    x, weight = _input_and_weight(step, operands[0])
    outputs, rows, columns, depth = weight.shape
    filters = weight.reshape(step.groups, outputs // step.groups, rows * columns * depth).transpose(0, 2, 1)
    image = _padded(x, step.pads)
    image = image.reshape(*image.shape[:3], step.groups, depth)
    windows = _windows(image, (rows, columns), step.strides, step.dilations)
    count, height, width = windows.shape[:3]
    acc = np.empty((count, height, width, outputs), x.dtype)
    together = max(1, WINDOW_ELEMENTS // max(1, windows[0].size))
    for first in range(0, count, together):
        part = windows[first : first + together]
        # [images, height, width, group, depth, rows, columns] → [group, pixels, rows · columns · depth]
        pixels = part.transpose(3, 0, 1, 2, 5, 6, 4).reshape(step.groups, -1, filters.shape[1])
        sums = (pixels @ filters).transpose(1, 0, 2)
        acc[first : first + together] = sums.reshape(-1, height, width, outputs)
    return _finished(step, acc, output)


def depthwise_conv(step: DepthwiseConv, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """One multiply-add of the whole image per kernel tap."""
    x, weight = _input_and_weight(step, operands[0])
    rows, columns, outputs = weight.shape
    image = _padded(x, step.pads)
    if outputs != image.shape[3]:
        image = np.repeat(image, outputs // image.shape[3], axis=3)
    windows = _windows(image, (rows, columns), step.strides, step.dilations)
    acc = np.zeros(windows.shape[:4], x.dtype)
    for row, column in np.ndindex(rows, columns):
        acc += windows[..., row, column] * weight[row, column]
    return _finished(step, acc, output)


def conv_transpose(step: ConvTranspose, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """One matrix product per kernel tap, scattered over the output; then the padding is cut off."""
    x, weight = _input_and_weight(step, operands[0])
    outputs, rows, columns, depth = weight.shape
    count, height, width = x.shape[:3]
    filters = weight.reshape(step.groups, outputs // step.groups, rows, columns, depth)
    pixels = x.reshape(-1, step.groups, depth).transpose(1, 0, 2)
    (down, right), (dilation_down, dilation_right) = step.strides, step.dilations
    top, left = step.pads[:2]
    full = (
        max((height - 1) * down + (rows - 1) * dilation_down + 1, top + output.shape[1]),
        max((width - 1) * right + (columns - 1) * dilation_right + 1, left + output.shape[2]),
    )
    acc = np.zeros((count, *full, outputs), x.dtype)
    for row, column in np.ndindex(rows, columns):
        sums = (pixels @ filters[:, :, row, column].transpose(0, 2, 1)).transpose(1, 0, 2)
        first, start = row * dilation_down, column * dilation_right
        target = acc[:, first : first + height * down : down, start : start + width * right : right]
        target[:, :height, :width] += sums.reshape(count, height, width, outputs)
    acc = acc[:, top : top + output.shape[1], left : left + output.shape[2]]
    return _finished(step, acc, output)


def fully_connected(step: FullyConnected, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """One matrix product over the last axis."""
    x, weight = _input_and_weight(step, operands[0])
    return _finished(step, x @ weight.T, output)


def mat_mul(step: MatMul, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """The matrix product of two activations; batch axes broadcast."""
    lhs, rhs = operands
    dtype = _exact_type(lhs.slot.shape[-1] * _largest_step(lhs.slot) * _largest_step(rhs.slot))
    acc = _centred(lhs, dtype) @ _centred(rhs, dtype)
    return _written(acc.astype(np.int64), step.rescale, step.low, step.high, output)


def _finished(step: Weighted, acc: Floats, output: Slot) -> npt.NDArray[Any]:
    return _written(acc.astype(np.int64) + step.bias, step.rescale, step.low, step.high, output)


def _written(acc: Ints, rule: LayerRescale | None, low: int, high: int, output: Slot) -> npt.NDArray[Any]:
    if rule is None:
        return acc.astype(np.int32)
    return layer_codes(acc, rule, output.zero_point, low, high, output.dtype)


def _input_and_weight(step: Weighted, x: Operand) -> tuple[Floats, Floats]:
    """``x − z_x`` and ``w − z_w`` in a float type in which all sums of their products are exact."""
    channels_last = isinstance(step, DepthwiseConv)
    points = step.weight_zero_point
    if not channels_last:
        points = points.reshape(-1, *(1,) * (step.weight.ndim - 1))
    weight = step.weight.astype(np.int32) - points
    per_channel = tuple(range(weight.ndim - 1)) if channels_last else tuple(range(1, weight.ndim))
    largest_sum = int(np.abs(weight).sum(axis=per_channel, dtype=np.int64).max(initial=0))
    dtype = _exact_type(largest_sum * _largest_step(x.slot))
    return _centred(x, dtype), weight.astype(dtype)


def _exact_type(bound: int) -> np.dtype[np.floating[Any]]:
    """The float type in which whole numbers up to ``bound`` are exact."""
    return np.dtype(np.float32 if bound <= FLOAT32_EXACT else np.float64)


def _largest_step(slot: Slot) -> int:
    """Largest ``|code − zero_point|``."""
    info = np.iinfo(slot.dtype)
    return max(info.max - slot.zero_point, slot.zero_point - info.min)


def _centred(x: Operand, dtype: np.dtype[np.floating[Any]]) -> Floats:
    steps: Floats = np.subtract(x.data, x.slot.zero_point, dtype=dtype)
    return steps


def _padded(x: Floats, pads: tuple[int, int, int, int]) -> Floats:
    top, left, bottom, right = pads
    if not any(pads):
        return x
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))


def _windows(
    image: Floats, kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int]
) -> Floats:
    """View [images, output rows, output columns, …, kernel rows, kernel columns] of a padded image."""
    extent = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
    every = np.lib.stride_tricks.sliding_window_view(image, extent, axis=(1, 2))
    view: Floats = every[:, :: strides[0], :: strides[1], ..., :: dilations[0], :: dilations[1]]
    return view
