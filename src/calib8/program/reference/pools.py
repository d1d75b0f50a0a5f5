"""Pools and reductions of codes: windows of NHWC images, or whole axes.

    max       y = max over the window; padding never wins
    average   FloatAverage   m = fl(fl(fl(x₁ + x₂) + …) / n),  x = fl(s_x·(q − z_x))       float32
                             y = clip(rint(fl(fl(m / s_y) + z_y)))
              CodeAverage    y = Σq / n, ties away from zero
              FixedRescale   y = multiply(Σ (q − z_x), multiplier[n − 1], shift[n − 1]) + z_y
    mean      y = rescale(Σ (q − z_x)) over axes

n is the number of taps that lie in the image or, with ``count_pads``, in the padded image. The last
windows may reach beyond the padding (the output slot's shape says so); taps out there never count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.program.instructions import ArgMax, AveragePool, MaxPool, Mean, ReduceMax, ReduceMin
from calib8.program.program import Slot
from calib8.program.reference.operand import Ints, Operand
from calib8.program.reference.requantize import clipped, rescale
from calib8.program.rules import CodeAverage, FixedRescale, FloatAverage

Array = npt.NDArray[Any]


def max_pool(step: MaxPool, operands: Sequence[Operand], output: Slot) -> Array:
    """Largest code of each window; a window of padding alone gives the lowest code."""
    (x,) = operands
    result: Array = np.full(output.shape, np.iinfo(x.data.dtype).min, x.data.dtype)
    for tap in _taps(x.data, step, step.dilations, output, fill=np.iinfo(x.data.dtype).min):
        np.maximum(result, tap, out=result)
    return result


def average_pool(step: AveragePool, operands: Sequence[Operand], output: Slot) -> Array:
    """Mean of each window; a window without taps gives the zero point."""
    (x,) = operands
    steps = x.data.astype(np.int64) - x.slot.zero_point
    count = _counts(step, x.slot, output, with_pads=step.count_pads)
    if isinstance(step.rule, FloatAverage):
        return _float_average(step, step.rule, steps, count, output)
    total = np.zeros(output.shape, np.int64)
    for tap in _taps(steps, step, (1, 1), output, fill=0):
        total += tap
    if isinstance(step.rule, CodeAverage):
        # the mean is taken of the codes: their sum holds the zero point once per tap
        codes = total + x.slot.zero_point * count
        half_away = np.sign(codes) * ((np.abs(codes) + count // 2) // count)
        return clipped(half_away, step.low, step.high, output.dtype)
    multiplier, shift = step.rule.multiplier[count - 1], step.rule.shift[count - 1]
    rule = FixedRescale(multiplier, shift, step.rule.rounding)
    return rescale(total, rule, output.zero_point, step.low, step.high, output.dtype)


def _float_average(step: AveragePool, rule: FloatAverage, steps: Ints, count: Ints, output: Slot) -> Array:
    values = steps.astype(np.float32) * np.float32(rule.input)
    total = np.zeros(output.shape, np.float32)
    for tap in _taps(values, step, (1, 1), output, fill=0):
        total += tap  # one float32 addition per tap, in row-major order
    with np.errstate(over="ignore"):
        ratio = total / count.astype(np.float32) / np.float32(rule.output)
    return clipped(np.rint(ratio + np.float32(output.zero_point)), step.low, step.high, output.dtype)


def _taps(
    data: Array, step: MaxPool | AveragePool, dilations: tuple[int, int], output: Slot, fill: int
) -> Iterator[Array]:
    """What each place of the kernel sees, row by row: arrays of the output's shape."""
    rows, columns = output.shape[1:3]
    top, left = step.pads[:2]
    last_row = (rows - 1) * step.strides[0] + (step.kernel[0] - 1) * dilations[0]
    last_column = (columns - 1) * step.strides[1] + (step.kernel[1] - 1) * dilations[1]
    bottom = max(last_row + 1 - top - data.shape[1], 0)
    right = max(last_column + 1 - left - data.shape[2], 0)
    padded = np.pad(data, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    for kernel_row in _seeing(step, 0, data.shape[1], rows, dilations[0]):
        for kernel_column in _seeing(step, 1, data.shape[2], columns, dilations[1]):
            row, column = kernel_row * dilations[0], kernel_column * dilations[1]
            yield padded[
                :,
                row : row + (rows - 1) * step.strides[0] + 1 : step.strides[0],
                column : column + (columns - 1) * step.strides[1] + 1 : step.strides[1],
            ]


def _seeing(step: MaxPool | AveragePool, axis: int, size: int, outputs: int, dilation: int) -> range:
    """Places of the kernel along an axis that see the image in some window; the others see padding alone."""
    before = step.pads[axis]
    first = -(((outputs - 1) * step.strides[axis] - before) // dilation)
    return range(max(first, 0), min(step.kernel[axis], -(-(before + size) // dilation)))


def _counts(step: AveragePool, source: Slot, output: Slot, *, with_pads: bool) -> Ints:
    """Number of taps per window, at least 1: [1, rows, columns, 1]."""
    along = []
    for axis in (0, 1):
        before, after = step.pads[axis], step.pads[axis + 2]
        first, end = (0, before + source.shape[axis + 1] + after)
        if not with_pads:
            first, end = before, before + source.shape[axis + 1]
        start = np.arange(output.shape[axis + 1], dtype=np.int64) * step.strides[axis]
        taps = np.minimum(start + step.kernel[axis], end) - np.maximum(start, first)
        along.append(np.maximum(taps, 0))
    counts: Ints = np.maximum(along[0][:, None] * along[1], 1)[None, :, :, None]
    return counts


def mean(step: Mean, operands: Sequence[Operand], output: Slot) -> Array:
    """Rescaled sum over axes."""
    (x,) = operands
    acc = (x.data.astype(np.int64) - x.slot.zero_point).sum(axis=step.axes, keepdims=True)
    codes = rescale(acc, step.rescale, output.zero_point, step.low, step.high, output.dtype)
    return codes.reshape(output.shape)


def reduce_max(step: ReduceMax, operands: Sequence[Operand], output: Slot) -> Array:
    """Largest code over axes."""
    result: Array = operands[0].data.max(axis=step.axes).reshape(output.shape)
    return result


def reduce_min(step: ReduceMin, operands: Sequence[Operand], output: Slot) -> Array:
    """Smallest code over axes."""
    result: Array = operands[0].data.min(axis=step.axes).reshape(output.shape)
    return result


def arg_max(step: ArgMax, operands: Sequence[Operand], output: Slot) -> Array:
    """Index of the largest code along an axis."""
    data = operands[0].data
    if step.last:
        index = data.shape[step.axis] - 1 - np.flip(data, step.axis).argmax(axis=step.axis)
    else:
        index = data.argmax(axis=step.axis)
    result: Array = index.astype(output.dtype).reshape(output.shape)
    return result
