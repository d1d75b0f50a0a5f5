"""Recurrent: one step over all directions, samples and steps of a sequence."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.engine import steps
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fields import NONE
from calib8.engine.fuse import Work
from calib8.program.instructions import Recurrent

BLOCK: Final = 16
"""Units whose gates lie side by side."""

STORED_ZERO: Final = 128
"""Codes of rows are stored plus that."""

KINDS: Final = {
    "Sigmoid": 1,
    "Tanh": 2,
    "Relu": 3,
    "HardSigmoid": 4,
    "Softsign": 5,
    "Affine": 6,
    "ScaledTanh": 7,
}
"""Function → what the core calls it."""

FUNCTIONS: Final = 3
"""Of a direction, those that a cell lacks repeat the last one."""

Array = npt.NDArray[Any]


def emit_recurrent(work: Work, out: Emitter) -> None:
    """One step; weights are packed in blocks of units."""
    step = work.instruction
    assert isinstance(step, Recurrent)
    shape = out.slot(step.inputs[0]).shape
    places = dict(zip(step.extras, (out.place(number) for number in step.inputs[1:]), strict=True))
    nowhere = (NONE, 0)
    out.add(
        steps.Recurrent(
            cell=steps.Recurrent.kinds[step.cell],
            directions=len(step.directions),
            reverse=sum(1 << d for d, way in enumerate(step.directions) if way == "reverse"),
            steps=shape[0],
            samples=shape[1],
            inputs=shape[2],
            units=step.units,
            **_place("source", out.place(step.inputs[0])),
            **_place("target", out.place(work.output)),
            **_place("h", places.get("h", nowhere)),
            **_place("c", places.get("c", nowhere)),
            **_place("lengths", places.get("lengths", nowhere)),
            weight=out.constant(packed_rows(step.weight, step.gates)),
            weight_scale=out.constant(in_blocks(step.weight_scale, step.gates)),
            weight_sum=out.constant(in_blocks(start_of_stored(step.weight), step.gates)),
            bias=out.constant(in_blocks(step.bias, step.gates)),
            recurrent=out.constant(packed_rows(step.recurrent, step.gates)),
            recurrent_scale=out.constant(in_blocks(step.recurrent_scale, step.gates)),
            recurrent_sum=out.constant(in_blocks(start_of_stored(step.recurrent), step.gates)),
            inner_bias=out.constant(in_blocks(step.inner_bias, 1)) if step.reset_after else NONE,
            peephole=out.constant(in_blocks(step.peephole, 3)) if step.peephole.size else NONE,
            functions=out.constant(_functions(step)),
            coupled=int(step.coupled),
            clip=step.clip,
        ),
        work,
        macs=shape[0] * shape[1] * (step.weight.size + step.recurrent.size),
    )


def _place(name: str, place: tuple[int, int]) -> dict[str, int]:
    return {f"{name}_buffer": place[0], f"{name}_offset": place[1]}


def in_blocks(numbers: Array, gates: int) -> Array:
    """[D, gates · H] as [D, blocks, gates, 16], filled up with zeros."""
    count, units = len(numbers), numbers.shape[1] // gates
    wide = np.zeros((count, gates, units + -units % BLOCK), numbers.dtype)
    wide[..., :units] = numbers.reshape(count, gates, units)
    return wide.reshape(count, gates, -1, BLOCK).transpose(0, 2, 1, 3)


def packed_rows(weight: npt.NDArray[np.int8], gates: int) -> Array:
    """Codes [D, gates · H, K] as [D, blocks, ⌈K / 4⌉, gates, 16, 4], filled up with zeros."""
    count, rows, depth = weight.shape
    units = rows // gates
    wide = np.zeros((count, gates, units + -units % BLOCK, depth + -depth % 4), np.int8)
    wide[:, :, :units, :depth] = weight.reshape(count, gates, units, depth)
    return wide.reshape(count, gates, -1, BLOCK, wide.shape[-1] // 4, 4).transpose(0, 2, 4, 1, 3, 5)


def start_of_stored(weight: npt.NDArray[np.int8]) -> Array:
    """What takes away again that codes are stored plus 128."""
    start: Array = -STORED_ZERO * weight.sum(axis=2, dtype=np.int32)
    return start


def _functions(step: Recurrent) -> Array:
    """int32 [D, 3, 3]: kind and the bits of α and β."""
    count = len(step.functions) // len(step.directions)
    rows = np.zeros((len(step.directions), FUNCTIONS, 3), np.int32)
    for d in range(len(step.directions)):
        for place in range(FUNCTIONS):
            function = step.functions[d * count + min(place, count - 1)]
            numbers = np.array([function.alpha, function.beta], np.float32)
            rows[d, place] = [KINDS[function.name], *numbers.view(np.int32)]
    return rows


EMIT: Final[Emits] = {
    Recurrent: emit_recurrent,
}
