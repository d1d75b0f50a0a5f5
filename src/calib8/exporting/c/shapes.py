"""Axes that lie together in memory become one."""

from __future__ import annotations

from collections.abc import Sequence

from calib8.errors import NoFormError


def dense_steps(shape: Sequence[int]) -> list[int]:
    """Elements from one index to the next of a tensor without gaps."""
    steps = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        steps[axis] = steps[axis + 1] * shape[axis + 1]
    return steps


def collapsed(sizes: Sequence[int], steps: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """The same walk through memory with as few axes as it needs, one at least.

    Args:
        sizes: of the axes.
        steps: of every tensor that is walked through, one number per axis.
    """
    new: list[int] = []
    walked: list[list[int]] = [[] for _ in steps]
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        own = [tensor[axis] for tensor in steps]
        if new and all(walk[-1] == step * size for walk, step in zip(walked, own, strict=True)):
            new[-1] *= size
            for walk, step in zip(walked, own, strict=True):
                walk[-1] = step
        else:
            new.append(size)
            for walk, step in zip(walked, own, strict=True):
                walk.append(step)
    return (new, walked) if new else ([1], [[1] for _ in steps])


def around(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, int, int]:
    """Elements before, within and behind axes that lie together.

    Raises:
        NoFormError: others lie between them.
    """
    wanted = {axis for axis in axes if shape[axis] != 1} or {min(axes)}
    first, last = min(wanted), max(wanted)
    if any(shape[axis] != 1 for axis in range(first, last + 1) if axis not in wanted):
        raise NoFormError(f"its axes {', '.join(map(str, sorted(wanted)))} do not lie together")
    parts = (shape[:first], shape[first : last + 1], shape[last + 1 :])
    before, within, behind = (product(part) for part in parts)
    return before, within, behind


def product(sizes: Sequence[int]) -> int:
    """1 of no axes."""
    result = 1
    for size in sizes:
        result *= size
    return result
