"""How logical axes lie in memory: orders of axes, and reshapes that need no copy.

An order is a permutation: physical axis i holds logical axis ``order[i]``. A tensor [N, C, H, W] that lies
as NHWC has the order (0, 2, 3, 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Axes = tuple[int, ...]


def logical_order(rank: int) -> Axes:
    """Memory order is the model's order."""
    return tuple(range(rank))


def image_order(rank: int) -> Axes:
    """Channels last for images [N, C, H, W], the model's order for all else."""
    return (0, 2, 3, 1) if rank == 4 else logical_order(rank)


def axis_last(rank: int, axis: int, order: Axes) -> Axes:
    """``order`` with one logical axis moved to the end."""
    return (*(other for other in order if other != axis % rank), axis % rank)


def physical(shape: Sequence[int], order: Axes) -> Axes:
    """Sizes as they lie in memory."""
    return tuple(shape[axis] for axis in order)


def logical(shape: Sequence[int], order: Axes) -> Axes:
    """Sizes in the model's order."""
    return tuple(shape[order.index(axis)] for axis in range(len(order)))


def axes_between(have: Axes, want: Axes) -> Axes:
    """For a Transpose: output axis i is input axis ``result[i]``."""
    return tuple(have.index(axis) for axis in want)


def keeps_memory(shape: Sequence[int], axes: Axes) -> bool:
    """Transposing an array of this (physical) shape moves only axes of size 1."""
    moved = [axis for axis in axes if shape[axis] != 1]
    return moved == sorted(moved)


def without_axes(order: Axes, axes: Sequence[int]) -> Axes:
    """The order once some logical axes have vanished."""
    left = [axis for axis in order if axis not in axes]
    return tuple(axis - sum(gone < axis for gone in axes) for axis in left)


@dataclass(frozen=True)
class ReshapePlan:
    """A reshape of memory.

    Attributes:
        before: order that the input must have.
        after: order that the output then has.
    """

    before: Axes
    after: Axes


def plan_reshape(shape: Sequence[int], order: Axes, target: Sequence[int]) -> ReshapePlan:
    """The orders with which a reshape copies nothing, as near to the given order as possible.

    Axes fall into groups whose products agree ([C] ↔ [g, C/g]); a group must lie together in memory, in
    logical order, but groups may lie in any order: channels stay last through a channel shuffle.

    Args:
        shape, target: logical sizes with the same product.
        order: how the input lies now.
    """
    groups = _groups(shape, target)
    groups.sort(key=lambda group: min(order.index(axis) for axis in group[0]))
    single = [axis for axis in range(len(shape)) if shape[axis] == 1]
    before = (*single, *(axis for old, _ in groups for axis in old))
    return ReshapePlan(before, tuple(axis for axis in _with_single(target, [new for _, new in groups])))


def _groups(shape: Sequence[int], target: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Smallest runs of axes (of more than one element) with equal products on both sides."""
    old = [axis for axis, size in enumerate(shape) if size != 1]
    new = [axis for axis, size in enumerate(target) if size != 1]
    if math.prod(shape) == 0:
        return [(old, new)]
    groups = []
    while old:
        left, right = [old.pop(0)], [new.pop(0)]
        while (difference := _product(shape, left) - _product(target, right)) != 0:
            if difference < 0:
                left.append(old.pop(0))
            else:
                right.append(new.pop(0))
        groups.append((left, right))
    return groups


def _product(shape: Sequence[int], axes: list[int]) -> int:
    return math.prod(shape[axis] for axis in axes)


def _with_single(target: Sequence[int], groups: list[list[int]]) -> list[int]:
    """Axes of size 1 placed behind their logical predecessor."""
    result = [axis for group in groups for axis in group]
    for axis, size in enumerate(target):
        if size == 1:
            result.insert(result.index(axis - 1) + 1 if axis else 0, axis)
    return result
