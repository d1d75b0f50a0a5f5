"""What moves codes without changing them: joining, padding, reordering, picking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import ANYTHING, MOVE, WIDE_SELECTION, Takes
from calib8.program.ops.operand import Operand
from calib8.program.ops.shapes import Shape, check_axis, check_indices, transposed_shape
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.rules import I32
from calib8.program.slot import Slot

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Concat(Instruction):
    """Joins along an axis; all slots share scale and zero point."""

    axis: int


@dataclass(frozen=True, eq=False)
class Pad(Instruction):
    """Adds borders of one code.

    Attributes:
        before, after: per axis, ≥ 0.
        value: the code.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: int


@dataclass(frozen=True, eq=False)
class Transpose(Instruction):
    """Output axis i is input axis ``axes[i]``."""

    axes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Reshape(Instruction):
    """Same elements in the same order of memory, new shape."""


@dataclass(frozen=True, eq=False)
class Slice(Instruction):
    """Part of a tensor.

    Attributes:
        starts: first index per axis, ≥ 0.
        steps: per axis, not 0; negative steps walk backwards. The output slot's shape says how many.
    """

    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Gather(Instruction):
    """Picks indices along one axis (channel shuffles, tiling, expanding).

    Attributes:
        axis: of the input.
        indices: int32 [output size of that axis], 0 … size − 1.
    """

    axis: int
    indices: I32


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


def _concat_shape(step: Step, instruction: Concat) -> tuple[Shape, ...]:
    axis, shapes = instruction.axis, [slot.shape for slot in step.inputs]
    check_axis(step, axis, shapes[0])
    rests = {(len(shape), shape[:axis], shape[axis + 1 :]) for shape in shapes}
    if len(rests) != 1:
        listed = ", ".join(str(list(shape)) for shape in shapes)
        raise step.error(f"joins {listed} along axis {axis}", "All other axes must be equal")
    return ((*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :]),)


def _pad_shape(step: Step, instruction: Pad) -> tuple[Shape, ...]:
    shape, before, after = step.inputs[0].shape, instruction.before, instruction.after
    if not len(before) == len(after) == len(shape) or min((*before, *after), default=0) < 0:
        raise step.error(
            f"pads {list(shape)} by {list(before)} and {list(after)}", "Give a number ≥ 0 for every axis"
        )
    return (tuple(b + size + a for b, size, a in zip(before, shape, after, strict=True)),)


def _reshape_shape(step: Step, instruction: Reshape) -> tuple[Shape, ...]:
    shape, new = step.inputs[0].shape, step.output.shape
    if math.prod(shape) != math.prod(new):
        raise step.error(f"makes {list(new)} of {list(shape)}", "Both must have as many elements")
    return (new,)


def _slice_shape(step: Step, instruction: Slice) -> tuple[Shape, ...]:
    shape, new = step.inputs[0].shape, step.output.shape
    starts, steps = instruction.starts, instruction.steps
    if not len(starts) == len(steps) == len(new) == len(shape):
        raise step.error(
            f"has {len(starts)} starts and {len(steps)} steps for {list(shape)} → {list(new)}",
            "Give one of each for every axis; the rank stays",
        )
    for axis, (start, stride, size, count) in enumerate(zip(starts, steps, shape, new, strict=True)):
        last = start + (count - 1) * stride
        if stride == 0 or not (0 <= start < size and 0 <= last < size):
            raise step.error(
                f"takes {count} from {start} in steps of {stride} along axis {axis} of size {size}",
                "First and last must lie inside, and the step is not 0",
            )
    return (new,)


def _gather_shape(step: Step, instruction: Gather) -> tuple[Shape, ...]:
    shape, axis = step.inputs[0].shape, instruction.axis
    check_axis(step, axis, shape)
    count = check_indices(step, instruction.indices, shape[axis], "indices")
    return ((*shape[:axis], count, *shape[axis + 1 :]),)


def _check_pad(step: Step, instruction: Pad) -> None:
    limits = np.iinfo(step.output.dtype)
    if not limits.min <= instruction.value <= limits.max:
        raise step.error(
            f"pads with {instruction.value}", f"{step.output.dtype} needs {limits.min} … {limits.max}"
        )


TRAITS: Final[dict[type[Instruction], Traits]] = {
    Concat: Traits(Takes((ANYTHING,), ANYTHING, shared=True, variadic=True), _concat_shape, concat),
    Pad: Traits(WIDE_SELECTION, _pad_shape, pad, check=_check_pad),
    Transpose: Traits(MOVE, transposed_shape, transpose),
    Reshape: Traits(MOVE, _reshape_shape, reshape),
    Slice: Traits(MOVE, _slice_shape, take_slice),
    Gather: Traits(MOVE, _gather_shape, gather),
}
