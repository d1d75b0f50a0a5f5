"""Borders of images in storage, so that kernels never ask where an image ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from calib8.engine.dead_taps import axes_of, windows_of
from calib8.engine.fuse import Work
from calib8.engine.phases import transposed_halo
from calib8.engine.wide import FinishSums, HighBytes, LowBytes
from calib8.program import instructions as op
from calib8.program.program import Program, Slot

Halo = tuple[int, int, int, int]
"""(top, left, bottom, right), in pixels."""

NO_HALO: Final[Halo] = (0, 0, 0, 0)

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
    op.ReduceL2,
    op.ReduceMax,
    op.ReduceMin,
    op.Add,
    op.Sub,
    op.AddSums,
    op.Mul,
    op.Div,
    op.RealRescale,
    op.RealPair,
    op.Maximum,
    op.Minimum,
    op.Concat,
    op.Quantize,
    op.Dequantize,
    op.ResizeNearest,
    op.ResizeLinear,
    op.LayerNorm,
    op.GroupNorm,
    op.Pad,
    op.Transpose,
    op.Slice,
    op.Gather,
    HighBytes,
    LowBytes,
    FinishSums,
)
"""Instructions whose steps read and write images with any strides; others want dense tensors."""


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
    slots: list[Slot] = list(program.slots)
    instructions: list[op.Instruction] = []
    for step in program.instructions:
        if isinstance(step, HALO_READERS) and step.inputs[0] in stiff and any(halo_of(step, program)):
            source = step.inputs[0]
            slots.append(replace(slots[source], name=f"{slots[source].name} with border"))
            roomy = len(slots) - 1
            instructions.append(op.Transpose(f"border of {step.name}", (source,), (roomy,), (0, 1, 2, 3)))
            step = replace(step, inputs=(roomy,))
        instructions.append(step)
    return replace(program, slots=tuple(slots), instructions=tuple(instructions))


def halos(program: Program, works: Sequence[Work]) -> dict[int, Halo]:
    """The largest padding with which a tensor is read; after ``with_room`` everybody can deal with it."""
    wanted: dict[int, Halo] = {}
    for work in works:
        if isinstance(work.instruction, HALO_READERS):
            source = work.instruction.inputs[0]
            reach = halo_of(work.instruction, program)
            wanted[source] = larger(wanted.get(source, NO_HALO), reach)
    return {number: halo for number, halo in wanted.items() if any(halo)}


def larger(a: Halo, b: Halo) -> Halo:
    """The border that serves both."""
    return max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])


def halo_of(step: op.Conv | op.DepthwiseConv | op.ConvTranspose, program: Program) -> Halo:
    """How far beyond the image (top, left, bottom, right) the windows of a layer reach."""
    source, target = program.slots[step.inputs[0]].shape, program.slots[step.outputs[0]].shape
    if isinstance(step, op.ConvTranspose):
        return transposed_halo(step, source, target)
    if isinstance(step, op.Conv) and len(windows_of(step, program)) > 1:
        return NO_HALO
    rows, columns = axes_of(step, program)
    return max(rows.pad, 0), max(columns.pad, 0), rows.beyond, columns.beyond
