"""Where the tensors of a program lie relative to each other: borders for padding, tensors inside of others.

A tensor [n, h, w, c] that a padded layer reads is stored with a border (halo) that holds the zero point, so
that kernels never ask where an image ends:

    row stride = (left + w + right) · pixel stride,   image stride = (top + h + bottom) · row stride

A part of another tensor (an operand of a Concat along the channels, a Reshape) has no storage of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calib8.engine.fuse import Work
from calib8.engine.halo import NO_HALO, Halo, halos
from calib8.engine.links import Link, plan_links, spread
from calib8.program.program import Program, Slot


@dataclass(frozen=True)
class Layout:
    """Storage of one slot.

    Attributes:
        root: the slot whose storage it uses; itself unless it is a part of another one.
        shift: elements from the start of the root's interior to that of this slot.
        halo: (top, left, bottom, right) border of the root's storage, in pixels.
        strides: elements, one per axis of the slot.
    """

    root: int
    shift: int
    halo: Halo
    strides: tuple[int, ...]


def plan_layouts(program: Program, works: Sequence[Work]) -> dict[int, Layout]:
    """A layout for every slot."""
    borders = halos(program, works)
    links = plan_links(program, works, borders)
    borders = spread(borders, links)
    layouts: dict[int, Layout] = {}
    for number in range(len(program.slots)):
        _resolve(number, program, links, borders, layouts)
    return layouts


def _resolve(
    number: int,
    program: Program,
    links: Mapping[int, Link],
    borders: Mapping[int, Halo],
    layouts: dict[int, Layout],
) -> None:
    """Layouts of a slot and of all that it lies in."""
    chain = [number]
    while chain[-1] in links and chain[-1] not in layouts:
        chain.append(links[chain[-1]].parent)
    for slot in reversed(chain):
        if slot in layouts:
            continue
        link = links.get(slot)
        if link is None:
            layouts[slot] = _own_storage(program.slots[slot], slot, borders.get(slot, NO_HALO))
            continue
        outer = layouts[link.parent]
        strides, shift = outer.strides, outer.shift
        if link.axis < 0:
            strides = _own_storage(program.slots[slot], slot, NO_HALO).strides
        else:
            shift += link.start * strides[link.axis]
        layouts[slot] = Layout(outer.root, shift, outer.halo, strides)


def storage_bytes(slot: Slot, layout: Layout, item: int) -> tuple[int, int]:
    """Bytes that a root's storage takes, and those before its interior begins."""
    if layout.halo == NO_HALO:
        size = 1
        for length in slot.shape:
            size *= length
        return size * item, 0
    top, left, bottom, right = layout.halo
    images, rows, columns, _ = slot.shape
    image, row, column, _ = layout.strides
    assert image == (top + rows + bottom) * row and row == (left + columns + right) * column
    return images * image * item, (top * row + left * column) * item


def dense_strides(shape: Sequence[int]) -> list[int]:
    """Elements from one index to the next of a tensor without gaps."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


def _own_storage(slot: Slot, number: int, halo: Halo) -> Layout:
    sizes = list(slot.shape)
    if halo != NO_HALO:
        sizes[1] += halo[0] + halo[2]
        sizes[2] += halo[1] + halo[3]
    return Layout(number, 0, halo, tuple(dense_strides(sizes)))
