"""MatMul of two activations: where the matrices of every batch begin."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calib8.engine import steps
from calib8.engine.emit.rescale import rescale_fields
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fuse import Work
from calib8.program.costs import macs
from calib8.program.instructions import MatMul


def emit_mat_mul(work: Work, out: Emitter) -> None:
    """One step for all batches."""
    step = work.instruction
    assert isinstance(step, MatMul)
    lhs, rhs = step.inputs
    batch = out.slot(work.output).shape[:-2]
    rows, depth = out.slot(lhs).shape[-2:]
    columns = out.slot(rhs).shape[-1]
    out.add(
        steps.MatMul(
            *out.place(lhs),
            *out.place(rhs),
            *out.place(work.output),
            batches=math.prod(batch),
            lhs_starts=_starts(lhs, batch, out),
            rhs_starts=_starts(rhs, batch, out),
            rows=rows,
            depth=depth,
            columns=columns,
            lhs_zero=out.stored_zero_point(lhs),
            rhs_zero=out.stored_zero_point(rhs),
            rescale=rescale_fields(out, step.rescale, step.low, step.high, work.output, 1),
        ),
        work,
        macs(out.program, step) or 0,
    )


def _starts(number: int, batch: tuple[int, ...], out: Emitter) -> int:
    """Constant with the first element of the operand's matrix per batch of the output."""
    shape = out.slot(number).shape
    own = np.arange(math.prod(shape[:-2]), dtype=np.int64).reshape(shape[:-2])
    return out.constant(np.broadcast_to(own * math.prod(shape[-2:]), batch))


EMIT: Final[Emits] = {
    MatMul: emit_mat_mul,
}
