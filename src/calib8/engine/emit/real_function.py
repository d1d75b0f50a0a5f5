"""RealFunction: one step over all values of a dense tensor."""

from __future__ import annotations

import math
from typing import Final

from calib8.engine import steps
from calib8.engine.emit.recurrent import KINDS
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fuse import Work
from calib8.program.instructions import RealFunction


def emit_real_function(work: Work, out: Emitter) -> None:
    """One step."""
    step = work.instruction
    assert isinstance(step, RealFunction)
    source, target = out.place(step.inputs[0]), out.place(work.output)
    out.add(
        steps.RealFunction(
            count=math.prod(out.slot(work.output).shape),
            source_buffer=source[0],
            source_offset=source[1],
            target_buffer=target[0],
            target_offset=target[1],
            function=KINDS[step.function.name],
            alpha=step.function.alpha,
            beta=step.function.beta,
        ),
        work,
    )


EMIT: Final[Emits] = {
    RealFunction: emit_real_function,
}
