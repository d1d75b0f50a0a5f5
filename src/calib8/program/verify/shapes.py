"""Shapes: what every instruction makes of its inputs' shapes and its parameters.

Each function returns the shapes that the output may have: one, or several where only the slot tells
(axes kept or dropped, pooling rounded up, output padding).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program import instructions as op
from calib8.program.program import Slot
from calib8.program.rules import I32, LinearAxis
from calib8.program.verify.step import Step
from calib8.program.verify.windows import Window, conv_size, empty_window, pool_sizes, transposed_sizes

Shape = tuple[int, ...]


def check_shape(step: Step) -> None:
    """Refuses parameters that do not fit the inputs and an output of another shape than they make.

    Raises:
        ModelError: names the instruction, the slot and both shapes.
    """
    allowed = SHAPES[type(step.instruction)](step, step.instruction)
    if step.output.shape not in allowed:
        expected = " or ".join(str(list(shape)) for shape in _examples(allowed))
        raise step.error(
            f'writes "{step.output.name}" of shape {list(step.output.shape)}, but computes {expected}',
            "Give the slot the shape that is computed",
        )


def _examples(shapes: Iterable[Shape]) -> list[Shape]:
    return [shape for _, shape in zip(range(4), dict.fromkeys(shapes), strict=False)]


def _same(step: Step, instruction: op.Instruction) -> tuple[Shape, ...]:
    return (step.inputs[0].shape,)


def _transposed(step: Step, instruction: op.Quantize | op.Dequantize | op.Transpose) -> tuple[Shape, ...]:
    shape, axes = step.inputs[0].shape, instruction.axes
    if sorted(axes) != list(range(len(shape))):
        raise step.error(f"has axes {list(axes)} for rank {len(shape)}", "Give a permutation of all axes")
    return (tuple(shape[axis] for axis in axes),)


def _image(step: Step, slot: Slot) -> Shape:
    if len(slot.shape) != 4:
        raise step.error(f'reads "{slot.name}" of shape {list(slot.shape)}', "Images are NHWC, rank 4")
    return slot.shape


def _weight(
    step: Step, layer: op.Weighted, rank: int, layout: str, channels: Callable[[Shape], int]
) -> Shape:
    """Shape of the weight, with bias and zero points checked against its output channels."""
    shape = layer.weight.shape
    if len(shape) != rank or min(shape) < 1:
        raise step.error(f"has a weight of shape {list(shape)}", f"It must be {layout}")
    outputs = channels(shape)
    if layer.bias.shape != (outputs,):
        raise step.error(f"has a bias of shape {list(layer.bias.shape)}", f"It must be [{outputs}]")
    if layer.weight_zero_point.shape not in ((1,), (outputs,)):
        raise step.error(
            f"has weight zero points of shape {list(layer.weight_zero_point.shape)}",
            f"Give [1] or [{outputs}]",
        )
    return shape


def _windows(
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


def _conv(step: Step, layer: op.Conv) -> tuple[Shape, ...]:
    image = _image(step, step.inputs[0])
    outputs, rows, columns, inputs = _weight(step, layer, 4, "OHWI", lambda shape: shape[0])
    _check_groups(step, layer.groups, image[3], inputs, outputs)
    windows = _windows(step, image, (rows, columns), layer.strides, layer.pads, layer.dilations)
    height, width = (_fitting(step, window, conv_size(window)) for window in windows)
    return ((image[0], height, width, outputs),)


def _check_groups(step: Step, groups: int, channels: int, inputs: int, outputs: int) -> None:
    if inputs * groups != channels or outputs % groups:
        raise step.error(
            f"has {groups} groups, {channels} input channels and a weight for {inputs} → {outputs}",
            "Groups must divide both, and the weight's last axis is input channels / groups",
        )


def _fitting(step: Step, window: Window, outputs: int) -> int:
    if outputs < 1:
        raise step.error(
            f"has a kernel that spans {window.extent} of {window.size + window.before + window.after}",
            "Pad the input or take a smaller kernel",
        )
    return outputs


def _depthwise(step: Step, layer: op.DepthwiseConv) -> tuple[Shape, ...]:
    image = _image(step, step.inputs[0])
    rows, columns, outputs = _weight(step, layer, 3, "[rows, columns, channels]", lambda shape: shape[2])
    if outputs % image[3]:
        raise step.error(f"makes {outputs} channels of {image[3]}", "The former must be a multiple")
    windows = _windows(step, image, (rows, columns), layer.strides, layer.pads, layer.dilations)
    height, width = (_fitting(step, window, conv_size(window)) for window in windows)
    return ((image[0], height, width, outputs),)


def _conv_transpose(step: Step, layer: op.ConvTranspose) -> Collection[Shape]:
    image = _image(step, step.inputs[0])
    outputs, rows, columns, inputs = _weight(step, layer, 4, "OHWI", lambda shape: shape[0])
    _check_groups(step, layer.groups, image[3], inputs, outputs)
    windows = _windows(step, image, (rows, columns), layer.strides, layer.pads, layer.dilations)
    heights, widths = (transposed_sizes(window) for window in windows)
    shape = step.output.shape
    fits = len(shape) == 4 and shape[1] in heights and shape[2] in widths
    height, width = (shape[1], shape[2]) if fits else (heights.start, widths.start)
    return ((image[0], height, width, outputs),)


def _fully_connected(step: Step, layer: op.FullyConnected) -> tuple[Shape, ...]:
    shape = step.inputs[0].shape
    outputs, inputs = _weight(step, layer, 2, "[outputs, inputs]", lambda shape: shape[0])
    if not shape or shape[-1] != inputs:
        raise step.error(
            f'has a weight for {inputs} inputs and reads "{step.inputs[0].name}" of shape {list(shape)}',
            "The last axis must be the weight's inputs",
        )
    return ((*shape[:-1], outputs),)


def _mat_mul(step: Step, instruction: op.MatMul) -> tuple[Shape, ...]:
    a, b = (slot.shape for slot in step.inputs)
    if min(len(a), len(b)) < 2 or a[-1] != b[-2]:
        raise step.error(f"multiplies {list(a)} by {list(b)}", "Shapes must be […, M, K] and […, K, N]")
    return ((*_broadcast(step, a[:-2], b[:-2]), a[-2], b[-1]),)


def _broadcast(step: Step, *shapes: Shape) -> Shape:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(str(list(shape)) for shape in shapes)
        raise step.error(f"joins {listed}", "They must broadcast, as in NumPy") from None


def _elementwise(step: Step, instruction: op.Instruction) -> tuple[Shape, ...]:
    return (_broadcast(step, *(slot.shape for slot in step.inputs)),)


def _lookup(step: Step, instruction: op.Lookup) -> tuple[Shape, ...]:
    shape = step.inputs[0].shape
    allowed: tuple[Shape, ...] = ((256,), (shape[-1], 256)) if shape else ((256,),)
    if step.inputs[0].is_wide:
        allowed = ((1 << 16,),)
    if instruction.table.shape not in allowed:
        raise step.error(
            f"has a table of shape {list(instruction.table.shape)}",
            f"Give {' or '.join(str(list(table)) for table in allowed)}",
        )
    return (shape,)


def _pool(step: Step, pool: op.MaxPool | op.AveragePool) -> tuple[Shape, ...]:
    image = _image(step, step.inputs[0])
    dilations = pool.dilations if isinstance(pool, op.MaxPool) else (1, 1)
    windows = _windows(step, image, pool.kernel, pool.strides, pool.pads, dilations)
    heights, widths = (pool_sizes(window) for window in windows)
    for window, sizes in zip(windows, (heights, widths), strict=True):
        _fitting(step, window, max(sizes))
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


def _reduced(step: Step, axes: tuple[int, ...]) -> tuple[Shape, Shape]:
    shape = step.inputs[0].shape
    if not axes or len(set(axes)) != len(axes) or not all(0 <= axis < len(shape) for axis in axes):
        raise step.error(
            f"has axes {list(axes)} for rank {len(shape)}", "Name different axes, counted from 0"
        )
    dropped = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return dropped, kept


def _reduce(step: Step, instruction: op.Mean | op.ReduceMax | op.ReduceMin) -> tuple[Shape, ...]:
    return _reduced(step, instruction.axes)


def _arg_max(step: Step, instruction: op.ArgMax) -> tuple[Shape, ...]:
    return _reduced(step, (instruction.axis,))


def _softmax(step: Step, instruction: op.Softmax) -> tuple[Shape, ...]:
    if not step.inputs[0].shape:
        raise step.error("reads a scalar", "Softmax needs an axis")
    return (step.inputs[0].shape,)


def _concat(step: Step, instruction: op.Concat) -> tuple[Shape, ...]:
    axis, shapes = instruction.axis, [slot.shape for slot in step.inputs]
    _check_axis(step, axis, shapes[0])
    rests = {(len(shape), shape[:axis], shape[axis + 1 :]) for shape in shapes}
    if len(rests) != 1:
        listed = ", ".join(str(list(shape)) for shape in shapes)
        raise step.error(f"joins {listed} along axis {axis}", "All other axes must be equal")
    return ((*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :]),)


def _check_axis(step: Step, axis: int, shape: Shape) -> None:
    if not 0 <= axis < len(shape):
        raise step.error(f"has axis {axis} for rank {len(shape)}", "Count axes from 0")


def _check_indices(step: Step, indices: npt.NDArray[Any], size: int, what: str) -> int:
    """Length of an index list whose entries lie in 0 … size − 1."""
    if indices.ndim != 1:
        raise step.error(f"has {what} of shape {list(indices.shape)}", "Indices are a list")
    outside = indices[(indices < 0) | (indices >= size)]
    if outside.size:
        raise step.error(f"has {what} with index {outside[0]}", f"Indices must be in 0 … {size - 1}")
    return int(indices.size)


def _resize_nearest(step: Step, instruction: op.ResizeNearest) -> tuple[Shape, ...]:
    batch, height, width, channels = _image(step, step.inputs[0])
    rows = _check_indices(step, instruction.rows, height, "rows")
    columns = _check_indices(step, instruction.columns, width, "columns")
    return ((batch, rows, columns, channels),)


def _resize_linear(step: Step, instruction: op.ResizeLinear) -> tuple[Shape, ...]:
    batch, height, width, channels = _image(step, step.inputs[0])
    rows = _linear_length(step, instruction.rows, height, "rows")
    columns = _linear_length(step, instruction.columns, width, "columns")
    return ((batch, rows, columns, channels),)


def _linear_length(step: Step, axis: LinearAxis, size: int, what: str) -> int:
    sides: tuple[tuple[I32, str], ...] = ((axis.low, f"{what}.low"), (axis.high, f"{what}.high"))
    low, high = (_check_indices(step, indices, size, name) for indices, name in sides)
    if not low == high or axis.fraction.shape != (low,):
        raise step.error(
            f"has {low} low and {high} high {what} and fractions of shape {list(axis.fraction.shape)}",
            "All three must be equally long",
        )
    return low


def _pad(step: Step, instruction: op.Pad) -> tuple[Shape, ...]:
    shape, before, after = step.inputs[0].shape, instruction.before, instruction.after
    if not len(before) == len(after) == len(shape) or min((*before, *after), default=0) < 0:
        raise step.error(
            f"pads {list(shape)} by {list(before)} and {list(after)}", "Give a number ≥ 0 for every axis"
        )
    return (tuple(b + size + a for b, size, a in zip(before, shape, after, strict=True)),)


def _reshape(step: Step, instruction: op.Reshape) -> tuple[Shape, ...]:
    shape, new = step.inputs[0].shape, step.output.shape
    if math.prod(shape) != math.prod(new):
        raise step.error(f"makes {list(new)} of {list(shape)}", "Both must have as many elements")
    return (new,)


def _slice(step: Step, instruction: op.Slice) -> tuple[Shape, ...]:
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


def _gather(step: Step, instruction: op.Gather) -> tuple[Shape, ...]:
    shape, axis = step.inputs[0].shape, instruction.axis
    _check_axis(step, axis, shape)
    count = _check_indices(step, instruction.indices, shape[axis], "indices")
    return ((*shape[:axis], count, *shape[axis + 1 :]),)


SHAPES: Final[dict[type[op.Instruction], Callable[[Step, Any], Collection[Shape]]]] = {
    op.Quantize: _transposed,
    op.Dequantize: _transposed,
    op.Conv: _conv,
    op.DepthwiseConv: _depthwise,
    op.ConvTranspose: _conv_transpose,
    op.FullyConnected: _fully_connected,
    op.MatMul: _mat_mul,
    op.Requantize: _same,
    op.Add: _elementwise,
    op.Sub: _elementwise,
    op.AddSums: _elementwise,
    op.Mul: _elementwise,
    op.Maximum: _elementwise,
    op.Minimum: _elementwise,
    op.Lookup: _lookup,
    op.MaxPool: _pool,
    op.AveragePool: _pool,
    op.Mean: _reduce,
    op.ReduceMax: _reduce,
    op.ReduceMin: _reduce,
    op.ArgMax: _arg_max,
    op.Softmax: _softmax,
    op.Concat: _concat,
    op.ResizeNearest: _resize_nearest,
    op.ResizeLinear: _resize_linear,
    op.Pad: _pad,
    op.Transpose: _transposed,
    op.Reshape: _reshape,
    op.Slice: _slice,
    op.Gather: _gather,
}
"""Instruction → the shapes its output may have. Those of ``Float`` are known to ONNX Runtime alone."""
