"""One block of memory for all tensors of a run: those that never live at the same time share their place.

A tensor lives from the work that writes it (its border is filled right before) to the last one that reads it.
The largest are placed first, each as low as possible beside those it lives with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

ALIGNMENT: Final = 64
"""Bytes; every tensor begins on a cache line."""

GUARD: Final = 64
"""Bytes between tensors: kernels may read a little beyond one, never write."""


class Life(NamedTuple):
    """A tensor's size in bytes and the first and last work that touch it."""

    size: int
    first: int
    last: int


def place_tensors(lives: Mapping[int, Life]) -> tuple[dict[int, int], int]:
    """Offset of every tensor, and the bytes of the whole arena."""
    order = sorted(lives, key=lambda number: (-lives[number].size, lives[number].first, number))
    placed: list[int] = []
    offsets: dict[int, int] = {}
    for number in order:
        neighbours = sorted(
            (offsets[other], lives[other].size) for other in placed if _meet(lives[number], lives[other])
        )
        offsets[number] = _lowest_gap(lives[number].size, neighbours)
        placed.append(number)
    total = max((offsets[number] + lives[number].size for number in lives), default=0)
    return offsets, _aligned(total + GUARD)


def _meet(a: Life, b: Life) -> bool:
    return a.first <= b.last and b.first <= a.last


def _lowest_gap(size: int, neighbours: Sequence[tuple[int, int]]) -> int:
    place = ALIGNMENT
    for offset, length in neighbours:
        if place + size + GUARD <= offset:
            break
        place = max(place, _aligned(offset + length + GUARD))
    return place


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
