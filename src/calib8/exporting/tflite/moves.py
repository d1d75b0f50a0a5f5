"""What only moves codes: RESHAPE, TRANSPOSE, SLICE, STRIDED_SLICE, GATHER, CONCATENATION, PAD, resizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calib8.errors import NoFormError
from calib8.exporting.tflite.builder import Builder, LayerSums, slot_codes
from calib8.exporting.tflite.windows import padded
from calib8.program.instructions import (
    Concat,
    Constant,
    Gather,
    Pad,
    Reshape,
    ResizeLinear,
    ResizeNearest,
    Slice,
    Transpose,
)
from calib8.program.rounding.resize import linear_axis
from calib8.program.rules import LinearAxis


def reshape(builder: Builder, step: Reshape) -> None:
    """The same elements in the same order."""
    if step.inputs[0] in builder.sums:
        raise NoFormError("it reshapes sums that nothing has quantized")
    target = builder.tensor(step.outputs[0])
    reshaped(builder, builder.tensor(step.inputs[0]), target)


def reshaped(builder: Builder, source: int, target: int) -> None:
    """RESHAPE to the shape that the target has."""
    shape = builder.tensors[target].shape
    builder.operator("RESHAPE", [source, builder.ints("shape", shape)], [target], new_shape=shape)


def transpose(builder: Builder, step: Transpose) -> None:
    """Another order of axes; behind a layer of sums it waits for whoever reads them."""
    if step.inputs[0] in builder.sums:
        before = builder.sums[step.inputs[0]]
        builder.sums[step.outputs[0]] = LayerSums(before.step, (*before.moves, step))
        return
    fed = builder.fed.get(step.inputs[0])
    if fed is not None and fed.codes is not None and fed.axes == step.axes:
        builder.places[step.outputs[0]] = fed.codes
        return
    transposed(builder, builder.tensor(step.inputs[0]), builder.tensor(step.outputs[0]), step.axes)


def transposed(builder: Builder, source: int, target: int, axes: Sequence[int]) -> None:
    """Output axis i is input axis ``axes[i]``."""
    builder.operator("TRANSPOSE", [source, builder.ints("perm", axes)], [target])


def slice_(builder: Builder, step: Slice) -> None:
    """SLICE, or STRIDED_SLICE where steps are not 1."""
    source, target = builder.tensor(step.inputs[0]), builder.tensor(step.outputs[0])
    shape = builder.slot(step.outputs[0]).shape
    if all(stride == 1 for stride in step.steps):
        begin, size = builder.ints("begin", step.starts), builder.ints("size", shape)
        builder.operator("SLICE", [source, begin, size], [target])
        return
    ends, mask = [], 0
    for axis, (start, stride, count) in enumerate(zip(step.starts, step.steps, shape, strict=True)):
        end = start + (count - 1) * stride + (1 if stride > 0 else -1)
        if end < 0:  # a negative end would count from the back
            mask |= 1 << axis
            end = 0
        ends.append(end)
    lists = (step.starts, ends, step.steps)
    names = ("begin", "end", "strides")
    constants = [builder.ints(name, values) for name, values in zip(names, lists, strict=True)]
    builder.operator(
        "STRIDED_SLICE", [source, *constants], [target],
        begin_mask=0, end_mask=mask, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0,
    )  # fmt: skip


def gather(builder: Builder, step: Gather) -> None:
    """Constant indices along one axis."""
    gathered(
        builder, builder.tensor(step.inputs[0]), builder.tensor(step.outputs[0]), step.axis, step.indices
    )


def gathered(builder: Builder, source: int, target: int, axis: int, indices: Any) -> None:
    """GATHER with constant indices."""
    places = builder.ints("indices", indices)
    builder.operator("GATHER", [source, places], [target], axis=axis, batch_dims=0)


def concat(builder: Builder, step: Concat) -> None:
    """Side by side."""
    inputs = [builder.tensor(number) for number in step.inputs]
    builder.operator(
        "CONCATENATION", inputs, [builder.tensor(step.outputs[0])],
        axis=step.axis, fused_activation_function="NONE",
    )  # fmt: skip


def constant(builder: Builder, step: Constant) -> None:
    """A tensor with data."""
    slot = builder.slot(step.outputs[0])
    builder.places[step.outputs[0]] = builder.constant(slot.name, step.values, slot_codes(slot))


def pad(builder: Builder, step: Pad) -> None:
    """Borders of one code."""
    widths = list(zip(step.before, step.after, strict=True))
    source, target = builder.tensor(step.inputs[0]), builder.tensor(step.outputs[0])
    padded(builder, source, target, widths, step.value)


RESIZES = ((False, False), (False, True), (True, False))
"""(align_corners, half_pixel_centers) that TFLite has."""


def resize_nearest(builder: Builder, step: ResizeNearest) -> None:
    """RESIZE_NEAREST_NEIGHBOR where it picks the very pixels, else a GATHER per axis."""
    source, target = builder.tensor(step.inputs[0]), builder.tensor(step.outputs[0])
    have, out = (builder.slot(number).shape for number in (step.inputs[0], step.outputs[0]))
    size = builder.ints("size", out[1:3])
    for align, half in RESIZES:
        picked = [nearest(have[axis], out[axis], align, half) for axis in (1, 2)]
        if np.array_equal(picked[0], step.rows) and np.array_equal(picked[1], step.columns):
            builder.operator(
                "RESIZE_NEAREST_NEIGHBOR", [source, size], [target],
                align_corners=align, half_pixel_centers=half,
            )  # fmt: skip
            return
    between = builder.like(source, "rows", (have[0], out[1], *have[2:]))
    gathered(builder, source, between, 1, step.rows)
    gathered(builder, between, target, 2, step.columns)


def nearest(have: int, out: int, align: bool, half: bool) -> Any:
    """Pixels that TFLite's kernel picks along one axis, in its float32 arithmetic."""
    one = np.float32(1)
    corners = align and out > 1
    scale = np.float32(have - 1) / np.float32(out - 1) if corners else np.float32(have) / np.float32(out)
    at = (np.arange(out).astype(np.float32) + (np.float32(0.5) if half else np.float32(0))) * scale * one
    picked = np.floor(at + np.float32(0.5)) if align else np.floor(at)
    return np.clip(picked.astype(np.int64), 0, have - 1)


def resize_linear(builder: Builder, step: ResizeLinear) -> None:
    """RESIZE_BILINEAR where its steps are those of the instruction.

    Raises:
        NoFormError: coordinates that TFLite does not have.
    """
    source, target = builder.tensor(step.inputs[0]), builder.tensor(step.outputs[0])
    have, out = (builder.slot(number).shape for number in (step.inputs[0], step.outputs[0]))
    modes = {"asymmetric": (False, False), "half_pixel": (False, True), "align_corners": (True, False)}
    for mode, (align, half) in modes.items():
        axes = [
            linear_axis(
                "tflite", have[axis], out[axis], float(np.float32(out[axis]) / np.float32(have[axis])), mode
            )
            for axis in (1, 2)
        ]
        if _same(axes[0], step.rows) and _same(axes[1], step.columns):
            builder.operator(
                "RESIZE_BILINEAR", [source, builder.ints("size", out[1:3])], [target],
                align_corners=align, half_pixel_centers=half,
            )  # fmt: skip
            return
    raise NoFormError("it interpolates at coordinates that RESIZE_BILINEAR does not have")


def _same(a: LinearAxis, b: LinearAxis) -> bool:
    return all(
        np.array_equal(left, right)
        for left, right in ((a.low, b.low), (a.high, b.high), (a.fraction, b.fraction))
    )
