"""Windows and axes that become one value: AVERAGE_POOL_2D, MAX_POOL_2D, MEAN, SUM, REDUCE_MAX, REDUCE_MIN.

An average pool is the mean of the codes, ties away from zero. MEAN and SUM rescale ``Σ (q − z_x)`` with
integers alone, for int8 and uint8.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from calib8.errors import NoFormError
from calib8.program.instructions import AveragePool, Lookup, MaxPool, Mean, ReduceMax, ReduceMin, Reshape
from calib8.program.lower_tflite.builder import Builder
from calib8.program.lower_tflite.chain import integers
from calib8.program.lower_tflite.codes import in_codes_of
from calib8.program.lower_tflite.windows import Window, activation_clamp, image_size, window
from calib8.program.rounding.linear import clamp
from calib8.program.rounding.pools import mean_rule
from calib8.program.rules import CodeAverage
from calib8.tflite.graph import Operator


def average_pool_2d(builder: Builder, operator: Operator) -> None:
    """Mean of the codes of a window; padding does not count."""
    source, target, kernel, place = _pool(builder, operator)
    low, high = activation_clamp(operator, builder.slots[target])
    ports = (builder.name(operator), (source,), (target,))
    builder.steps.append(
        AveragePool(*ports, kernel, place.strides, place.pads, False, CodeAverage(), low, high)
    )


def max_pool_2d(builder: Builder, operator: Operator) -> None:
    """Largest code of a window; a table clamps where an activation is fused."""
    source, target, kernel, place = _pool(builder, operator)
    name, slot = builder.name(operator), builder.slots[target]
    limits, (low, high) = np.iinfo(slot.dtype), activation_clamp(operator, slot)
    clamps = (low, high) != (limits.min, limits.max)
    pooled = builder.between(slot, slot.shape, "pool") if clamps else target
    builder.steps.append(MaxPool(name, (source,), (pooled,), kernel, place.strides, place.pads, (1, 1)))
    if clamps:
        codes = np.arange(limits.min, limits.max + 1)
        table = np.clip(codes, low, high).astype(slot.dtype)
        builder.steps.append(Lookup(name, (pooled,), (target,), table, "Clip"))


def _pool(builder: Builder, operator: Operator) -> tuple[int, int, tuple[int, int], Window]:
    """Input in the codes of the output, output, size of the window, and where it lies."""
    target = builder.number(operator.outputs[0])
    y = builder.codes(operator.outputs[0])
    source = in_codes_of(builder, operator.inputs[0], y)
    options = operator.options
    kernel = (int(options["filter_height"]), int(options["filter_width"]))  # type: ignore[arg-type]
    if min(kernel) < 1:
        raise NoFormError(f"its window is {kernel[0]}×{kernel[1]}")
    place = window(operator, image_size(builder.slots[source]), image_size(y), kernel)
    return source, target, kernel, place


def mean(builder: Builder, operator: Operator) -> None:
    """Mean over axes."""
    _rescaled(builder, operator, "mean")


def sum_over(builder: Builder, operator: Operator) -> None:
    """Sum over axes."""
    _rescaled(builder, operator, "sum")


def _rescaled(builder: Builder, operator: Operator, kind: Literal["mean", "sum"]) -> None:
    x, y = builder.codes(operator.inputs[0]), builder.codes(operator.outputs[0])
    if x.dtype != y.dtype:
        raise NoFormError(f"it reads {x.dtype} and writes {y.dtype}")
    source, axes = _reduced(builder, operator, builder.number(operator.inputs[0]))
    count = math.prod(builder.slots[source].shape[axis] for axis in axes)
    rule = mean_rule("tflite", x.scale, y.scale, count, kind)
    ports = ((source,), (builder.number(operator.outputs[0]),))
    builder.steps.append(Mean(builder.name(operator), *ports, axes, rule, *clamp("tflite", y, None, None)))


def reduce_max(builder: Builder, operator: Operator) -> None:
    """Largest code over axes."""
    _extreme(builder, operator, ReduceMax)


def reduce_min(builder: Builder, operator: Operator) -> None:
    """Smallest code over axes."""
    _extreme(builder, operator, ReduceMin)


def _extreme(builder: Builder, operator: Operator, make: type[ReduceMax] | type[ReduceMin]) -> None:
    target = builder.number(operator.outputs[0])
    source = in_codes_of(builder, operator.inputs[0], builder.codes(operator.outputs[0]))
    source, axes = _reduced(builder, operator, source)
    builder.steps.append(make(builder.name(operator), (source,), (target,), axes))


def _reduced(builder: Builder, operator: Operator, source: int) -> tuple[int, tuple[int, ...]]:
    """The slot and its axes that are reduced, ascending; of no axes at all, a further one of size 1.

    Raises:
        NoFormError: they are computed, or the input does not have them.
    """
    x = builder.slots[source]
    listed, rank = integers(builder, operator.inputs[1]), len(x.shape)
    if not all(-rank <= axis < rank for axis in listed):
        raise NoFormError(f"it reduces the axes {list(listed)} of {list(x.shape)}")
    if listed:
        return source, tuple(sorted({axis % rank for axis in listed}))
    single = builder.between(x, (*x.shape, 1), "single")
    builder.steps.append(Reshape(builder.name(operator), (source,), (single,)))
    return single, (rank,)
