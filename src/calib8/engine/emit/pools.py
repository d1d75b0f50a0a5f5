"""Pools, and reductions over axes: means, lengths, largest and smallest codes, where the largest lies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from calib8.engine import steps
from calib8.engine.emit.loops import SOURCE, TARGET, Nest, cut, loops_over, merged
from calib8.engine.emit.rescale import NO_RESCALE, rescale_fields
from calib8.engine.emit.widths import sized_length
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.few_axes import gone_axes
from calib8.engine.fields import NONE, Rescale, Window
from calib8.engine.fuse import Work
from calib8.program import rules
from calib8.program.instructions import ArgMax, AveragePool, MaxPool, Mean, ReduceL2, ReduceMax, ReduceMin

REDUCE_KINDS: Final = {Mean: "mean", ReduceL2: "length", ReduceMax: "largest", ReduceMin: "smallest"}


def emit_max_pool(work: Work, out: Emitter) -> None:
    """One step; only taps inside the image are looked at, so a border may hold anything."""
    step = work.instruction
    assert isinstance(step, MaxPool)
    window = window_fields(step, step.dilations)
    out.add(steps.MaxPool(out.view(step.inputs[0]), out.view(work.output), window), work)


def emit_average_pool(work: Work, out: Emitter) -> None:
    """One step; the rule says how the sum of a window becomes its mean."""
    step, source, target = work.instruction, work.instruction.inputs[0], work.output
    assert isinstance(step, AveragePool)
    rule, rounding, arrays = step.rule, 0, (NONE, NONE)
    scales, kind = (1.0, 1.0), "codes"
    if isinstance(rule, rules.FloatAverage):
        scales, kind = (rule.input, rule.output), "float"
    if isinstance(rule, rules.RealAverage):
        scales, kind = (out.slot(source).scale, out.slot(target).scale), "real"
    if isinstance(rule, rules.FixedRescale):
        kind, rounding = "fixed", Rescale.kinds[rule.rounding]
        arrays = (out.constant(rule.multiplier), out.constant(rule.shift))
    out.add(
        steps.AveragePool(
            input=out.view(source),
            output=out.view(target),
            window=window_fields(step, (1, 1)),
            count_pads=int(step.count_pads),
            kind=steps.AveragePool.kinds[kind],
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


def window_fields(step: MaxPool | AveragePool, dilations: tuple[int, int]) -> Window:
    """The window of a pool."""
    return Window(*step.kernel, *step.strides, *dilations, *step.pads)


def emit_reduce(work: Work, out: Emitter) -> None:
    """One step (several beyond six axes that stay), axes merged where memory allows it.

    Those that vanish are six loops at most: ``few_axes`` has seen to that.
    """
    step, source, target = work.instruction, work.instruction.inputs[0], work.output
    assert isinstance(step, Mean | ReduceL2 | ReduceMax | ReduceMin)
    shape = out.slot(source).shape
    gone = gone_axes(step, len(shape))
    targets = _target_strides(shape, gone, out.slot(target).shape, out.strides(target))
    loops = loops_over(shape, [out.strides(source), targets])
    outer = merged([loop for axis, loop in enumerate(loops) if axis not in gone])
    inner = Nest((0, 0), tuple(merged([loop for axis, loop in enumerate(loops) if axis in gone])))
    rescale = NO_RESCALE
    if isinstance(step, Mean | ReduceL2):
        rescale = rescale_fields(out, step.rescale, step.low, step.high, target, 1)
    for nest in cut(outer, tensors=2):
        reduction = steps.Reduce(
            *out.place_at(source, nest.starts[SOURCE]),
            *out.place_at(target, nest.starts[TARGET]),
            outer_sizes=nest.sizes,
            outer_strides=nest.strides(SOURCE),
            target_strides=nest.strides(TARGET),
            inner_sizes=inner.sizes,
            inner_strides=inner.strides(SOURCE),
            kind=steps.Reduce.kinds[REDUCE_KINDS[type(step)]],
            zero_point=out.stored_zero_point(source),
            rescale=rescale,
        )
        out.add(sized_length(reduction, work, out), work)


def _target_strides(
    shape: Sequence[int], gone: set[int], target: Sequence[int], strides: Sequence[int]
) -> list[int]:
    """Stride of the output per axis of the input; 0 for those that vanish, and those of size 1."""
    kept = iter([stride for size, stride in zip(target, strides, strict=True) if size > 1])
    return [0 if axis in gone or size == 1 else next(kept) for axis, size in enumerate(shape)]


def emit_arg_max(work: Work, out: Emitter) -> None:
    """One step over [everything before the axis, the axis, everything behind it]."""
    step, source = work.instruction, work.instruction.inputs[0]
    assert isinstance(step, ArgMax)
    shape = out.slot(source).shape
    axis = step.axis % len(shape)
    sizes = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    item = out.item_size(work.output)
    out.add(
        steps.ArgMax(*out.place(source), *out.place(work.output), *sizes, last=int(step.last), item=item),
        work,
    )


EMIT: Final[Emits] = {
    MaxPool: emit_max_pool,
    AveragePool: emit_average_pool,
    Mean: emit_reduce,
    ReduceL2: emit_reduce,
    ReduceMax: emit_reduce,
    ReduceMin: emit_reduce,
    ArgMax: emit_arg_max,
}
