"""Pools and reductions of codes: windows of NHWC images, or whole axes.

    max       y = max over the window; padding never wins
    average   FloatAverage   m = fl(fl(fl(x₁ + x₂) + …) / n),  x = fl(s_x·(q − z_x))       float32
                             y = clip(rint(fl(fl(m / s_y) + z_y)))
              CodeAverage    y = Σq / n, ties away from zero
              FixedRescale   y = multiply(Σ (q − z_x), multiplier[n − 1], shift[n − 1]) + z_y
              RealAverage    y = round(fl(fl(fl(s_x·Σ(q − z_x)) / n) / s_y)) + z_y     float32, ties away
    mean      y = rescale(Σ (q − z_x)) over axes

n is the number of taps that lie in the image or, with ``count_pads``, in the padded image. The last
windows may reach beyond the padding (the output slot's shape says so); taps out there never count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import CODES, SELECTION, UNARY, WIDE_SELECTION, Takes
from calib8.program.ops.operand import Ints, Operand
from calib8.program.ops.reach import Interval, total
from calib8.program.ops.real import quantized
from calib8.program.ops.rescale import clipped, rescale
from calib8.program.ops.shapes import Shape, fitting, image_shape, reduced_shapes, sliding
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.ops.windows import Window, empty_window, pool_sizes
from calib8.program.rules import (
    F32,
    AverageRule,
    CodeAverage,
    FixedRescale,
    FloatAverage,
    RealAverage,
    Rescale,
)
from calib8.program.slot import Slot

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class MaxPool(Instruction):
    """Largest code of a window, NHWC; padding never wins. Input and output share scale and zero point."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]


@dataclass(frozen=True, eq=False)
class AveragePool(Instruction):
    """Mean of a window, NHWC.

    Attributes:
        count_pads: padding counts as zeros (real) among the taps; else only valid taps count.
        low, high: clamp of the output codes.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    count_pads: bool
    rule: AverageRule
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Mean(Instruction):
    """Mean (or sum: only the factor differs) over axes: ``acc = Σ (q − z_x)``, rescaled.

    Attributes:
        axes: axes of the input that vanish or become 1 (the output slot's shape says which).
        rescale: by ``s_x / (s_y · count)``, or ``s_x / s_y`` for a sum.
    """

    axes: tuple[int, ...]
    rescale: Rescale
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class ReduceMax(Instruction):
    """Largest code over axes; input and output share scale and zero point."""

    axes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ReduceMin(Instruction):
    """Smallest code over axes; input and output share scale and zero point."""

    axes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ArgMax(Instruction):
    """Index (int64 or int32) of the largest code along an axis; the first (or last) among equals."""

    axis: int
    last: bool


@dataclass(frozen=True, eq=False)
class ArgMin(Instruction):
    """Index (int64 or int32) of the smallest code along an axis; the first (or last) among equals."""

    axis: int
    last: bool


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
    sums = np.zeros(output.shape, np.int64)
    for tap in _taps(steps, step, (1, 1), output, fill=0):
        sums += tap
    if isinstance(step.rule, CodeAverage):
        # the mean is taken of the codes: their sum holds the zero point once per tap
        codes = sums + x.slot.zero_point * count
        half_away = np.sign(codes) * ((np.abs(codes) + count // 2) // count)
        return clipped(half_away, step.low, step.high, output.dtype)
    if isinstance(step.rule, RealAverage):
        with np.errstate(over="ignore", under="ignore"):
            real: F32 = sums.astype(np.float32) * np.float32(x.slot.scale)
            mean: F32 = np.divide(real, count, dtype=np.float32)
        return quantized(mean, output.scale, output.zero_point, step.low, step.high, output.dtype)
    multiplier, shift = step.rule.multiplier[count - 1], step.rule.shift[count - 1]
    rule = FixedRescale(multiplier, shift, step.rule.rounding)
    return rescale(sums, rule, output.zero_point, step.low, step.high, output.dtype)


def _float_average(step: AveragePool, rule: FloatAverage, steps: Ints, count: Ints, output: Slot) -> Array:
    values = steps.astype(np.float32) * np.float32(rule.input)
    sums = np.zeros(output.shape, np.float32)
    for tap in _taps(values, step, (1, 1), output, fill=0):
        sums += tap  # one float32 addition per tap, in row-major order
    with np.errstate(over="ignore"):
        ratio = sums / count.astype(np.float32) / np.float32(rule.output)
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
    return _arg(np.argmax, step, operands[0].data, output)


def arg_min(step: ArgMin, operands: Sequence[Operand], output: Slot) -> Array:
    """Index of the smallest code along an axis."""
    return _arg(np.argmin, step, operands[0].data, output)


def _arg(first: Callable[..., Array], step: ArgMax | ArgMin, data: Array, output: Slot) -> Array:
    """Index of the code that ``first`` finds; from the other end for the last among equals."""
    if step.last:
        index = data.shape[step.axis] - 1 - first(np.flip(data, step.axis), axis=step.axis)
    else:
        index = first(data, axis=step.axis)
    result: Array = index.astype(output.dtype).reshape(output.shape)
    return result


def _pool_shape(step: Step, pool: MaxPool | AveragePool) -> tuple[Shape, ...]:
    image = image_shape(step, step.inputs[0])
    dilations = pool.dilations if isinstance(pool, MaxPool) else (1, 1)
    windows = sliding(step, image, pool.kernel, pool.strides, pool.pads, dilations)
    heights, widths = (pool_sizes(window) for window in windows)
    for window, sizes in zip(windows, (heights, widths), strict=True):
        fitting(step, window, max(sizes))
    allowed = tuple((image[0], height, width, image[3]) for height in heights for width in widths)
    if step.output.shape in allowed:
        _check_windows(step, windows)
    return allowed


def _check_windows(step: Step, windows: tuple[Window, Window]) -> None:
    for window, size in zip(windows, step.output.shape[1:3], strict=True):
        place = empty_window(window, size)
        if place is not None:
            raise step.error(
                f"has nothing but padding under window {place}", "Every window must see the input"
            )


def _reduce_shape(step: Step, instruction: Mean | ReduceMax | ReduceMin) -> tuple[Shape, ...]:
    return reduced_shapes(step, instruction.axes)


def _index_shape(step: Step, instruction: ArgMax | ArgMin) -> tuple[Shape, ...]:
    return reduced_shapes(step, (instruction.axis,))


def _window_sums(step: Step, pool: AveragePool, inputs: Sequence[Interval]) -> Interval:
    return total(step, pool.kernel[0] * pool.kernel[1])


def _axes_sums(step: Step, instruction: Mean, inputs: Sequence[Interval]) -> Interval:
    return total(step, int(np.prod([step.inputs[0].shape[axis] for axis in instruction.axes])))


INDEX: Final = Takes((CODES,), ("int64", "int32"))

TRAITS: Final[dict[type[Instruction], Traits]] = {
    MaxPool: Traits(WIDE_SELECTION, _pool_shape, max_pool),
    AveragePool: Traits(UNARY, _pool_shape, average_pool, _window_sums),
    Mean: Traits(UNARY, _reduce_shape, mean, _axes_sums),
    ReduceMax: Traits(SELECTION, _reduce_shape, reduce_max),
    ReduceMin: Traits(SELECTION, _reduce_shape, reduce_min),
    ArgMax: Traits(INDEX, _index_shape, arg_max),
    ArgMin: Traits(INDEX, _index_shape, arg_min),
}
