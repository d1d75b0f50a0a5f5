"""A program as a plan: fuse, lay out, place, then one step or a few per instruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from calib8.engine.arena import Life, place_tensors
from calib8.engine.arg_min import without_arg_min
from calib8.engine.codec import encode
from calib8.engine.compose import compose
from calib8.engine.dead_taps import without_dead_taps
from calib8.engine.emit import (
    borders,
    conv,
    conv_transpose,
    depthwise,
    elementwise,
    group_norm,
    integer_gru,
    integer_lstm,
    layer_norm,
    mat_mul,
    moves,
    pools,
    real_function,
    recurrent,
    resize,
    softmax,
    time_filter,
    wide,
)
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.few_axes import few_axes
from calib8.engine.fields import ARENA, CONSTANTS, FIRST_PORT
from calib8.engine.frames import without_joins
from calib8.engine.fuse import Work, fuse
from calib8.engine.halo import NO_HALO, with_room
from calib8.engine.layout import Layout, plan_layouts, storage_bytes
from calib8.engine.plan import FloatCall, Plan, PlanPort, Row, Stored
from calib8.engine.plan_states import plan_states
from calib8.engine.steps import FillHalo, WideFillHalo
from calib8.engine.volumes import volumes_as_images
from calib8.engine.wide import narrowed
from calib8.program import instructions as op
from calib8.program.program import Port, Program

EMIT: Final[Emits] = {
    **borders.EMIT,
    **conv.EMIT,
    **depthwise.EMIT,
    **conv_transpose.EMIT,
    **mat_mul.EMIT,
    **elementwise.EMIT,
    **pools.EMIT,
    **softmax.EMIT,
    **layer_norm.EMIT,
    **group_norm.EMIT,
    **recurrent.EMIT,
    **integer_lstm.EMIT,
    **time_filter.EMIT,
    **real_function.EMIT,
    **integer_gru.EMIT,
    **resize.EMIT,
    **moves.EMIT,
    **wide.EMIT,
}
"""How each instruction becomes steps; Float is a call of ONNX Runtime between them."""


CELLS: Final = (op.Recurrent, op.IntegerLstm, op.IntegerGru)
"""Instructions with weights for x and for h."""


def compile_program(program: Program) -> Plan:
    """The plan of a verified program."""
    program = compose(without_arg_min(without_dead_taps(volumes_as_images(program))))
    program = with_room(without_joins(narrowed(few_axes(program))))
    works = fuse(program)
    layouts = plan_layouts(program, works)
    places, arena_bytes = _places(program, works, layouts)
    out = Emitter(program, layouts, places)
    for work in _among_constants(works):
        places[work.output] = CONSTANTS, moves.stored_constant(work, out)
    floats: list[FloatCall] = []
    filled: set[int] = set()
    for number, port in enumerate(program.inputs):
        if program.slots[port.slot].is_codes or layouts[port.slot].halo != NO_HALO:
            _fill_halo(port.slot, out, filled)
            moves.emit_port_copy(FIRST_PORT + number, port.slot, out, inwards=True)
    for work in works:
        if isinstance(work.instruction, op.Float):
            floats.append(_float_call(work.instruction, out))
            continue
        _fill_halo(work.output, out, filled)
        if not _lies_in_its_input(work, out):
            emit_of(work, out.program)(work, out)
    first_output = FIRST_PORT + len(program.inputs)
    for number, port in enumerate(program.outputs):
        if out.place(port.slot)[0] != first_output + number:
            moves.emit_port_copy(first_output + number, port.slot, out, inwards=False)
    return plan_of(out, arena_bytes, floats)


def emit_of(work: Work, program: Program) -> Callable[[Work, Emitter], None]:
    """What makes the steps of an instruction, by the width of its codes."""
    kind = type(work.instruction)
    wide_slots = any(program.slots[slot].is_wide for slot in (*work.inputs, *work.outputs))
    return wide.EMIT_WIDE.get(kind, EMIT[kind]) if wide_slots else EMIT[kind]


def plan_of(out: Emitter, arena_bytes: int, floats: Sequence[FloatCall] = ()) -> Plan:
    """The plan of all that was emitted."""
    program = out.program
    layers = (step for step in program.instructions if isinstance(step, op.Weighted | op.TimeFilter))
    weights = [step.weight.nbytes for step in layers]
    cells = (step for step in program.instructions if isinstance(step, CELLS))
    weights += [step.weight.nbytes + step.recurrent.nbytes for step in cells]
    return Plan(
        name=program.name,
        profile=program.profile,
        rows=tuple(Row(step.opcode, encode(step)) for step in out.steps),
        step_names=tuple(out.names),
        step_macs=tuple(out.macs),
        floats=tuple(floats),
        constants=out.constants.whole(),
        arena_bytes=arena_bytes,
        inputs=_ports(program, program.inputs),
        outputs=_ports(program, program.outputs),
        weight_bytes=sum(weights),
        states=plan_states(program),
    )


def _places(
    program: Program, works: Sequence[Work], layouts: Mapping[int, Layout]
) -> tuple[dict[int, tuple[int, int]], int]:
    """Buffer and byte offset of every root's interior, and the bytes of the arena."""
    ports = _port_places(program, works, layouts)
    constant = {work.output for work in _among_constants(works)}
    lives: dict[int, Life] = {}
    starts: dict[int, int] = {}
    for number, (first, last) in _touched(program, works, layouts).items():
        if number not in ports and number not in constant:
            slot = program.slots[number]
            size, start = storage_bytes(slot, layouts[number], np.dtype(slot.dtype).itemsize)
            lives[number], starts[number] = Life(size, first, last), start
    offsets, total = place_tensors(lives)
    return ports | {number: (ARENA, offsets[number] + starts[number]) for number in lives}, total


def _among_constants(works: Sequence[Work]) -> list[Work]:
    """Constants that steps can read where a plan stores them; ONNX Runtime reads the arena alone."""
    in_float = {slot for work in works if isinstance(work.instruction, op.Float) for slot in work.inputs}
    return [
        work for work in works if isinstance(work.instruction, op.Constant) and work.output not in in_float
    ]


def _port_places(
    program: Program, works: Sequence[Work], layouts: Mapping[int, Layout]
) -> dict[int, tuple[int, int]]:
    """Roots that lie in the caller's buffers: what is no code, and for outputs what nobody else reads."""
    places: dict[int, tuple[int, int]] = {}
    for number, port in enumerate(program.inputs):
        if not program.slots[port.slot].is_codes and layouts[port.slot].halo == NO_HALO:
            places.setdefault(port.slot, (FIRST_PORT + number, 0))
    read = {slot for work in works for slot in work.inputs}
    for number, port in enumerate(program.outputs):
        own = layouts[port.slot].root == port.slot and not program.slots[port.slot].is_codes
        if own and port.slot not in read:
            places.setdefault(port.slot, (FIRST_PORT + len(program.inputs) + number, 0))
    return places


def _touched(
    program: Program, works: Sequence[Work], layouts: Mapping[int, Layout]
) -> dict[int, tuple[int, int]]:
    """Root → first and last work that touches its slots; inputs begin before, results end after all."""
    touched: dict[int, tuple[int, int]] = {}

    def touch(slot: int, place: int) -> None:
        root = layouts[slot].root
        first, last = touched.get(root, (place, place))
        touched[root] = (min(first, place), max(last, place))

    for port in program.inputs:
        touch(port.slot, -1)
    for place, work in enumerate(works):
        for slot in (*work.inputs, *work.outputs):
            touch(slot, place)
    for port in program.outputs:
        touch(port.slot, len(works))
    return touched


def _fill_halo(number: int, out: Emitter, filled: set[int]) -> None:
    """Before the first part of a tensor with a border is written: all of the border."""
    layout = out.layouts[number]
    if layout.halo == NO_HALO or layout.root in filled:
        return
    filled.add(layout.root)
    top, left, bottom, right = layout.halo
    border = FillHalo(out.view(layout.root), top, left, bottom, right, out.stored_zero_point(layout.root))
    step = WideFillHalo(border) if out.slot(layout.root).is_wide else border
    out.add(step, None, name=f"border of {out.slot(layout.root).name}")


def _lies_in_its_input(work: Work, out: Emitter) -> bool:
    """Parts and reshaped tensors that are where they should be already."""
    step = work.instruction
    if not isinstance(step, op.Slice | op.Reshape):
        return False
    source, target = out.layouts[step.inputs[0]], out.layouts[work.output]
    shift = 0
    if isinstance(step, op.Slice):
        shift = sum(start * stride for start, stride in zip(step.starts, source.strides, strict=True))
        if source.strides != target.strides:
            return False
    return source.root == target.root and target.shift == source.shift + shift


def _float_call(step: op.Float, out: Emitter) -> FloatCall:
    def stored(number: int) -> tuple[str, Stored]:
        slot = out.slot(number)
        return slot.name, Stored(*out.place(number), slot.dtype, slot.shape, out.shift(number))

    return FloatCall(
        before=len(out.steps),
        name=step.name,
        model=step.model,
        inputs=tuple(map(stored, step.inputs)),
        outputs=tuple(map(stored, step.outputs)),
        nodes=step.nodes,
        reasons=step.reasons,
    )


def _ports(program: Program, ports: Sequence[Port]) -> tuple[PlanPort, ...]:
    slots = ((port.name, program.slots[port.slot]) for port in ports)
    return tuple(
        PlanPort(name, slot.dtype, slot.shape, tuple(map(float, slot.scales)), slot.zero_point)
        for name, slot in slots
    )
