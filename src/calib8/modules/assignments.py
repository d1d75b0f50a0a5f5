"""``x[index] = value`` as parts of x around the value: every tensor with codes is a node then.

    x[:, 1:3] = v      cat(x[:, :1], v, x[:, 3:])
    x[:, 0, 2:] = v    cat(cat(x[:, :1, :2], v), x[:, 1:]), v with an axis of one for the 0

Steps other than 1, masks and lists of places keep their form.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from calib8.errors import UnsupportedModelError


def assigned(x: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    """What x is behind ``x[index] = value``."""
    result = x.clone()
    result[index] = value
    return result


@dataclass(frozen=True)
class Box:
    """What an index of slices and numbers takes of a tensor.

    Attributes:
        cuts: of every axis that is not taken whole: axis, first place (None: the very first), and the one
            behind the last (None: to the end).
        lost: axes of numbers, which the value does not have.
    """

    cuts: tuple[tuple[int, int | None, int | None], ...]
    lost: tuple[int, ...]


def box_of(index: Any) -> Box | None:
    """The box that an index is; None for any other."""
    given = list(index) if isinstance(index, tuple) else [index]
    if given and given[-1] is Ellipsis:
        given.pop()
    cuts, lost = list[tuple[int, int | None, int | None]](), list[int]()
    for axis, one in enumerate(given):
        if isinstance(one, int) and not isinstance(one, bool):
            cuts.append((axis, one or None, None if one == -1 else one + 1))
            lost.append(axis)
            continue
        whole = isinstance(one, slice) and one.step in (None, 1)
        if not whole or not all(isinstance(end, int | None) for end in (one.start, one.stop)):
            return None
        if not _is_ahead(one.start or 0, one.stop):
            return None
        if one.start or one.stop is not None:
            cuts.append((axis, one.start or None, one.stop))
    return Box(tuple(cuts), tuple(lost))


def _is_ahead(start: int, stop: int | None) -> bool:
    """Whether the places of a slice are in order whatever the size; 1:-1 of two places and more."""
    if stop is None or (start >= 0 > stop):
        return True
    return (start < 0) == (stop < 0) and start <= stop


def put_together(
    add: Callable[..., fx.Node], x: fx.Node, box: Box, value: Any
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Function and arguments of the last node, behind the nodes that ``add`` makes."""
    regions = [x]
    for cut in box.cuts:
        regions.append(_taken(add, regions[-1], *cut))
    last: tuple[Callable[..., Any], tuple[Any, ...]] = filling, (regions[-1], value, box.lost)
    for (axis, start, stop), whole in zip(reversed(box.cuts), reversed(regions[:-1]), strict=True):
        parts = [] if start is None else [_taken(add, whole, axis, None, start)]
        parts.append(add(last[0], *last[1]))
        parts += [] if stop is None else [_taken(add, whole, axis, stop, None)]
        last = torch.cat, (parts, axis)
    return last


def _taken(
    add: Callable[..., fx.Node], x: fx.Node, axis: int, start: int | None, stop: int | None
) -> fx.Node:
    return add(operator.getitem, x, (*[slice(None)] * axis, slice(start, stop)))


def filling(region: torch.Tensor, value: Any, lost: tuple[int, ...]) -> torch.Tensor:
    """A value in the sizes and the type of what it replaces, of which some axes are numbers of an index.

    Raises:
        UnsupportedModelError: it replaces nothing.
    """
    if 0 in region.shape:
        raise UnsupportedModelError("x[index] = value", "assigns to no place at these sizes", "Leave it out")
    if isinstance(value, torch.Tensor) and value.shape == region.shape:
        return value.to(region.dtype)
    sizes = [size for axis, size in enumerate(region.shape) if axis not in lost]
    number = torch.as_tensor(value, dtype=region.dtype, device=region.device)
    number = number.reshape(number.shape[max(number.dim() - len(sizes), 0) :])  # axes of 1 before the others
    return number.expand(sizes).reshape(region.shape)
