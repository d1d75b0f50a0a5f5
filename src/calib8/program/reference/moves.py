"""What moves codes without changing them: joining, padding, reordering, picking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.program.instructions import Concat, Gather, Pad, Reshape, Slice, Transpose
from calib8.program.program import Slot
from calib8.program.reference.operand import Operand

Array = npt.NDArray[Any]


def concat(step: Concat, operands: Sequence[Operand], output: Slot) -> Array:
    """One after the other along an axis."""
    return np.concatenate([operand.data for operand in operands], axis=step.axis)


def pad(step: Pad, operands: Sequence[Operand], output: Slot) -> Array:
    """Borders of one code."""
    widths = tuple(zip(step.before, step.after, strict=True))
    return np.pad(operands[0].data, widths, constant_values=step.value)


def transpose(step: Transpose, operands: Sequence[Operand], output: Slot) -> Array:
    """Axes in another order; the result is contiguous."""
    return np.asarray(operands[0].data.transpose(step.axes), order="C")


def reshape(step: Reshape, operands: Sequence[Operand], output: Slot) -> Array:
    """The same elements in the same order."""
    result: Array = operands[0].data.reshape(output.shape)
    return result


def take_slice(step: Slice, operands: Sequence[Operand], output: Slot) -> Array:
    """Every ``steps``-th element from ``starts`` on, as many as the output has."""
    picked = zip(step.starts, step.steps, output.shape, strict=True)
    ranges = [range(start, start + stride * size, stride) for start, stride, size in picked]
    # a stop of −1 would mean the last element
    slices = tuple(slice(r.start, r.stop if r.stop >= 0 else None, r.step) for r in ranges)
    result: Array = operands[0].data[slices]
    return result


def gather(step: Gather, operands: Sequence[Operand], output: Slot) -> Array:
    """Elements of one axis in the order of the indices."""
    return np.take(operands[0].data, step.indices, axis=step.axis)
