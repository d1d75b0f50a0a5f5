"""One block of memory for all tensors of a run: those that never live at the same time share their place.

A tensor lives from the work that writes it (its border is filled right before) to the last one that reads it.
The largest are placed first, each as low as possible beside those it lives with.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Life(NamedTuple):
    """A tensor's size in bytes and the first and last work that touch it."""

    size: int
    first: int
    last: int


def place_tensors(lives: Mapping[Key, Life], alignment: int, guard: int) -> tuple[dict[Key, int], int]:
    """Offset of every tensor, and the bytes of the whole arena; the largest are placed first.

    Args:
        lives: of the tensors; those of one size and begin are placed in this order.
        alignment: bytes; every tensor begins at a multiple of it.
        guard: bytes between tensors, before the first and behind the last.
    """
    order = sorted(lives, key=lambda key: (-lives[key].size, lives[key].first))
    return place_in_order(lives, order, alignment, guard)


def place_in_order(
    lives: Mapping[Key, Life], order: Sequence[Key], alignment: int, guard: int
) -> tuple[dict[Key, int], int]:
    """The same, placed one after the other, each as low as possible."""
    placed: list[Key] = []
    offsets: dict[Key, int] = {}
    for key in order:
        neighbours = sorted(
            (offsets[other], lives[other].size) for other in placed if _meet(lives[key], lives[other])
        )
        offsets[key] = _lowest_gap(lives[key].size, neighbours, alignment, guard)
        placed.append(key)
    total = max((offsets[key] + lives[key].size for key in lives), default=0)
    return offsets, _aligned(total + guard, alignment)


def _meet(a: Life, b: Life) -> bool:
    return a.first <= b.last and b.first <= a.last


def _lowest_gap(size: int, neighbours: Sequence[tuple[int, int]], alignment: int, guard: int) -> int:
    place = _aligned(guard, alignment)
    for offset, length in neighbours:
        if place + size + guard <= offset:
            break
        place = max(place, _aligned(offset + length + guard, alignment))
    return place


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
