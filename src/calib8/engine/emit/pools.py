"""Pools, and reductions over axes: means, largest and smallest codes, where the largest lies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from calib8.engine import steps
from calib8.engine.emit.loops import six
from calib8.engine.emit.rescale import KINDS, rescale_fields
from calib8.engine.emitter import Emitter
from calib8.engine.fields import NONE, Axes, Rescale, Window
from calib8.engine.fuse import Work
from calib8.program import rules
from calib8.program.instructions import ArgMax, AveragePool, MaxPool, Mean, ReduceMax, ReduceMin

FLOAT_AVERAGE: Final = 1
CODE_AVERAGE: Final = 2
FIXED_AVERAGE: Final = 3
"""Kinds of an AveragePool step."""

REDUCE_KINDS: Final = {Mean: 0, ReduceMax: 1, ReduceMin: 2}
NO_RESCALE: Final = Rescale(0, NONE, NONE, 0, 0, 0)


def emit_max_pool(work: Work, out: Emitter) -> None:
    """One step; only taps inside the image are looked at, so a border may hold anything."""
    step = work.instruction
    assert isinstance(step, MaxPool)
    window = _window(step, step.dilations)
    out.add(steps.MaxPool(out.view(step.inputs[0]), out.view(work.output), window), work)


def emit_average_pool(work: Work, out: Emitter) -> None:
    """One step; the rule says how the sum of a window becomes its mean."""
    step, source, target = work.instruction, work.instruction.inputs[0], work.output
    assert isinstance(step, AveragePool)
    rule, rounding, arrays = step.rule, 0, (NONE, NONE)
    scales = (rule.input, rule.output) if isinstance(rule, rules.FloatAverage) else (1.0, 1.0)
    kind = FLOAT_AVERAGE if isinstance(rule, rules.FloatAverage) else CODE_AVERAGE
    if isinstance(rule, rules.FixedRescale):
        kind, rounding = FIXED_AVERAGE, KINDS[rule.rounding]
        arrays = (out.constant(rule.multiplier), out.constant(rule.shift))
    out.add(
        steps.AveragePool(
            input=out.view(source),
            output=out.view(target),
            window=_window(step, (1, 1)),
            count_pads=int(step.count_pads),
            kind=kind,
            input_scale=scales[0],
            output_scale=scales[1],
            rounding=rounding,
            multiplier=arrays[0],
            exponent=arrays[1],
            input_zero=out.slot(source).zero_point,
            output_zero=out.slot(target).zero_point,
            input_shift=out.shift(source),
            output_shift=out.shift(target),
            low=step.low + out.shift(target),
            high=step.high + out.shift(target),
        ),
        work,
    )


def _window(step: MaxPool | AveragePool, dilations: tuple[int, int]) -> Window:
    return Window(*step.kernel, *step.strides, *dilations, *step.pads)


def emit_reduce(work: Work, out: Emitter) -> None:
    """One step over the axes that stay and those that vanish, each merged where memory allows it."""
    step, source, target = work.instruction, work.instruction.inputs[0], work.output
    assert isinstance(step, Mean | ReduceMax | ReduceMin)
    shape, strides = out.slot(source).shape, out.strides(source)
    gone = {axis % len(shape) for axis in step.axes} if shape else set()
    targets = _target_strides(len(shape), gone, out.strides(target))
    axes = list(zip(shape, strides, targets, strict=True))
    outer = merged_axes([axis for number, axis in enumerate(axes) if number not in gone])
    inner = merged_axes([axis for number, axis in enumerate(axes) if number in gone])
    rescale = NO_RESCALE
    if isinstance(step, Mean):
        rescale = rescale_fields(out, step.rescale, step.low, step.high, target, 1)
    buffers = (*out.place(source), *out.place(target))
    out.add(
        steps.Reduce(
            *buffers,
            outer_sizes=_column(outer, 0, 1),
            outer_strides=_column(outer, 1, 0),
            target_strides=_column(outer, 2, 0),
            inner_sizes=_column(inner, 0, 1),
            inner_strides=_column(inner, 1, 0),
            kind=REDUCE_KINDS[type(step)],
            zero_point=out.stored_zero_point(source),
            rescale=rescale,
        ),
        work,
    )


def merged_axes(axes: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The same elements in the same order with as few axes as possible.

    Args:
        axes: (size, stride of the source, stride of the target), outermost first.

    >>> merged_axes([(2, 12, 12), (1, 99, 99), (3, 4, 4), (4, 1, 1)])
    [(24, 1, 1)]
    """
    result: list[tuple[int, int, int]] = []
    for size, source, target in axes:
        if size == 1:
            continue
        if result and result[-1][1:] == (size * source, size * target):
            size *= result.pop()[0]
        result.append((size, source, target))
    return result


def _target_strides(rank: int, gone: set[int], strides: Sequence[int]) -> list[int]:
    """Stride of the output per axis of the input; 0 for those that vanish."""
    if len(strides) == rank:
        return [0 if axis in gone else strides[axis] for axis in range(rank)]
    kept = iter(strides)
    return [0 if axis in gone else next(kept) for axis in range(rank)]


def _column(axes: Sequence[tuple[int, int, int]], part: int, fill: int) -> Axes:
    return six([axis[part] for axis in axes], fill)


def emit_arg_max(work: Work, out: Emitter) -> None:
    """One step over [everything before the axis, the axis, everything behind it]."""
    step, source = work.instruction, work.instruction.inputs[0]
    assert isinstance(step, ArgMax)
    shape = out.slot(source).shape
    axis = step.axis % len(shape)
    sizes = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    out.add(steps.ArgMax(*out.place(source), *out.place(work.output), *sizes, last=int(step.last)), work)
