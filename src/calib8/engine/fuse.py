"""Instructions that one step carries out together.

    layer → Add | Sub                    the residual is added to the codes in registers
    layer | layer + Add | Add → Lookup   the table is applied to the codes before they are stored
    ResizeLinear → Dequantize            float32 channel by channel, if the image gets clearly wider

A fused step gives the bits of its instructions one after the other. A sum moves up to the layer that is
computed last of its two sides; behind a layer whose rule has a function it stays alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from calib8.program import instructions as op
from calib8.program.instructions import Add, Dequantize, Instruction, Lookup, Sub
from calib8.program.program import Program
from calib8.program.rules import CurveRescale, TwoSidedRescale

ADDERS: Final = (op.Conv, op.FullyConnected)
"""Layers whose step can add a residual."""

TABLE_STEPS: Final = (op.Conv, op.FullyConnected, op.DepthwiseConv, op.Add, op.Sub, op.RealPair)
"""Instructions whose step can end with a table."""

WIDER: Final = 1.5
"""How much wider a Resize makes an image that gives float32 at once."""


@dataclass(frozen=True, eq=False)
class Work:
    """One instruction and what is fused behind it.

    Attributes:
        instruction: what is carried out first.
        inputs: all slots that are read, the residual included.
        output: the slot that is written, of several the first; −1 for a Float instruction.
        add: the sum with a residual.
        residual: slot of the residual; −1 for none.
        lookup: the table that is applied last.
        dequantize: what makes float32 of the codes.
    """

    instruction: Instruction
    inputs: tuple[int, ...]
    output: int
    add: Add | Sub | None = None
    residual: int = -1
    lookup: Lookup | None = None
    dequantize: Dequantize | None = None

    @property
    def name(self) -> str:
        """Names of the instructions."""
        parts = (self.instruction, self.add, self.lookup, self.dequantize)
        return " + ".join(part.name for part in parts if part is not None)

    @property
    def outputs(self) -> tuple[int, ...]:
        """All slots that are written."""
        return (self.output, *self.instruction.outputs[1:]) if self.output >= 0 else self.instruction.outputs


def fuse(program: Program) -> list[Work]:
    """All instructions of a program, in order, fused where that keeps every bit."""
    works: list[Work | None] = [_alone(instruction) for instruction in program.instructions]
    readers = _readers(program)
    written = {slot: place for place, step in enumerate(program.instructions) for slot in step.outputs}
    for place, step in enumerate(program.instructions):
        if isinstance(step, Add | Sub):
            host = _host_of_sum(step, program, works, readers, written)
            if host is not None:
                works[place] = None
                works[host] = _with_sum(works[host], step)
                written[step.outputs[0]] = host
        elif isinstance(step, Lookup) and step.table.ndim == 1 and not _any_wide(step.outputs, program):
            host = written.get(step.inputs[0])
            if host is not None and _takes_table(works[host], program) and readers[step.inputs[0]] == 1:
                works[place] = None
                works[host] = replace(works[host], output=step.outputs[0], lookup=step)  # type: ignore[type-var]
                written[step.outputs[0]] = host
        elif isinstance(step, Dequantize):
            host = written.get(step.inputs[0])
            alone = readers[step.inputs[0]] == 1
            if host is not None and alone and _gives_planes(works[host], step, program):
                works[place] = None
                works[host] = replace(works[host], output=step.outputs[0], dequantize=step)  # type: ignore[type-var]
                written[step.outputs[0]] = host
    return [work for work in works if work is not None]


def writers(works: Sequence[Work]) -> dict[int, int]:
    """Slot → place of the work that writes it."""
    return {slot: place for place, work in enumerate(works) for slot in work.outputs}


def _alone(instruction: Instruction) -> Work:
    output = -1 if isinstance(instruction, op.Float) else instruction.outputs[0]
    return Work(instruction, instruction.inputs, output)


def _readers(program: Program) -> dict[int, int]:
    """Slot → how often it is read; a result of the program counts as one more."""
    counts: dict[int, int] = {}
    read: Iterable[int] = (slot for step in program.instructions for slot in step.inputs)
    for slot in (*read, *(port.slot for port in program.outputs)):
        counts[slot] = counts.get(slot, 0) + 1
    return counts


def _host_of_sum(
    step: Add | Sub,
    program: Program,
    works: Sequence[Work | None],
    readers: dict[int, int],
    written: dict[int, int],
) -> int | None:
    """Place of the layer that can add: it is the later side, nobody else reads it, nothing is broadcast."""
    slots = (*step.inputs, *step.outputs)
    shapes = {program.slots[slot].shape for slot in slots}
    if len(shapes) != 1 or step.inputs[0] == step.inputs[1] or _any_wide(slots, program):
        return None
    later = max(step.inputs, key=lambda slot: written.get(slot, -1))
    host = written.get(later)
    if host is None or readers[later] != 1:
        return None
    work = works[host]
    if work is None or not isinstance(work.instruction, ADDERS) or work.add or work.lookup:
        return None
    if _any_wide(work.inputs, program):
        return None
    if isinstance(work.instruction.rescale, TwoSidedRescale | CurveRescale):
        return None
    return host if program.slots[later].is_codes else None


def _with_sum(work: Work | None, step: Add | Sub) -> Work:
    assert work is not None
    residual = step.inputs[1] if step.inputs[0] == work.output else step.inputs[0]
    return replace(work, inputs=(*work.inputs, residual), output=step.outputs[0], add=step, residual=residual)


def _any_wide(slots: Iterable[int], program: Program) -> bool:
    return any(program.slots[slot].is_wide for slot in slots)


def _gives_planes(work: Work | None, step: Dequantize, program: Program) -> bool:
    """Whether a Resize can give the float32 numbers of a Dequantize.

    Its kernels take as many columns at once as a vector has lanes, and want their neighbours, at most
    lanes / ``WIDER`` + 2, in one vector.
    """
    if work is None or not isinstance(work.instruction, op.ResizeLinear) or work.dequantize is not None:
        return False
    source, codes = program.slots[work.instruction.inputs[0]], program.slots[work.output]
    wider = codes.shape[2] >= WIDER * source.shape[2]
    by_channel = step.axes == (0, 3, 1, 2) and codes.scales.size == 1
    return work.instruction.rows.rounding == "even" and by_channel and wider


def _takes_table(work: Work | None, program: Program) -> bool:
    if work is None or work.lookup is not None or not isinstance(work.instruction, TABLE_STEPS):
        return False
    if _any_wide((*work.inputs, work.output), program):
        return False
    return not isinstance(work.instruction, op.Weighted) or work.instruction.rescale is not None
