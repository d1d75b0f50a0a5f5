"""Resize of NHWC images of codes: indices, or two weights per axis.

    nearest   y[n, i, j] = x[n, rows[i], columns[j]]
    linear    t = (1−f)(1−g)·x[lo, lo] + (1−f)·g·x[lo, hi] + f·(1−g)·x[hi, lo] + f·g·x[hi, hi]
              even   x = fl(s·(q − z)), t in float32 summed in this order, clip(rint(fl(t / s)) + z)
              away   Q20 sum of codes, (t + sign·2^19) / 2^20 truncated          TFLite
              up     Q20 sum of codes, (t + 2^19) >> 20
              float_up   t = ((1−f)·x[lo, lo])·(1−g) + (f·x[hi, lo])·(1−g) + …  column by column in float32,
                         floor(fl(t + 1/2))                                              TFLite, uint8

f belongs to the row, g to the column; ``even`` divides by the scale of the output slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import MOVE, UNARY
from calib8.program.ops.operand import Operand
from calib8.program.ops.rescale import clipped
from calib8.program.ops.shapes import Shape, check_indices, image_shape
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.rules import I32, LinearAxis
from calib8.program.slot import Slot

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class ResizeNearest(Instruction):
    """``output[n, i, j] = input[n, rows[i], columns[j]]``, NHWC.

    Attributes:
        rows, columns: int32 indices into the input.
    """

    rows: I32
    columns: I32


@dataclass(frozen=True, eq=False)
class ResizeLinear(Instruction):
    """Bilinear interpolation, NHWC; input and output share scale and zero point, but in profile ``onnx``."""

    rows: LinearAxis
    columns: LinearAxis


def resize_nearest(step: ResizeNearest, operands: Sequence[Operand], output: Slot) -> Array:
    """Repeats or drops pixels."""
    result: Array = operands[0].data[:, step.rows[:, None], step.columns]
    return result


def resize_linear(step: ResizeLinear, operands: Sequence[Operand], output: Slot) -> Array:
    """Four pixels of each output pixel, weighted."""
    (x,) = operands
    low, high = np.iinfo(output.dtype).min, np.iinfo(output.dtype).max
    if step.rows.rounding == "float_up":
        codes: Array = np.floor(_weighted_codes(step, x.data.astype(np.float32)) + np.float32(0.5))
    elif step.rows.rounding == "even":
        values = (x.data.astype(np.int32) - x.slot.zero_point).astype(np.float32) * np.float32(x.slot.scale)
        with np.errstate(over="ignore"):
            ratio = _weighted(step, values, np.float32(1)) / np.float32(output.scale)
        codes = np.rint(ratio).astype(np.float64) + output.zero_point
    else:
        total = _weighted(step, x.data.astype(np.int64), np.int64(1 << 10))
        half, unit = 1 << 19, 1 << 20
        codes = (total + half) >> 20
        if step.rows.rounding == "away":
            codes = np.sign(total) * ((np.abs(total) + half) // unit)
    return clipped(codes, low, high, output.dtype)


def _weighted_codes(step: ResizeLinear, values: Array) -> Array:
    """Sum of the four products, a weight at a time, all pixels of the lower column first."""
    rows, columns, one = step.rows, step.columns, np.float32(1)
    total: Array = np.zeros((), np.float32)
    for column, right in ((columns.low, one - columns.fraction), (columns.high, columns.fraction)):
        for row, down in ((rows.low, one - rows.fraction), (rows.high, rows.fraction)):
            pixels = values[:, row[:, None], column]
            total = total + pixels * down[:, None, None] * right[:, None]
    return total


def _weighted(step: ResizeLinear, values: Array, one: np.generic) -> Array:
    """Sum of the four products, weights multiplied first, in the type of ``values``."""
    rows, columns = step.rows, step.columns
    down = rows.fraction.astype(values.dtype)[:, None, None]
    right = columns.fraction.astype(values.dtype)[:, None]
    up, left = one - down, one - right

    def pixels(row: Array, column: Array) -> Array:
        result: Array = values[:, row[:, None], column]
        return result

    total: Array = left * up * pixels(rows.low, columns.low)
    total = total + right * up * pixels(rows.low, columns.high)
    total = total + left * down * pixels(rows.high, columns.low)
    total = total + right * down * pixels(rows.high, columns.high)
    return total


def _resize_nearest_shape(step: Step, instruction: ResizeNearest) -> tuple[Shape, ...]:
    batch, height, width, channels = image_shape(step, step.inputs[0])
    rows = check_indices(step, instruction.rows, height, "rows")
    columns = check_indices(step, instruction.columns, width, "columns")
    return ((batch, rows, columns, channels),)


def _resize_linear_shape(step: Step, instruction: ResizeLinear) -> tuple[Shape, ...]:
    batch, height, width, channels = image_shape(step, step.inputs[0])
    rows = _linear_length(step, instruction.rows, height, "rows")
    columns = _linear_length(step, instruction.columns, width, "columns")
    return ((batch, rows, columns, channels),)


def _linear_length(step: Step, axis: LinearAxis, size: int, what: str) -> int:
    sides: tuple[tuple[I32, str], ...] = ((axis.low, f"{what}.low"), (axis.high, f"{what}.high"))
    low, high = (check_indices(step, indices, size, name) for indices, name in sides)
    if not low == high or axis.fraction.shape != (low,):
        raise step.error(
            f"has {low} low and {high} high {what} and fractions of shape {list(axis.fraction.shape)}",
            "All three must be equally long",
        )
    return low


TRAITS: Final[dict[type[Instruction], Traits]] = {
    ResizeNearest: Traits(MOVE, _resize_nearest_shape, resize_nearest),
    ResizeLinear: Traits(UNARY, _resize_linear_shape, resize_linear),
}
