"""A move as nested loops, as few as it takes: axes that lie side by side in every tensor become one.

element [i0, i1, …] of tensor t lies at  Σ i_k · strides_k[t]  bytes;   the source may go through tables
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.engine.emitter import Emitter
from calib8.engine.fields import NONE, Axes

Table = npt.NDArray[np.int64]

AXES: Final = 6
"""Loops that a step has room for."""

SOURCE: Final = 0
TARGET: Final = 1
"""Places in ``Loop.strides``."""


@dataclass(frozen=True, eq=False)
class Loop:
    """One axis of a move.

    Attributes:
        size: how many indices it has.
        strides: bytes from one index to the next: source, target, what else goes along.
        table: bytes from the start of the source per index, in place of ``strides[SOURCE]``, which is then 0.
    """

    size: int
    strides: tuple[int, ...]
    table: Table | None = None


@dataclass(frozen=True, eq=False)
class Nest:
    """Loops that fit a step, outermost first, and where they begin: bytes per tensor."""

    starts: tuple[int, ...]
    loops: tuple[Loop, ...]

    @property
    def sizes(self) -> Axes:
        """Sizes of six axes."""
        return six([loop.size for loop in self.loops], 1)

    def strides(self, tensor: int) -> Axes:
        """Strides of six axes for one of the tensors."""
        return six([loop.strides[tensor] for loop in self.loops], 0)

    def tables(self, out: Emitter) -> Axes:
        """Tables of six axes among the constants."""
        offsets = [NONE if loop.table is None else out.constant(loop.table) for loop in self.loops]
        return six(offsets, NONE)


def six(values: Sequence[int], fill: int) -> Axes:
    """Per axis, filled up at the front to six axes."""
    a, b, c, d, e, f = [fill] * (AXES - len(values)) + [int(value) for value in values]
    return a, b, c, d, e, f


def dense_strides(shape: Sequence[int]) -> list[int]:
    """Elements from one index to the next of a tensor without gaps."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


def nests(loops: Sequence[Loop]) -> list[Nest]:
    """The loops of a move, ordered by the target, merged, and cut into several nests beyond six loops.

    >>> [nest.loops[0].size for nest in nests([Loop(4, (6, 6)), Loop(3, (2, 2)), Loop(2, (1, 1))])]
    [24]
    """
    tensors = len(loops[0].strides) if loops else 2
    start = 0
    plain: list[Loop] = []
    for loop in loops:
        first, parts = _without_table(loop)
        start += first
        plain.extend(part for part in parts if part.size > 1)
    plain.sort(key=lambda loop: -loop.strides[TARGET])
    starts = (start, *(0,) * (tensors - 1))
    return list(_fitting(starts, tuple(_merged(plain))))


def _without_table(loop: Loop) -> tuple[int, list[Loop]]:
    """Source bytes to begin at, and loops with steps in place of a table as far as it has them.

    Equal blocks of equal steps become a loop of their own: the channel shuffle 0 3 1 4 2 5 is three times
    two, in steps of 1 and 3.
    """
    table = loop.table
    if table is None:
        return 0, [loop]
    first, table = int(table[0]), table - table[0]
    others = loop.strides[1:]
    if loop.size == 1:
        return first, []
    steps = np.diff(table)
    if np.all(steps == steps[0]):
        return first, [Loop(loop.size, (int(steps[0]), *others))]
    block = int(np.argmax(steps != steps[0])) + 1
    if block > 1 and loop.size % block == 0:
        blocks = table.reshape(-1, block)
        if np.array_equal(blocks - blocks[:, :1], np.broadcast_to(table[:block], blocks.shape)):
            inner = Loop(block, (int(steps[0]), *others))
            outer = Loop(len(blocks), (0, *(block * stride for stride in others)), blocks[:, 0].copy())
            return first, [*_without_table(outer)[1], inner]
    return first, [Loop(loop.size, (0, *others), table)]


def _merged(loops: Sequence[Loop]) -> list[Loop]:
    result: list[Loop] = []
    for loop in loops:
        if result and _side_by_side(result[-1], loop):
            result[-1] = replace(loop, size=result[-1].size * loop.size)
        else:
            result.append(loop)
    return result


def _side_by_side(outer: Loop, inner: Loop) -> bool:
    steps = tuple(inner.size * stride for stride in inner.strides)
    return outer.table is None and inner.table is None and outer.strides == steps


def _fitting(starts: tuple[int, ...], loops: tuple[Loop, ...]) -> Iterator[Nest]:
    if len(loops) <= AXES:
        yield Nest(starts, loops)
        return
    outer, *rest = loops
    for index in range(outer.size):
        steps = [index * stride for stride in outer.strides]
        if outer.table is not None:
            steps[SOURCE] = int(outer.table[index])
        yield from _fitting(tuple(a + b for a, b in zip(starts, steps, strict=True)), tuple(rest))
