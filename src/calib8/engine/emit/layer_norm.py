"""LayerNorm: one step over all rows, wherever they lie."""

from __future__ import annotations

from typing import Final

from calib8.engine import steps
from calib8.engine.emit.widths import sized_norm
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fields import NONE
from calib8.engine.fuse import Work
from calib8.program.instructions import LayerNorm
from calib8.program.rules import FixedNorm


def emit_layer_norm(work: Work, out: Emitter) -> None:
    """One step; the arrays of its rule are constants."""
    step, source = work.instruction, work.instruction.inputs[0]
    assert isinstance(step, LayerNorm)
    rule, stored = step.rule, out.shift(work.output)
    if isinstance(rule, FixedNorm):
        kind, factor, shift = "fixed", out.constant(rule.multiplier), out.constant(rule.shift)
        epsilon, whole_epsilon = 0.0, rule.epsilon
    else:
        kind, factor, shift = "float", out.constant(rule.factor), NONE
        epsilon, whole_epsilon = rule.epsilon, 0
    norm = steps.LayerNorm(
        input=out.view(source),
        output=out.view(work.output),
        kind=steps.LayerNorm.kinds[kind],
        factor=factor,
        offset=out.constant(rule.offset),
        shift=shift,
        epsilon=epsilon,
        whole_epsilon=whole_epsilon,
        centre=-1 if step.centred else out.stored_zero_point(source),
        zero_point=out.stored_zero_point(work.output),
        low=step.low + stored,
        high=step.high + stored,
    )
    out.add(sized_norm(norm, work, out, centred=step.centred), work)


EMIT: Final[Emits] = {
    LayerNorm: emit_layer_norm,
}
