"""The arena of a plan: as ``calib8.arena`` has it, with room for what kernels read beyond a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calib8 import arena
from calib8.arena import Life as Life

ALIGNMENT: Final = 64
"""Bytes; every tensor begins on a cache line."""

GUARD: Final = 64
"""Bytes between tensors: kernels may read a little beyond one, never write."""


def place_tensors(lives: Mapping[int, Life]) -> tuple[dict[int, int], int]:
    """Offset of every tensor, and the bytes of the whole arena."""
    return arena.place_tensors({number: lives[number] for number in sorted(lives)}, ALIGNMENT, GUARD)
