"""How the axes of a tensor lie: axis i of the ONNX value is axis ``order[i]`` of the tensor in the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

Order: TypeAlias = tuple[int, ...]
Sizes: TypeAlias = tuple[int | None, ...]
"""Of a tensor as the file has it; None for a free batch."""

T = TypeVar("T")


def as_filed(rank: int) -> Order:
    """The order of the file."""
    return tuple(range(rank))


def channels_first(rank: int) -> Order:
    """(0, 3, 1, 2) for images: NHWC in the file, NCHW in ONNX."""
    return (0, rank - 1, *range(1, rank - 1))


def arranged(items: Sequence[T], order: Order) -> tuple[T, ...]:
    """What belongs to the file's axes, for the axes of the value."""
    return tuple(items[axis] for axis in order)


def permutation(have: Order, want: Order) -> list[int]:
    """``perm`` of the Transpose from one order to another."""
    return [have.index(axis) for axis in want]


def same_memory(sizes: Sizes, have: Order, want: Order) -> bool:
    """Whether a Transpose between two orders would move nothing: it only carries axes of size 1 about."""

    def moving(order: Order) -> list[int]:
        return [axis for axis in order if sizes[axis] != 1]

    return moving(have) == moving(want)


def without(order: Order, axes: Sequence[int]) -> Order:
    """The order of what is left once axes of the file are gone."""
    left = sorted(set(order) - set(axes))
    return tuple(left.index(axis) for axis in order if axis not in axes)
