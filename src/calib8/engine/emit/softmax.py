"""Softmax: exponentials are tables when it runs, those of TFLite's fixed point too."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.engine import steps
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fuse import Work
from calib8.fixedpoint import rounding_doubling_high_multiply
from calib8.program.instructions import Softmax
from calib8.program.ops.softmax import exp_of_negative
from calib8.program.rules import F32, I32, FixedSoftmax, RealSoftmax

INTEGER_BITS: Final = 5
"""Of TFLite's differences, which are Q5.26."""


def emit_softmax(work: Work, out: Emitter) -> None:
    """One step over the rows of the last axis."""
    step, source = work.instruction, work.instruction.inputs[0]
    assert isinstance(step, Softmax)
    shape, rule = out.slot(source).shape, step.rule
    factor, integer_factor, fraction_bits = 0.0, 0, 0
    table: F32 | I32
    if isinstance(rule, FixedSoftmax):
        kind, table = "fixed", fixed_exponentials(rule)
    elif isinstance(rule, RealSoftmax):
        kind, table, factor = "real", rule.table.reshape(-1), out.slot(work.output).scale
    elif rule.fraction_bits:
        kind, table = "integer", rule.table
        integer_factor, fraction_bits = int(rule.factor), rule.fraction_bits
    else:
        kind, table, factor = "float", rule.table, float(rule.factor)
    out.add(
        steps.Softmax(
            *out.place(source),
            *out.place(work.output),
            rows=math.prod(shape[:-1]),
            classes=shape[-1],
            kind=steps.Softmax.kinds[kind],
            table=out.constant(table),
            factor=factor,
            integer_factor=integer_factor,
            fraction_bits=fraction_bits,
            zero_point=out.stored_zero_point(work.output),
        ),
        work,
    )


def fixed_exponentials(rule: FixedSoftmax) -> npt.NDArray[np.int32]:
    """e^(i − 255 steps of the input) in Q0.31 for i = 0 … 255; 0 below ``diff_min``."""
    below = np.arange(-255, 1, dtype=np.int64)
    counted = below >= rule.diff_min
    scaled = rounding_doubling_high_multiply(np.where(counted, below, 0) << rule.shift, rule.multiplier)
    return np.where(counted, exp_of_negative(scaled, INTEGER_BITS), 0).astype(np.int32)


EMIT: Final[Emits] = {
    Softmax: emit_softmax,
}
