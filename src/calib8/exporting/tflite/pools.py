"""Pools over windows, means and extremes over axes, ARG_MAX, ARG_MIN, SOFTMAX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from calib8.errors import NoFormError
from calib8.exporting.tflite.builder import Builder
from calib8.exporting.tflite.moves import reshaped
from calib8.exporting.tflite.windows import border, bordered, padding
from calib8.program.instructions import (
    ArgMax,
    ArgMin,
    AveragePool,
    GroupNorm,
    LayerNorm,
    MaxPool,
    Mean,
    ReduceL2,
    ReduceMax,
    ReduceMin,
    Softmax,
)
from calib8.program.program import Slot
from calib8.program.rounding.pools import mean_rule
from calib8.program.rules import FixedRescale
from calib8.tflite.graph import Quantization

OWN_DILATION = (1, 1)


def max_pool(builder: Builder, step: MaxPool) -> None:
    """Largest code of a window; a border of the lowest code never wins."""
    if step.dilations != OWN_DILATION:
        raise NoFormError("its window is dilated")
    ends = np.iinfo(builder.slot(step.inputs[0]).dtype)
    _pool(builder, step, "MAX_POOL_2D", ends.min, (ends.min, ends.max))


def average_pool(builder: Builder, step: AveragePool) -> None:
    """Mean of a window; a border of zero points counts as zeros."""
    zero = builder.slot(step.inputs[0]).zero_point
    limits = (step.low, step.high)
    if step.count_pads:
        _pool(builder, step, "AVERAGE_POOL_2D", zero, limits, counted=True)
    else:
        _pool(builder, step, "AVERAGE_POOL_2D", None, limits)


def _pool(
    builder: Builder,
    step: MaxPool | AveragePool,
    op: str,
    code: int | None,
    limits: tuple[int, int],
    counted: bool = False,
) -> None:
    """``code``: of a border that changes nothing, None where there is none; ``counted``: SAME counts less."""
    x, out = builder.slot(step.inputs[0]), builder.slot(step.outputs[0])
    window = (x.shape[1:3], out.shape[1:3], step.kernel, step.strides, OWN_DILATION, step.pads)
    kind, source = padding(*window), builder.tensor(step.inputs[0])
    if kind is None or (counted and kind == "SAME"):
        if code is None:
            raise NoFormError(f"its padding {list(step.pads)}, which does not count, is not that of SAME")
        source, kind = bordered(builder, source, border(*window), code), "VALID"

    def make(target: int, activation: str) -> None:
        builder.operator(
            op, [source], [target], padding=kind or "VALID",
            stride_h=step.strides[0], stride_w=step.strides[1],
            filter_height=step.kernel[0], filter_width=step.kernel[1],
            fused_activation_function=activation,
        )  # fmt: skip

    builder.clamped(builder.tensor(step.outputs[0]), out, *limits, make)


def mean(builder: Builder, step: Mean) -> None:
    """MEAN; a sum as a convolution with ones."""
    x, y = builder.slot(step.inputs[0]), builder.slot(step.outputs[0])
    count = math.prod(x.shape[axis] for axis in step.axes)
    if _has_rule(step, x.scale, y.scale, count, "mean"):
        _mean(builder, step, y)
    elif _has_rule(step, x.scale, y.scale, count, "sum"):
        _sum(builder, step, x, y, count)
    else:
        raise NoFormError("its factor is neither that of a mean nor that of a sum")


def _has_rule(step: Mean, x_scale: float, y_scale: float, count: int, kind: Literal["mean", "sum"]) -> bool:
    rule, own = mean_rule("tflite", x_scale, y_scale, count, kind), step.rescale
    if not (isinstance(rule, FixedRescale) and isinstance(own, FixedRescale)):
        return False
    return np.array_equal(rule.multiplier, own.multiplier) and np.array_equal(rule.shift, own.shift)


def _mean(builder: Builder, step: Mean, y: Slot) -> None:
    def make(target: int, activation: str) -> None:
        _reduce(builder, "MEAN", step.inputs[0], target, step.axes)

    builder.clamped(builder.tensor(step.outputs[0]), y, step.low, step.high, make, fused=False)


def _sum(builder: Builder, step: Mean, x: Slot, y: Slot, count: int) -> None:
    """``x → TRANSPOSE (axes last) → RESHAPE [1, rows, 1, count] → CONV_2D with ones → RESHAPE → y``.

    LiteRT 2.3's reference kernel of SUM reads int8 codes as uint8. The convolution sums the same codes and
    has the factor s_x·1 / s_y of the sum, which it rounds as SUM does.
    """
    source, rows = builder.tensor(step.inputs[0]), math.prod(x.shape) // count
    order = [axis for axis in range(len(x.shape)) if axis not in step.axes] + list(step.axes)
    if order != sorted(order):
        turned = builder.like(source, "axes", [x.shape[axis] for axis in order])
        builder.operator("TRANSPOSE", [source, builder.ints("perm", order)], [turned])
        source = turned
    rowwise = builder.like(source, "rows", (1, rows, 1, count))
    reshaped(builder, source, rowwise)
    zero = np.zeros(1, np.int64)
    weight = builder.constant(
        "ones", np.ones((1, 1, 1, count), np.int8), Quantization(np.ones(1, np.float32), zero)
    )
    steps = Quantization(np.array([x.scale], np.float32), zero)
    bias = builder.constant(f"{step.name}/bias", np.zeros(1, np.int32), steps)

    def make(target: int, activation: str) -> None:
        summed = builder.like(target, "sums", (1, rows, 1, 1))
        builder.operator(
            "CONV_2D", [rowwise, weight, bias], [summed],
            padding="VALID", stride_h=1, stride_w=1, dilation_h_factor=1, dilation_w_factor=1,
            fused_activation_function=activation,
        )  # fmt: skip
        reshaped(builder, summed, target)

    builder.clamped(builder.tensor(step.outputs[0]), y, step.low, step.high, make)


def extreme(builder: Builder, step: ReduceMax | ReduceMin) -> None:
    """Largest or smallest code over axes."""
    op = "REDUCE_MAX" if isinstance(step, ReduceMax) else "REDUCE_MIN"
    _reduce(builder, op, step.inputs[0], builder.tensor(step.outputs[0]), step.axes)


def _reduce(builder: Builder, op: str, source: int, target: int, axes: Sequence[int]) -> None:
    keeps = len(builder.tensors[target].shape) == len(builder.slot(source).shape)
    listed = builder.ints("axes", axes)
    builder.operator(op, [builder.tensor(source), listed], [target], keep_dims=keeps)


def arg_extreme(builder: Builder, step: ArgMax | ArgMin) -> None:
    """Index of the first largest or smallest code.

    Raises:
        NoFormError: the last one is asked for.
    """
    if step.last:
        raise NoFormError("it asks for the last of equal indices")
    x, y = builder.slot(step.inputs[0]), builder.slot(step.outputs[0])
    target = builder.tensor(step.outputs[0])
    short = tuple(size for axis, size in enumerate(x.shape) if axis != step.axis)
    result = target if y.shape == short else builder.add(f"{y.name}/index", short, y.dtype)
    axis = builder.ints("axis", [step.axis])
    op = "ARG_MAX" if isinstance(step, ArgMax) else "ARG_MIN"
    builder.operator(op, [builder.tensor(step.inputs[0]), axis], [result], 2, output_type=y.dtype.upper())
    if result != target:
        reshaped(builder, result, target)


def softmax(builder: Builder, step: Softmax) -> None:
    """Over the last axis."""
    builder.operator("SOFTMAX", [builder.tensor(step.inputs[0])], [builder.tensor(step.outputs[0])], beta=1.0)


def normalized(builder: Builder, step: LayerNorm | GroupNorm | ReduceL2) -> None:
    """Rows or groups of channels with mean 0 and spread 1, and lengths.

    Raises:
        NoFormError: TensorFlow Lite has no operator for them.
    """
    raise NoFormError("there is no operator for it")
