"""GroupNorm: one step over all images and groups."""

from __future__ import annotations

from typing import Final

from calib8.engine import steps
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fields import NONE
from calib8.engine.fuse import Work
from calib8.program.instructions import GroupNorm
from calib8.program.rules import FixedGroupNorm, group_epsilon_bits


def emit_group_norm(work: Work, out: Emitter) -> None:
    """One step; the arrays of its rule are constants."""
    step, source = work.instruction, work.instruction.inputs[0]
    assert isinstance(step, GroupNorm)
    rule, stored, shape = step.rule, out.shift(work.output), out.slot(source).shape
    if isinstance(rule, FixedGroupNorm):
        kind, factor = "fixed", out.constant(rule.multiplier)
        shifts = out.constant(rule.multiplier_shift), out.constant(rule.offset_shift)
        epsilon, whole = 0.0, rule.epsilon
    else:
        kind, factor, shifts = "float", out.constant(rule.factor), (NONE, NONE)
        epsilon, whole = rule.epsilon, 0
    out.add(
        steps.GroupNorm(
            input=out.view(source),
            output=out.view(work.output),
            kind=steps.GroupNorm.kinds[kind],
            groups=step.groups,
            factor=factor,
            offset=out.constant(rule.offset),
            factor_shift=shifts[0],
            offset_shift=shifts[1],
            epsilon=epsilon,
            whole_epsilon=whole,
            epsilon_bits=group_epsilon_bits(shape[1] * shape[2] * (shape[3] // step.groups)),
            zero_point=out.stored_zero_point(work.output),
            low=step.low + stored,
            high=step.high + stored,
        ),
        work,
    )


EMIT: Final[Emits] = {
    GroupNorm: emit_group_norm,
}
