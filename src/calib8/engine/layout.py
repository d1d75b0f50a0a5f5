"""Where the tensors of a program lie relative to each other: borders for padding, tensors inside of others.

A tensor [n, h, w, c] that a padded layer reads is stored with a border (halo) that holds the zero point, so
that kernels never ask where an image ends:

    row stride = (left + w + right) · pixel stride,   image stride = (top + h + bottom) · row stride

A part of another tensor (an operand of a Concat along the channels, a Reshape) has no storage of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from calib8.engine.fuse import Work
from calib8.engine.phases import transposed_halo
from calib8.program import instructions as op
from calib8.program.program import Program, Slot

HALO_READERS: Final = (op.Conv, op.DepthwiseConv, op.ConvTranspose)
"""Instructions whose steps need the border of their image in storage."""

VIEW_INSTRUCTIONS: Final = (
    op.Conv,
    op.DepthwiseConv,
    op.ConvTranspose,
    op.Lookup,
    op.Requantize,
    op.MaxPool,
    op.AveragePool,
    op.Mean,
    op.ReduceMax,
    op.ReduceMin,
    op.Add,
    op.Sub,
    op.AddSums,
    op.Mul,
    op.Maximum,
    op.Minimum,
    op.Concat,
    op.Quantize,
    op.Dequantize,
    op.ResizeNearest,
    op.ResizeLinear,
    op.Pad,
    op.Transpose,
    op.Slice,
    op.Gather,
)
"""Instructions whose steps read and write images with any strides; others want dense tensors."""


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
    halo: tuple[int, int, int, int]
    strides: tuple[int, ...]


NO_HALO: Final = (0, 0, 0, 0)


def plan_layouts(program: Program, works: Sequence[Work]) -> dict[int, Layout]:
    """A layout for every slot that the works read or write, and for the ports."""
    halos = _halos(program, works)
    layouts = {
        number: _own_storage(slot, number, halos.get(number, NO_HALO))
        for number, slot in enumerate(program.slots)
    }
    for work in works:
        if isinstance(work.instruction, op.Reshape):
            source, target = work.inputs[0], work.output
            outputs = {port.slot for port in program.outputs}
            if layouts[source].halo == NO_HALO and target not in halos and target not in outputs:
                dense = _own_storage(program.slots[target], source, NO_HALO)
                layouts[target] = replace(dense, root=layouts[source].root, shift=layouts[source].shift)
    return layouts


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


def with_room(program: Program) -> Program:
    """The program with a copy of every padded layer's input that cannot have a border where it lies.

    That is the case where an instruction that wants a dense tensor reads or writes it too, or where it is a
    result of the program.
    """
    stiff = {port.slot for port in program.outputs} | {
        number
        for step in program.instructions
        if not isinstance(step, VIEW_INSTRUCTIONS)
        for number in (*step.inputs, *step.outputs)
    }
    slots, instructions = list(program.slots), []
    for step in program.instructions:
        crowded = isinstance(step, HALO_READERS) and step.inputs[0] in stiff
        if crowded and any(halo_of(step, program)):
            source = step.inputs[0]
            slots.append(replace(slots[source], name=f"{slots[source].name} with border"))
            roomy = len(slots) - 1
            instructions.append(op.Transpose(f"border of {step.name}", (source,), (roomy,), (0, 1, 2, 3)))
            step = replace(step, inputs=(roomy,))
        instructions.append(step)
    return replace(program, slots=tuple(slots), instructions=tuple(instructions))


def _halos(program: Program, works: Sequence[Work]) -> dict[int, tuple[int, int, int, int]]:
    """The largest padding with which a tensor is read; after ``with_room`` everybody can deal with it."""
    wanted: dict[int, tuple[int, int, int, int]] = {}
    for work in works:
        if isinstance(work.instruction, HALO_READERS):
            source = work.instruction.inputs[0]
            reach = halo_of(work.instruction, program)
            old = wanted.get(source, NO_HALO)
            wanted[source] = tuple(map(max, old, reach))  # type: ignore[assignment]
    return {number: halo for number, halo in wanted.items() if any(halo)}


def halo_of(
    step: op.Conv | op.DepthwiseConv | op.ConvTranspose, program: Program
) -> tuple[int, int, int, int]:
    """How far beyond the image (top, left, bottom, right) the windows of a layer reach."""
    source, target = program.slots[step.inputs[0]].shape, program.slots[step.outputs[0]].shape
    if isinstance(step, op.ConvTranspose):
        return transposed_halo(step, source, target)
    kernel = step.weight.shape[:2] if isinstance(step, op.DepthwiseConv) else step.weight.shape[1:3]
    ends = []
    for axis in (0, 1):
        last = (target[axis + 1] - 1) * step.strides[axis] + (kernel[axis] - 1) * step.dilations[axis]
        ends.append(max(last + 1 - step.pads[axis] - source[axis + 1], 0))
    return step.pads[0], step.pads[1], ends[0], ends[1]


def _own_storage(slot: Slot, number: int, halo: tuple[int, int, int, int]) -> Layout:
    strides = [1] * len(slot.shape)
    sizes = list(slot.shape)
    if halo != NO_HALO:
        sizes[1] += halo[0] + halo[2]
        sizes[2] += halo[1] + halo[3]
    for axis in range(len(sizes) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    return Layout(number, 0, halo, tuple(strides))


def roots(layouts: Mapping[int, Layout]) -> dict[int, list[int]]:
    """Root → the slots that lie in its storage."""
    members: dict[int, list[int]] = {}
    for number, layout in layouts.items():
        members.setdefault(layout.root, []).append(number)
    return members
