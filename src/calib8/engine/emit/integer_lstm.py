"""IntegerLstm: one step over all samples and steps of a sequence."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.engine import steps
from calib8.engine.emit.recurrent import in_blocks, packed_rows, start_of_stored
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fields import NONE
from calib8.engine.fuse import Work
from calib8.program.instructions import IntegerLstm
from calib8.program.ops.integer_states import signed_point
from calib8.program.rules import I8, I32, Multipliers

GATES: Final = 4
WORDS: Final = 32
"""Numbers of 16 bits of the widest vector."""

WITHOUT_G: Final = (0, 1, 3)
"""Gates that see c."""

Array = npt.NDArray[Any]


def emit_integer_lstm(work: Work, out: Emitter) -> None:
    """One step; weights are packed in blocks of units."""
    step = work.instruction
    assert isinstance(step, IntegerLstm)
    source, target = step.inputs[0], work.output
    places = dict(zip(step.first, (out.place(number) for number in step.inputs[1:]), strict=True))
    last = [out.place(number) for number in work.outputs[1:]]
    nowhere = (NONE, 0)
    first, second, inputs = out.slot(source).shape
    times, samples = (first, second) if step.time_first else (second, first)
    out.add(
        steps.IntegerLstm(
            time_first=int(step.time_first),
            reverse=int(step.reverse),
            coupled=int(step.coupled),
            steps=times,
            samples=samples,
            inputs=inputs,
            units=step.units,
            width=step.width,
            **place_fields("source", out.place(source)),
            **place_fields("target", out.place(target)),
            **place_fields("h", places.get("h", nowhere)),
            **place_fields("c", places.get("c", nowhere)),
            **place_fields("last", last[0] if last else nowhere),
            h_zero=out.stored_zero_point(target),
            hidden_zero=step.hidden_zero_point,
            **_weights(out, step),
            factors=out.constant(_factors(step)),
            peephole=out.constant(_by_gate(step, step.peephole, WITHOUT_G)) if step.peephole.size else NONE,
            **_norm(out, step),
            cell_bits=step.cell_bits,
            cell_clip=step.cell_clip,
            projection_clip=step.projection_clip,
        ),
        work,
        macs=times * samples * (step.weight.size + step.recurrent.size + step.projection.size),
    )


def place_fields(name: str, place: tuple[int, int]) -> dict[str, int]:
    """Fields of a step that say where a tensor is."""
    return {f"{name}_buffer": place[0], f"{name}_offset": place[1]}


def _weights(out: Emitter, step: IntegerLstm) -> dict[str, int]:
    """Of x, of h and of the projection."""
    x_zero, h_zero = (signed_point(out.slot(number)) for number in (step.inputs[0], step.outputs[0]))
    bias = np.zeros_like(step.bias) if step.norm.size else step.bias
    found = coded_rows(out, "weight", step.weight, bias, x_zero)
    found |= coded_rows(out, "recurrent", step.recurrent, np.zeros_like(bias), h_zero)
    if not step.projection.size:
        return found | dict.fromkeys(("projection", "projection_sum", "projection_start"), NONE)
    weight, own = step.projection[None], step.projection_bias[None]
    return found | coded_rows(out, "projection", weight, own, -step.hidden_zero_point)


def coded_rows(out: Emitter, name: str, weight: I8, bias: I32, zero_point: int) -> dict[str, int]:
    """Weights [G, C, K] in blocks, and what their sums begin with."""
    gates = len(weight)
    flat = weight.reshape(1, -1, weight.shape[2])
    sums = weight.sum(axis=2, dtype=np.int32)
    start = (bias - zero_point * sums).astype(np.int32)
    return {
        name: out.constant(packed_rows(flat, gates)),
        f"{name}_sum": out.constant(in_blocks(start_of_stored(flat), gates)),
        f"{name}_start": out.constant(in_blocks(start.reshape(1, -1), gates)),
    }


def _factors(step: IntegerLstm) -> Array:
    """int32 [18, 2]: multipliers and shifts by the places of gates."""
    table = np.zeros((4 * GATES + 2, 2), np.int32)
    gates = range(step.coupled, GATES)
    seeing = [gate for gate in WITHOUT_G if gate in gates]
    for start, places, by in (
        (0, gates, step.weight_multipliers),
        (GATES, gates, step.recurrent_multipliers),
        (2 * GATES, seeing, step.peephole_multipliers),
        (3 * GATES, gates, step.norm_multipliers),
        (4 * GATES, (0,), step.hidden),
        (4 * GATES, (1,), step.projection_multipliers),
    ):
        _set(table, [start + place for place in places], by)
    return table


def _set(table: Array, places: list[int], by: Multipliers) -> None:
    if by.multiplier.size:
        table[places, 0], table[places, 1] = by.multiplier, by.shift


def _by_gate(step: IntegerLstm, rows: Array, gates: tuple[int, ...]) -> Array:
    """Rows of some gates as [4, words], zeros elsewhere."""
    wide = np.zeros((GATES, step.units + -step.units % WORDS), rows.dtype)
    wide[[gate for gate in gates if gate >= step.coupled], : step.units] = rows
    return wide


def _norm(out: Emitter, step: IntegerLstm) -> dict[str, int]:
    if not step.norm.size:
        return dict.fromkeys(("norm", "norm_bias", "norm_guard"), NONE)
    guard = np.ones(GATES, np.int32)
    guard[step.coupled :] = step.norm_guard
    every = tuple(range(GATES))
    return {
        "norm": out.constant(_by_gate(step, step.norm, every)),
        "norm_bias": out.constant(_by_gate(step, step.bias, every)),
        "norm_guard": out.constant(guard),
    }


EMIT: Final[Emits] = {
    IntegerLstm: emit_integer_lstm,
}
