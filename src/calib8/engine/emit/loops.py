"""Nested loops over tensors, as few as it takes: axes that lie side by side in every tensor become one.

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
from calib8.engine.structs import AXES

Table = npt.NDArray[np.int64]

SOURCE: Final = 0
TARGET: Final = 1
"""Places in ``Loop.strides``."""


@dataclass(frozen=True, eq=False)
class Loop:
    """One axis.

    Attributes:
        size: how many indices it has.
        strides: from one index to the next in every tensor; of a move, in bytes: source, target, what else
            goes along.
        table: bytes from the start of the source per index, in place of ``strides[SOURCE]``, which is then 0.
    """

    size: int
    strides: tuple[int, ...]
    table: Table | None = None


@dataclass(frozen=True, eq=False)
class Nest:
    """Loops that fit a step, outermost first, and where they begin in every tensor, in the strides' unit."""

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


def loops_over(shape: Sequence[int], tensors: Sequence[Sequence[int]]) -> list[Loop]:
    """A loop per axis of a shape, from the strides of every tensor."""
    return [Loop(size, tuple(strides)) for size, *strides in zip(shape, *tensors, strict=True)]


def nests(loops: Sequence[Loop], tensors: int) -> list[Nest]:
    """The loops of a move, ordered by the target, merged, and cut into several nests beyond six loops.

    >>> [nest.loops[0].size for nest in nests([Loop(4, (6, 6)), Loop(3, (2, 2)), Loop(2, (1, 1))], 2)]
    [24]
    """
    start = 0
    plain: list[Loop] = []
    for loop in loops:
        first, parts = _without_table(loop)
        start += first
        plain.extend(parts)
    plain.sort(key=lambda loop: -loop.strides[TARGET])
    return list(_fitting((start, *(0,) * (tensors - 1)), tuple(merged(plain))))


def merged(loops: Sequence[Loop], *, keep_last: bool = False) -> list[Loop]:
    """Fewer loops that reach the same elements in the same order.

    Args:
        loops: outermost first.
        keep_last: the last one is not merged with others.

    >>> merged([Loop(1, (20, 0)), Loop(3, (20, 4)), Loop(4, (5, 1)), Loop(5, (1, 0))])
    [Loop(size=12, strides=(5, 1), table=None), Loop(size=5, strides=(1, 0), table=None)]
    """
    result: list[Loop] = []
    for place, loop in enumerate(loops):
        apart = keep_last and place == len(loops) - 1
        if result and not apart and loop.size > 1 and _side_by_side(result[-1], loop):
            result[-1] = replace(loop, size=result[-1].size * loop.size)
        elif apart or loop.size > 1:
            result.append(loop)
    return result


def cut(loops: Sequence[Loop], tensors: int) -> list[Nest]:
    """One nest, or beyond six loops one for every place of the outermost ones."""
    return list(_fitting((0,) * tensors, tuple(loops)))


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
