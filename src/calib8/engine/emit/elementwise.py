"""Elementwise instructions: axes merged, operands that broadcast given strides of 0, one step each.

[1, 56, 56, 64] + [1, 56, 56, 64]      one axis of 200704
[2, 56, 56, 64] · [2, 1, 1, 64]        sizes 2, 3136, 64; strides of the right side 64, 0, 1
a border around one of the tensors     rows of 56 · 64 stay apart
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.engine import steps
from calib8.engine.emit.conv import stored_table
from calib8.engine.emit.loops import six
from calib8.engine.emit.rescale import KINDS, sum_fields
from calib8.engine.emitter import Emitter
from calib8.engine.fields import NONE, Pair, Rescale, Single
from calib8.engine.fuse import Work
from calib8.program import rules
from calib8.program.instructions import Add, AddSums, Lookup, Maximum, Minimum, Mul, Requantize, Sub

MOST_AXES: Final = 6
REPEATED, PADDED = 1024, 64
"""Entries that arrays of parameters per channel have at least, and what their number is a multiple of."""


def emit_requantize(work: Work, out: Emitter) -> None:
    """Sums to codes."""
    step = work.instruction
    assert isinstance(step, Requantize)
    rule, output = step.rescale, work.output
    shift = out.shift(output)
    codes = (out.stored_zero_point(output), step.low + shift, step.high + shift)
    if isinstance(rule, rules.FloatRescale):
        each = per_channel(rule.factor)
        rescale = Rescale(1, parameters(out, rule.factor, np.float32, each), NONE, *codes)
    else:
        each = per_channel(rule.multiplier, rule.shift)
        multiplier = parameters(out, rule.multiplier, np.int32, each)
        shifts = parameters(out, rule.shift, np.int32, each)
        rescale = Rescale(KINDS[rule.rounding], multiplier, shifts, *codes)
    tensors = single_fields(out, step.inputs[0], output, keep_last=each)
    out.add(steps.Requantize(tensors, int(each), rescale), work)


def emit_add(work: Work, out: Emitter) -> None:
    """Sum or difference of codes, and perhaps a table behind it."""
    step = work.instruction
    assert isinstance(step, Add | Sub)
    table = NONE if work.lookup is None else out.constant(stored_table(work, out))
    out.add(steps.Add(pair_fields(out, step.inputs, work.output), sum_fields(out, step), table), work)


def emit_add_sums(work: Work, out: Emitter) -> None:
    """Sum of two tensors of which one or both are sums; the left one of the step is."""
    step = work.instruction
    assert isinstance(step, AddSums)
    inputs, output, rule = step.inputs, work.output, step.rule
    arrays: list[npt.NDArray[Any]] = [out.slot(slot).scales for slot in inputs]
    if rule is not None:
        arrays = [rule.lhs, rule.rhs, rule.shift]
    if out.slot(inputs[0]).is_codes:
        inputs, arrays[:2] = inputs[::-1], arrays[1::-1]
    rhs = inputs[1]
    each = per_channel(*arrays)
    dtype = np.float32 if rule is None else np.int32
    places = [parameters(out, array, dtype, each) for array in np.broadcast_arrays(*arrays)]
    out.add(
        steps.AddSums(
            pair=pair_fields(out, inputs, output, keep_last=each),
            rhs_size=out.item_size(rhs),
            kind=1 if rule is None else 2,
            per_channel=int(each),
            lhs_factor=places[0],
            rhs_factor=places[1],
            right_shift=NONE if rule is None else places[2],
            output=out.slot(output).scale,
            rhs_zero=out.stored_zero_point(rhs),
            zero_point=out.stored_zero_point(output),
            low=step.low + out.shift(output),
            high=step.high + out.shift(output),
        ),
        work,
    )


def emit_mul(work: Work, out: Emitter) -> None:
    """Product of codes."""
    step = work.instruction
    assert isinstance(step, Mul)
    (lhs, rhs), output, rule = step.inputs, work.output, step.rescale
    kind, factor, multiplier, exponent = 1, 0.0, 0, 0
    if isinstance(rule, rules.FixedRescale):
        kind, multiplier, exponent = KINDS[rule.rounding], int(rule.multiplier[0]), int(rule.shift[0])
    else:
        factor = rule.factor
    out.add(
        steps.Mul(
            pair=pair_fields(out, step.inputs, output),
            lhs_zero=out.stored_zero_point(lhs),
            rhs_zero=out.stored_zero_point(rhs),
            kind=kind,
            factor=factor,
            multiplier=multiplier,
            exponent=exponent,
            zero_point=out.slot(output).zero_point,
            output_shift=out.shift(output),
            low=step.low + out.shift(output),
            high=step.high + out.shift(output),
        ),
        work,
    )


def emit_extreme(work: Work, out: Emitter) -> None:
    """The larger or the smaller code; stored codes are in the order of the raw ones."""
    step = work.instruction
    assert isinstance(step, Maximum | Minimum)
    pair = pair_fields(out, step.inputs, work.output)
    out.add(steps.Extreme(pair, int(isinstance(step, Maximum))), work)


def emit_lookup(work: Work, out: Emitter) -> None:
    """A table of stored codes, or one per channel."""
    step = work.instruction
    assert isinstance(step, Lookup)
    each = step.table.ndim == 2 and per_channel(step.table)
    table = (step.table.astype(np.int32) + out.shift(work.output)).astype(np.uint8)
    table = table if each else table.reshape(-1, 256)[0]
    tensors = single_fields(out, step.inputs[0], work.output, keep_last=each)
    out.add(steps.Lookup(tensors, int(each), out.constant(table)), work)


def per_channel(*arrays: npt.NDArray[Any]) -> bool:
    """Do parameters, each [1] or [channels] or [channels, …], differ between channels?"""
    return any(bool((array != array[0]).any()) for array in arrays)


def parameters(out: Emitter, array: npt.NDArray[Any], dtype: npt.DTypeLike, each: bool) -> int:
    """The constant of an array [1] or [channels]: its one value, or all of them repeated and padded."""
    if not each:
        return out.constant(array[:1].astype(dtype))
    size = max(array.size, REPEATED)
    return out.constant(np.resize(array, size + -size % PADDED).astype(dtype))


def single_fields(out: Emitter, source: int, target: int, *, keep_last: bool = False) -> Single:
    """Input and output with as few axes as can be.

    Args:
        out: the plan.
        source, target: slots of the same shape.
        keep_last: the last axis has parameters of its own.
    """
    shape = out.slot(target).shape
    sizes, strides = merged_axes(shape, [out.strides(source), out.strides(target)], keep_last=keep_last)
    axes = (six(sizes, 1), six(strides[0], 0), six(strides[1], 0))
    return Single(*axes, *out.place(source), *out.place(target))


def pair_fields(out: Emitter, inputs: Sequence[int], target: int, *, keep_last: bool = False) -> Pair:
    """Operands and output with as few axes as can be.

    Args:
        out: the plan.
        inputs: two slots that broadcast.
        target: slot that is written.
        keep_last: the last axis has parameters of its own.
    """
    shape = out.slot(target).shape
    tensors = [repeated(out.slot(slot).shape, out.strides(slot), shape) for slot in inputs]
    sizes, strides = merged_axes(shape, [*tensors, out.strides(target)], keep_last=keep_last)
    lhs, rhs, output = (six(axes, 0) for axes in strides)
    places = (*out.place(inputs[0]), *out.place(inputs[1]), *out.place(target))
    return Pair(six(sizes, 1), lhs, rhs, output, *places)


def repeated(shape: Sequence[int], strides: Sequence[int], target: Sequence[int]) -> list[int]:
    """Strides over a tensor that broadcasts to ``target``: 0 where it has one element for many."""
    front = [0] * (len(target) - len(shape))
    return front + [0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True)]


def merged_axes(
    shape: Sequence[int], tensors: Sequence[Sequence[int]], *, keep_last: bool
) -> tuple[list[int], list[list[int]]]:
    """Fewer axes that reach the same elements in the same order.

    Args:
        shape: sizes.
        tensors: strides, per tensor one per axis.
        keep_last: the last axis is not merged with others.

    Returns:
        sizes, and the strides of every tensor.

    >>> merged_axes((1, 4, 5), [(20, 5, 1), (0, 0, 1)], keep_last=False)
    ([4, 5], [[5, 1], [0, 1]])
    """
    sizes: list[int] = []
    strides: list[list[int]] = []  # per axis
    last = len(shape) - 1
    for axis, size in enumerate(shape):
        apart = keep_last and axis == last
        if size == 1 and not apart:
            continue
        steps_here = [int(tensor[axis]) for tensor in tensors]
        follows = strides and strides[-1] == [step * size for step in steps_here]
        if follows and not apart:
            sizes[-1] *= size
            strides[-1] = steps_here
        else:
            sizes.append(size)
            strides.append(steps_here)
    return sizes, [[axis[tensor] for axis in strides] for tensor in range(len(tensors))]
