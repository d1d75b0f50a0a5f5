"""Tensors inside others: operands of a Concat, parts of a tensor, the same elements in another shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calib8.engine.fuse import Work, writers
from calib8.engine.halo import NO_HALO, VIEW_INSTRUCTIONS, Halo, larger
from calib8.program import instructions as op
from calib8.program.program import Program


@dataclass(frozen=True)
class Link:
    """A slot that lies inside another one.

    Attributes:
        parent: the other slot.
        axis, start: it takes the indices from ``start`` on along this axis; −1: the same elements in
            another shape.
    """

    parent: int
    axis: int
    start: int


def plan_links(program: Program, works: Sequence[Work], borders: Mapping[int, Halo]) -> dict[int, Link]:
    """Slot → where in which other slot it lies; a slot without a link has storage of its own."""
    ports = {port.slot for port in (*program.inputs, *program.outputs)}
    stiff = {
        slot for work in works if not isinstance(work.instruction, VIEW_INSTRUCTIONS) for slot in work.inputs
    }
    links: dict[int, Link] = {}
    _link_concats(program, works, ports | stiff, links)
    _link_pads(works, ports | stiff, links)
    _link_slices(program, works, ports | stiff, links)
    _link_rows(program, works, ports, links)
    _link_reshapes(works, ports, spread(borders, links), links)
    return links


def spread(borders: Mapping[int, Halo], links: Mapping[int, Link]) -> dict[int, Halo]:
    """The borders, handed on to the tensors that others lie in."""
    result = dict(borders)
    for number, halo in borders.items():
        while number in links:
            number = links[number].parent
            result[number] = larger(result.get(number, NO_HALO), halo)
    return result


def _link_concats(program: Program, works: Sequence[Work], fixed: set[int], links: dict[int, Link]) -> None:
    """Operands along the channels are written where the result lies, unless they have to lie elsewhere."""
    places = writers(works)
    for work in works:
        step = work.instruction
        if not isinstance(step, op.Concat) or step.axis != len(program.slots[work.output].shape) - 1:
            continue
        start = 0
        for slot in step.inputs:
            free = slot in places and slot not in fixed and slot not in links
            if free and isinstance(works[places[slot]].instruction, VIEW_INSTRUCTIONS):
                links[slot] = Link(work.output, step.axis, start)
            start += program.slots[slot].shape[step.axis]


def _link_pads(works: Sequence[Work], fixed: set[int], links: dict[int, Link]) -> None:
    """Images with more images before and behind them are written where the whole lies."""
    places = writers(works)
    for work in works:
        step = work.instruction
        if not isinstance(step, op.Pad) or not pads_images(step) or work.output in fixed:
            continue
        [slot] = step.inputs
        free = slot in places and slot not in fixed and slot not in links
        if free and isinstance(works[places[slot]].instruction, VIEW_INSTRUCTIONS):
            links[slot] = Link(work.output, 0, step.before[0])


def pads_images(step: op.Pad) -> bool:
    """Whether images [n, rows, columns, channels] get none but more images."""
    return len(step.before) == 4 and not any((*step.before[1:], *step.after[1:]))


def _link_slices(program: Program, works: Sequence[Work], fixed: set[int], links: dict[int, Link]) -> None:
    """Some of the channels of a tensor are read where they are, and rows of one without a border."""
    for work in works:
        step, slot = work.instruction, work.output
        if not isinstance(step, op.Slice) or slot in fixed or slot in links:
            continue
        axis = _sliced_axis(step, program)
        if axis is not None and axis == len(program.slots[slot].shape) - 1 and step.inputs[0] not in fixed:
            links[slot] = Link(step.inputs[0], axis, step.starts[axis])


def _link_rows(program: Program, works: Sequence[Work], ports: set[int], links: dict[int, Link]) -> None:
    """What a Recurrent writes is read where it is, step by step: rows of a tensor without gaps have none."""
    whole = {work.output for work in works if isinstance(work.instruction, op.Recurrent)} - ports
    for work in works:
        step, slot = work.instruction, work.output
        if not isinstance(step, op.Slice) or slot in ports or slot in links:
            continue
        if step.inputs[0] in whole and _sliced_axis(step, program) == 0:
            links[slot] = Link(step.inputs[0], 0, step.starts[0])


def _link_reshapes(
    works: Sequence[Work], ports: set[int], borders: Mapping[int, Halo], links: dict[int, Link]
) -> None:
    """The same elements in another shape, if they lie without gaps."""
    for work in works:
        if isinstance(work.instruction, op.Reshape):
            source, slot = work.inputs[0], work.output
            free = slot not in ports and slot not in links and slot not in borders
            if free and _dense_root(source, links, borders):
                links[slot] = Link(source, -1, 0)


def _dense_root(slot: int, links: Mapping[int, Link], borders: Mapping[int, Halo]) -> bool:
    """Neither the slot nor what it was reshaped from has a border, or lies in a part with gaps."""
    while slot in links:
        if links[slot].axis > 0:
            return False
        slot = links[slot].parent
    return slot not in borders


def _sliced_axis(step: op.Slice, program: Program) -> int | None:
    """The one axis of which a Slice takes a part, if it takes it in order."""
    source, target = program.slots[step.inputs[0]].shape, program.slots[step.outputs[0]].shape
    cut = [axis for axis in range(len(source)) if source[axis] != target[axis]]
    if len(cut) != 1 or any(step.steps[axis] != 1 for axis in range(len(source)) if source[axis] > 1):
        return None
    return cut[0]
