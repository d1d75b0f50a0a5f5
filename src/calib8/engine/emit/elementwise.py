"""Elementwise instructions: axes merged, operands that broadcast given strides of 0, a step or a few each.

[1, 56, 56, 64] + [1, 56, 56, 64]      one axis of 200704
[2, 56, 56, 64] · [2, 1, 1, 64]        sizes 2, 3136, 64; strides of the right side 64, 0, 1
a border around one of the tensors     rows of 56 · 64 stay apart
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8 import _core
from calib8.engine import steps
from calib8.engine.emit.conv import fused_table, stored_table
from calib8.engine.emit.loops import Nest, cut, loops_over, merged
from calib8.engine.emit.rescale import rescale_fields, sum_fields
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fields import NONE, Pair, Rescale, Single
from calib8.engine.fuse import Work
from calib8.program import rules
from calib8.program.instructions import (
    Add,
    AddSums,
    Div,
    Lookup,
    Maximum,
    Minimum,
    Mul,
    RealPair,
    RealRescale,
    Requantize,
    Sub,
)


def emit_requantize(work: Work, out: Emitter) -> None:
    """Sums to codes."""
    step = work.instruction
    assert isinstance(step, Requantize)
    rule, output = step.rescale, work.output
    arrays = (rule.factor,) if isinstance(rule, rules.FloatRescale) else (rule.multiplier, rule.shift)
    each, channels = per_channel(*arrays), np.broadcast(*arrays).size
    rescale = rescale_fields(out, rule, step.low, step.high, output, channels, repeating(channels, each))
    for tensors in single_fields(out, step.inputs[0], output, keep_last=each):
        out.add(steps.Requantize(tensors, int(each), rescale), work)


def emit_add(work: Work, out: Emitter) -> None:
    """Sum or difference of codes, and perhaps a table behind it."""
    step = work.instruction
    assert isinstance(step, Add | Sub)
    table = fused_table(work, out)
    rule = sum_fields(out, step)
    for pair in pair_fields(out, step.inputs, work.output):
        out.add(steps.Add(pair, rule, table), work)


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
    arrays = list(np.broadcast_arrays(*arrays))
    channels = repeating(arrays[0].size, each)
    places = [out.constant(array[channels].astype(dtype)) for array in arrays]
    for pair in pair_fields(out, inputs, output, keep_last=each):
        out.add(
            steps.AddSums(
                pair=pair,
                rhs_size=out.item_size(rhs),
                kind=steps.AddSums.kinds["float" if rule is None else "aligned"],
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
    for pair in pair_fields(out, step.inputs, work.output):
        out.add(steps.Mul(pair, **product_fields(step, work.output, out)), work)


def product_fields(step: Mul, output: int, out: Emitter) -> dict[str, Any]:
    """Fields of a product but for its tensors."""
    lhs, rhs = step.inputs
    rule = step.rescale
    factor, multiplier, exponent = 0.0, 0, 0
    if isinstance(rule, rules.FixedRescale):
        multiplier, exponent = int(rule.multiplier[0]), int(rule.shift[0])
    else:
        factor = rule.factor
    return {
        "lhs_zero": out.stored_zero_point(lhs),
        "rhs_zero": out.stored_zero_point(rhs),
        "kind": Rescale.kinds["float" if isinstance(rule, rules.FloatProduct) else rule.rounding],
        "factor": factor,
        "multiplier": multiplier,
        "exponent": exponent,
        "zero_point": out.slot(output).zero_point,
        "output_shift": out.shift(output),
        "low": step.low + out.shift(output),
        "high": step.high + out.shift(output),
    }


def emit_div(work: Work, out: Emitter) -> None:
    """Quotient of codes; its tables are in the order of the stored codes."""
    step, output = work.instruction, work.output
    assert isinstance(step, Div)
    rule = step.rule
    if isinstance(rule, rules.FixedQuotient):
        kind, scales, divisor = "fixed", (0.0, 0.0), NONE
        factors = (out.constant(rule.multiplier), out.constant(rule.shift))
    else:
        kind, scales, factors = "float", (rule.lhs, rule.output), (NONE, NONE)
        divisor = out.constant(rule.divisor)
    for pair in pair_fields(out, step.inputs, output):
        out.add(
            steps.Div(
                pair=pair,
                lhs_zero=out.stored_zero_point(step.inputs[0]),
                kind=steps.Div.kinds[kind],
                lhs=scales[0],
                output=scales[1],
                divisor=divisor,
                multiplier=factors[0],
                shift=factors[1],
                zero_point=out.stored_zero_point(output),
                low=step.low + out.shift(output),
                high=step.high + out.shift(output),
            ),
            work,
        )


def emit_real_rescale(work: Work, out: Emitter) -> None:
    """Sums to codes by way of real numbers."""
    step, output = work.instruction, work.output
    assert isinstance(step, RealRescale)
    each, channels = per_channel(step.factor), step.factor.size
    factor = out.constant(step.factor[repeating(channels, each)].astype(np.float32))
    codes = _stored_clamp(step, output, out)
    for tensors in single_fields(out, step.inputs[0], output, keep_last=each):
        out.add(steps.RealRescale(tensors, int(each), factor, step.input, step.output, *codes), work)


def emit_real_pair(work: Work, out: Emitter) -> None:
    """Sum, difference or product of codes by way of real numbers, and perhaps a table behind it."""
    step = work.instruction
    assert isinstance(step, RealPair)
    table, output = fused_table(work, out), step.outputs[0]
    slots = (*step.inputs, output)
    for pair in pair_fields(out, step.inputs, work.output):
        out.add(
            steps.RealPair(
                pair,
                steps.RealPair.kinds[step.kind],
                *(out.slot(slot).scale for slot in slots),
                *(out.stored_zero_point(slot) for slot in step.inputs),
                *_stored_clamp(step, output, out),
                table,
            ),
            work,
        )


def _stored_clamp(step: RealRescale | RealPair, output: int, out: Emitter) -> tuple[int, int, int]:
    """Zero point and clamp of the codes that are written, as they are stored."""
    shift = out.shift(output)
    return out.stored_zero_point(output), step.low + shift, step.high + shift


def emit_extreme(work: Work, out: Emitter) -> None:
    """The larger or the smaller code; stored codes are in the order of the raw ones."""
    step = work.instruction
    assert isinstance(step, Maximum | Minimum)
    for pair in pair_fields(out, step.inputs, work.output):
        out.add(steps.Extreme(pair, int(isinstance(step, Maximum))), work)


def emit_lookup(work: Work, out: Emitter) -> None:
    """A table of stored codes, or one per channel."""
    step = work.instruction
    assert isinstance(step, Lookup)
    each = step.table.ndim == 2 and per_channel(step.table)
    table = step.table if each else step.table.reshape(-1, 256)[0]
    constant = out.constant(stored_table(table, work, out))
    for tensors in single_fields(out, step.inputs[0], work.output, keep_last=each):
        out.add(steps.Lookup(tensors, int(each), constant), work)


def per_channel(*arrays: npt.NDArray[Any]) -> bool:
    """Do parameters, each [1] or [channels] or [channels, …], differ between channels?"""
    return any(bool((array != array[0]).any()) for array in arrays)


def repeating(channels: int, each: bool) -> npt.NDArray[np.int64]:
    """The channel of every entry of an array of parameters: all of them again and again, or one for all."""
    size = max(channels, _core.engine.REPEATED)
    return np.arange(size + -size % _core.engine.PADDED) % channels if each else np.zeros(1, np.int64)


def single_fields(out: Emitter, source: int, target: int, *, keep_last: bool = False) -> list[Single]:
    """Input and output with as few axes as can be; several times where those are more than six.

    Args:
        out: the plan.
        source, target: slots of the same shape.
        keep_last: the last axis has parameters of its own.
    """
    loops = loops_over(out.slot(target).shape, [out.strides(source), out.strides(target)])
    found = cut(merged(loops, keep_last=keep_last), tensors=2)
    return [
        Single(nest.sizes, nest.strides(0), nest.strides(1), *_places(out, nest, (source, target)))
        for nest in found
    ]


def pair_fields(out: Emitter, inputs: Sequence[int], target: int, *, keep_last: bool = False) -> list[Pair]:
    """Operands and output with as few axes as can be; several times where those are more than six.

    Args:
        out: the plan.
        inputs: two slots that broadcast.
        target: slot that is written.
        keep_last: the last axis has parameters of its own.
    """
    shape = out.slot(target).shape
    tensors = [repeated(out.slot(slot).shape, out.strides(slot), shape) for slot in inputs]
    loops = merged(loops_over(shape, [*tensors, out.strides(target)]), keep_last=keep_last)
    found = cut(loops, tensors=3)
    slots = (*inputs, target)
    return [
        Pair(nest.sizes, nest.strides(0), nest.strides(1), nest.strides(2), *_places(out, nest, slots))
        for nest in found
    ]


def _places(out: Emitter, nest: Nest, numbers: Sequence[int]) -> list[int]:
    """Buffer and offset of every tensor."""
    places = zip(numbers, nest.starts, strict=True)
    return [part for number, start in places for part in out.place_at(number, start)]


def repeated(shape: Sequence[int], strides: Sequence[int], target: Sequence[int]) -> list[int]:
    """Strides over a tensor that broadcasts to ``target``: 0 where it has one element for many."""
    front = [0] * (len(target) - len(shape))
    return front + [0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True)]


EMIT: Final[Emits] = {
    Requantize: emit_requantize,
    Add: emit_add,
    Sub: emit_add,
    AddSums: emit_add_sums,
    Mul: emit_mul,
    Div: emit_div,
    RealRescale: emit_real_rescale,
    RealPair: emit_real_pair,
    Maximum: emit_extreme,
    Minimum: emit_extreme,
    Lookup: emit_lookup,
}
