"""IntegerGru: one step over all samples and steps of a sequence."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.engine import steps
from calib8.engine.emit.integer_lstm import coded_rows, place_fields
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fields import NONE
from calib8.engine.fuse import Work
from calib8.program.instructions import IntegerGru
from calib8.program.ops.integer_states import signed_point

GATES: Final = 3


def emit_integer_gru(work: Work, out: Emitter) -> None:
    """One step; weights are packed in blocks of units."""
    step = work.instruction
    assert isinstance(step, IntegerGru)
    source, target = step.inputs[0], work.output
    first, second, inputs = out.slot(source).shape
    times, samples = (first, second) if step.time_first else (second, first)
    given, wanted = ([out.place(number) for number in numbers[1:]] for numbers in (step.inputs, work.outputs))
    nowhere = (NONE, 0)
    out.add(
        steps.IntegerGru(
            time_first=int(step.time_first),
            reverse=int(step.reverse),
            reset_after=int(step.reset_after),
            steps=times,
            samples=samples,
            inputs=inputs,
            units=step.units,
            **place_fields("source", out.place(source)),
            **place_fields("target", out.place(target)),
            **place_fields("h", given[0] if given else nowhere),
            **place_fields("last", wanted[0] if wanted else nowhere),
            h_zero=out.stored_zero_point(target),
            **_weights(out, step),
            factors=out.constant(_factors(step)),
        ),
        work,
        macs=times * samples * (step.weight.size + step.recurrent.size),
    )


def _weights(out: Emitter, step: IntegerGru) -> dict[str, int]:
    """Of x, of h for z and r, of h for n."""
    x_zero, h_zero = (signed_point(out.slot(number)) for number in (step.inputs[0], step.outputs[0]))
    inner = np.zeros_like(step.bias)
    if step.reset_after:
        inner[2] = step.inner_bias
    found = coded_rows(out, "weight", step.weight, step.bias, x_zero)
    found |= coded_rows(out, "recurrent", step.recurrent[:2], inner[:2], h_zero)
    return found | coded_rows(out, "candidate", step.recurrent[2:], inner[2:], h_zero)


def _factors(step: IntegerGru) -> npt.NDArray[Any]:
    """int32 [7, 2]: multipliers and shifts, of x, of h, of the codes."""
    each = (step.weight_multipliers, step.recurrent_multipliers, step.hidden)
    columns = [np.concatenate([getattr(by, name) for by in each]) for name in ("multiplier", "shift")]
    return np.stack(columns, axis=1).astype(np.int32)


EMIT: Final[Emits] = {
    IntegerGru: emit_integer_gru,
}
