"""TimeFilter: one step over all samples and units."""

from __future__ import annotations

from typing import Final

from calib8.engine import steps
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fuse import Work
from calib8.program.costs import macs
from calib8.program.instructions import TimeFilter


def emit_time_filter(work: Work, out: Emitter) -> None:
    """One step; weights and biases are constants as they are."""
    step, source = work.instruction, work.instruction.inputs[0]
    assert isinstance(step, TimeFilter)
    stored, units = out.shift(work.output), step.bias.size
    out.add(
        steps.TimeFilter(
            samples=out.slot(source).shape[0],
            units=units,
            length=step.weight.size // units,
            source_buffer=out.place(source)[0],
            source_offset=out.place(source)[1],
            target_buffer=out.place(work.output)[0],
            target_offset=out.place(work.output)[1],
            weight=out.constant(step.weight),
            bias=out.constant(step.bias),
            multiplier=int(step.factor.multiplier[0]),
            shift=int(step.factor.shift[0]),
            zero_point=out.stored_zero_point(work.output),
            low=step.low + stored,
            high=step.high + stored,
        ),
        work,
        macs(out.program, step) or 0,
    )


EMIT: Final[Emits] = {
    TimeFilter: emit_time_filter,
}
