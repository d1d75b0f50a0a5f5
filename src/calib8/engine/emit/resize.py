"""Linear Resize: two neighbours and a fraction for every output row and column."""

from __future__ import annotations

from typing import Final

from calib8.engine import steps
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fuse import Work
from calib8.program.instructions import ResizeLinear


def emit_resize_linear(work: Work, out: Emitter) -> None:
    """One step; weights of a pixel are multiplied when it runs."""
    step, source, target = work.instruction, work.instruction.inputs[0], work.output
    assert isinstance(step, ResizeLinear)
    out.add(
        steps.ResizeLinear(
            input=out.view(source),
            output=out.view(target),
            rounding=steps.ResizeLinear.kinds[step.rows.rounding],
            row_low=out.constant(step.rows.low),
            row_high=out.constant(step.rows.high),
            row_fraction=out.constant(step.rows.fraction),
            column_low=out.constant(step.columns.low),
            column_high=out.constant(step.columns.high),
            column_fraction=out.constant(step.columns.fraction),
            input_scale=out.slot(source).scale,
            output_scale=out.slot(target).scale,
            input_zero=out.slot(source).zero_point,
            output_zero=out.slot(target).zero_point,
            input_shift=out.shift(source),
            output_shift=out.shift(target),
        ),
        work,
    )


EMIT: Final[Emits] = {
    ResizeLinear: emit_resize_linear,
}
