"""Shapes of what instructions write: what several families ask. All raise ModelError, by ``Step.error``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.program.ops.instruction import Instruction
from calib8.program.ops.step import Step
from calib8.program.ops.windows import Window
from calib8.program.slot import Slot

Shape = tuple[int, ...]


def same_shape(step: Step, instruction: Instruction) -> tuple[Shape, ...]:
    """That of the input."""
    return (step.inputs[0].shape,)


def transposed_shape(step: Step, instruction: Any) -> tuple[Shape, ...]:
    """Output axis i is input axis ``instruction.axes[i]``."""
    shape, axes = step.inputs[0].shape, instruction.axes
    if sorted(axes) != list(range(len(shape))):
        raise step.error(f"has axes {list(axes)} for rank {len(shape)}", "Give a permutation of all axes")
    return (tuple(shape[axis] for axis in axes),)


def image_shape(step: Step, slot: Slot) -> Shape:
    """Images, rows, columns, channels."""
    if len(slot.shape) != 4:
        raise step.error(f'reads "{slot.name}" of shape {list(slot.shape)}', "Images are NHWC, rank 4")
    return slot.shape


def sliding(
    step: Step,
    image: Shape,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    pads: tuple[int, int, int, int],
    dilations: tuple[int, int] = (1, 1),
) -> tuple[Window, Window]:
    """Rows and columns; pads are (top, left, bottom, right)."""
    rows = Window(image[1], kernel[0], strides[0], dilations[0], pads[0], pads[2])
    columns = Window(image[2], kernel[1], strides[1], dilations[1], pads[1], pads[3])
    for window in (rows, columns):
        if window.problem is not None:
            raise step.error(f"has {window.problem}", "Give it values in range")
    return rows, columns


def fitting(step: Step, window: Window, outputs: int) -> int:
    """The outputs along an axis; one at least."""
    if outputs < 1:
        raise step.error(
            f"has a kernel that spans {window.extent} of {window.size + window.before + window.after}",
            "Pad the input or take a smaller kernel",
        )
    return outputs


def broadcast_shape(step: Step, *shapes: Shape) -> Shape:
    """What shapes make together, as in NumPy."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(str(list(shape)) for shape in shapes)
        raise step.error(f"joins {listed}", "They must broadcast, as in NumPy") from None


def reduced_shapes(step: Step, axes: tuple[int, ...]) -> tuple[Shape, Shape]:
    """Without these axes, and with 1 in their place."""
    shape = step.inputs[0].shape
    if not axes or len(set(axes)) != len(axes) or not all(0 <= axis < len(shape) for axis in axes):
        raise step.error(
            f"has axes {list(axes)} for rank {len(shape)}", "Name different axes, counted from 0"
        )
    dropped = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return dropped, kept


def check_axis(step: Step, axis: int, shape: Shape) -> None:
    """Refuses an axis that a shape does not have."""
    if not 0 <= axis < len(shape):
        raise step.error(f"has axis {axis} for rank {len(shape)}", "Count axes from 0")


def check_indices(step: Step, indices: npt.NDArray[Any], size: int, what: str) -> int:
    """Length of an index list whose entries lie in 0 … size − 1."""
    if indices.ndim != 1:
        raise step.error(f"has {what} of shape {list(indices.shape)}", "Indices are a list")
    outside = indices[(indices < 0) | (indices >= size)]
    if outside.size:
        raise step.error(f"has {what} with index {outside[0]}", f"Indices must be in 0 … {size - 1}")
    return int(indices.size)
