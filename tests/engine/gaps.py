"""Runs one instruction on tensors with gaps between their elements, and looks whether anybody wrote there.

That is how images lie that have a border, and channels inside of the result of a Concat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8 import _core
from calib8.engine.compile import emit_of, plan_of
from calib8.engine.emit.moves import emit_port_copy
from calib8.engine.emitter import Emitter
from calib8.engine.fields import ARENA, FIRST_PORT
from calib8.engine.fuse import fuse
from calib8.engine.layout import NO_HALO, Layout
from calib8.engine.plan import Plan
from calib8.engine.run import Engine
from calib8.program.program import Program, Slot

Array = npt.NDArray[Any]
UNTOUCHED = 0xA5


def run_in_gaps(
    program: Program, feeds: Mapping[str, Array], rng: np.random.Generator, isa: str, threads: int
) -> Array:
    """The output of a program of one instruction.

    Raises:
        AssertionError: a byte outside of the tensors was written.
    """
    layouts, places, size, inside = _spread(program, rng)
    plan = _plan(program, layouts, places, size)
    engine = Engine(plan, isa=isa, threads=threads)
    context = _core.engine.Context(engine._native)
    arena = context.arena()
    arena[:] = UNTOUCHED
    result = np.zeros(plan.outputs[0].shape, plan.outputs[0].dtype)
    inputs = [np.ascontiguousarray(feeds[port.name]) for port in plan.inputs]
    engine._native.run(context, 0, len(plan.rows), inputs, [result], None)
    touched = np.flatnonzero((arena != UNTOUCHED) & ~inside)
    assert touched.size == 0, f"{touched.size} bytes between the tensors were written on {isa}"
    return result


def _spread(
    program: Program, rng: np.random.Generator
) -> tuple[dict[int, Layout], dict[int, tuple[int, int]], int, npt.NDArray[np.bool_]]:
    """Layouts and places with gaps, bytes of the arena, and which of them belong to tensors."""
    layouts, places, end = {}, {}, 64
    spans = []
    for number, slot in enumerate(program.slots):
        strides = _wide_strides(slot.shape, rng)
        layouts[number] = Layout(number, 0, NO_HALO, strides)
        places[number] = (ARENA, end)
        spans.append((end, slot, strides))
        reach = sum((size - 1) * stride for size, stride in zip(slot.shape, strides, strict=True)) + 1
        end += (reach * np.dtype(slot.dtype).itemsize + 64 + 63) // 64 * 64
    inside = np.zeros(end, np.bool_)
    for start, slot, strides in spans:
        _mark(inside[start:], slot, strides)
    return layouts, places, end, inside


def _wide_strides(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[int, ...]:
    """Some axes are longer in storage than in the tensor; a single channel may lie among others."""
    strides, step = [1] * len(shape), 1
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis] = step
        step *= shape[axis] + int(rng.integers(0, 4) if rng.random() < 0.5 else 0)
    return tuple(strides)


def _mark(inside: npt.NDArray[np.bool_], slot: Slot, strides: tuple[int, ...]) -> None:
    size = np.dtype(slot.dtype).itemsize
    steps = (*(stride * size for stride in strides), 1)
    np.lib.stride_tricks.as_strided(inside, (*slot.shape, size), steps)[...] = True


def _plan(
    program: Program, layouts: dict[int, Layout], places: dict[int, tuple[int, int]], size: int
) -> Plan:
    out = Emitter(program, layouts, places)
    for number, port in enumerate(program.inputs):
        emit_port_copy(FIRST_PORT + number, port.slot, out, inwards=True)
    for work in fuse(program):
        emit_of(work, program)(work, out)
    emit_port_copy(FIRST_PORT + len(program.inputs), program.outputs[0].slot, out, inwards=False)
    return plan_of(out, size)
