"""Where the tensors of a program lie in the arena of the C code: by the time that they live.

A tensor lives from the instruction that writes it (inputs: from the start) to the last that reads it
(outputs: to the end). The result of a Reshape lies where its input does, and that of an elementwise
instruction where an input of the same size did that nothing reads any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from calib8.arena import Key, Life, place_in_order
from calib8.program import instructions as op
from calib8.program.costs import slot_bytes
from calib8.program.instructions import Instruction
from calib8.program.program import Program

ALIGNMENT: Final = 16
"""Bytes; every tensor begins at a multiple of it, and so must the arena."""

TRIES: Final = 40
"""Of one order after another in which tensors are placed."""

IN_PLACE: Final = (op.Lookup, op.Add, op.Sub, op.Mul, op.Maximum, op.Minimum)
"""Each element of the result depends on the elements in its place, which are read before it is written."""


@dataclass(frozen=True)
class Tensors:
    """What lives in the arena, and when.

    Attributes:
        root: slot → the slot in whose place it lies; slots of constants are not in it.
        lives: root → its bytes, and when it lives: at 0 the inputs are filled, at n + 1 instruction n runs.
    """

    root: Mapping[int, int]
    lives: Mapping[int, Life]


@dataclass(frozen=True)
class Arena:
    """Offsets in bytes.

    Attributes:
        of: slot → its offset.
        scratch: number of an instruction → offset of its scratch memory.
        total: bytes of the whole.
    """

    of: Mapping[int, int]
    scratch: Mapping[int, int]
    total: int


def tensors(program: Program) -> Tensors:
    """Which slots share a place, and how long each place is in use."""
    last = _last_uses(program)
    root: dict[int, int] = {port.slot: port.slot for port in program.inputs}
    first = dict.fromkeys(root, 0)
    end = {slot: last.get(slot, 0) for slot in root}
    for number, step in enumerate(program.instructions, start=1):
        constant = isinstance(step, op.Reshape) and step.inputs[0] not in root
        if constant or isinstance(step, op.Constant):
            continue
        for slot in step.outputs:
            place = _shared(program, step, number, root, end)
            root[slot] = slot if place is None else place
            first.setdefault(root[slot], number)
            end[root[slot]] = max(end.get(root[slot], 0), last.get(slot, number))
    sizes = {place: slot_bytes(program.slots[place]) for place in first}
    return Tensors(root, {place: Life(sizes[place], first[place], end[place]) for place in sorted(first)})


def arena(found: Tensors, scratch: Mapping[int, int]) -> Arena:
    """Places of all tensors.

    Args:
        found: of the program.
        scratch: number of an instruction → bytes that it needs while it runs.
    """
    lives: dict[tuple[str, int], Life] = {("tensor", place): life for place, life in found.lives.items()}
    lives.update(
        {("scratch", number): Life(size, number + 1, number + 1) for number, size in scratch.items() if size}
    )
    offsets, total = _smallest(lives)
    return Arena(
        {slot: offsets["tensor", place] for slot, place in found.root.items()},
        {number: offsets.get(("scratch", number), 0) for number in scratch},
        total,
    )


def _smallest(lives: Mapping[Key, Life]) -> tuple[dict[Key, int], int]:
    """The best of some orders in which tensors are placed, tried until nothing is lost or tries are used up.

    The first are placed by size, and time by time from the fullest on. Then, again and again, the tensor that
    lies highest is placed first.
    """
    busy = sorted(_times(lives), key=lambda time: (-_alive(lives, time), time))
    by_size = sorted(lives, key=lambda key: -lives[key].size)
    by_time = [key for time in busy for key in by_size if lives[key].first <= time <= lives[key].last]
    least = _alive(lives, busy[0]) if busy else 0
    best: tuple[dict[Key, int], int] = ({}, -1)
    for order in (by_size, list(dict.fromkeys(by_time))):
        for _ in range(min(TRIES, len(lives))):
            offsets, total = place_in_order(lives, order, ALIGNMENT, 0)
            if best[1] < 0 or total < best[1]:
                best = (offsets, total)
            if best[1] <= least:
                return best
            highest = max(order, key=lambda key: offsets[key] + lives[key].size)
            order = [highest, *(key for key in order if key != highest)]
    return best if best[1] >= 0 else ({}, 0)


def _times(lives: Mapping[Key, Life]) -> list[int]:
    """When something begins to live: the bytes alive are most at one of these."""
    return sorted({life.first for life in lives.values()})


def _alive(lives: Mapping[Key, Life], time: int) -> int:
    """Bytes of the tensors that live at a time, each up to the next one's begin."""
    sizes = (life.size for life in lives.values() if life.first <= time <= life.last)
    return sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)


def fullest(found: Tensors) -> tuple[int, list[int]]:
    """When the most bytes are alive (0: as the inputs are filled), and the places of then, largest first."""
    most = max(_times(found.lives), key=lambda time: (_alive(found.lives, time), -time))
    alive = [place for place, life in found.lives.items() if life.first <= most <= life.last]
    return most, sorted(alive, key=lambda place: (-found.lives[place].size, place))


def _last_uses(program: Program) -> dict[int, int]:
    last: dict[int, int] = {}
    for number, step in enumerate(program.instructions, start=1):
        last.update(dict.fromkeys(step.inputs, number))
    last.update({port.slot: len(program.instructions) + 1 for port in program.outputs})
    return last


def _shared(
    program: Program, step: Instruction, number: int, root: Mapping[int, int], end: Mapping[int, int]
) -> int | None:
    """The place that the result of an instruction takes over, None for one of its own."""
    if isinstance(step, op.Reshape):
        return root.get(step.inputs[0])
    if not isinstance(step, IN_PLACE):
        return None
    result = program.slots[step.outputs[0]]
    for slot in step.inputs:
        place = root.get(slot)
        same = slot_bytes(program.slots[slot]) == slot_bytes(result)
        if place is not None and same and end[place] == number:
            return place
    return None
