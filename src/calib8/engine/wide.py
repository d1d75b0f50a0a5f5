"""Layers with 16-bit codes that no step takes as they are: layers of 8 bits that make sums, and their end.

    x = 256·hi + lo:   acc = Σ (x − z_x)·w + b = 256·Σ (hi − z_hi)·w + Σ (lo − z_lo)·w + b

    x of 16 bits → layer → y      x → HighBytes → layer → sums ┐
                                  x → LowBytes  → layer → sums ┴ FinishSums → y
    x of 8 bits → layer → y of 16 bits      x → layer → sums → FinishSums → y

z_x = 256·z_hi + z_lo, so borders of the two planes hold the border of x. Each of the two sums is one of
8-bit codes; ``verify`` has proven that they fit int32.

A layer whose sums of 16-bit codes fit int32 as a whole stays as it is, as most do, for weights are small; so
does what only writes 16 bits. Depthwise layers with several filters per channel are always taken apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.instructions import Instruction
from calib8.program.ops.weighted import layer_sums
from calib8.program.program import Program, Slot

LAYERS: Final = (op.Conv, op.DepthwiseConv, op.ConvTranspose, op.FullyConnected)
BYTE: Final = 256


@dataclass(frozen=True, eq=False)
class HighBytes(Instruction):
    """The upper byte of 16-bit codes, an int8 code."""


@dataclass(frozen=True, eq=False)
class LowBytes(Instruction):
    """The lower byte of 16-bit codes, a uint8 code."""


@dataclass(frozen=True, eq=False)
class FinishSums(Instruction):
    """``256·first + second + bias``, or the one tensor of sums as it is, rescaled as in the layer.

    Behind the sums, ``inputs`` has what their layers read: bands of rows take turns, so it is needed until
    the last one is done.

    Attributes:
        bias: int32 [channels]; only with two tensors of sums.
        rescale: of the layer; None stores the sums.
        low, high: clamp of the codes.
    """

    bias: npt.NDArray[np.int32]
    rescale: rules.LayerRescale | None
    low: int
    high: int

    @property
    def sums(self) -> tuple[int, ...]:
        """Slots of the sums, one or two."""
        return self.inputs[: len(self.inputs) // 2]


@dataclass
class _Narrowing:
    """The program while it is rewritten."""

    slots: list[Slot]
    instructions: list[Instruction] = field(default_factory=list)
    planes: dict[int, tuple[int, int]] = field(default_factory=dict)

    def slot(self, slot: Slot) -> int:
        self.slots.append(slot)
        return len(self.slots) - 1


def narrowed(program: Program) -> Program:
    """The program without layers of 16-bit codes that no step takes; others keep their codes."""
    if not any(slot.is_wide for slot in program.slots):
        return program
    work = _Narrowing(list(program.slots))
    for step in program.instructions:
        if isinstance(step, LAYERS) and not _has_step(step, work.slots):
            _lower(step, work)
        else:
            work.instructions.append(step)
    return replace(program, slots=tuple(work.slots), instructions=tuple(work.instructions))


def fits_int32(step: op.Weighted, source: Slot) -> bool:
    """Is every sum of a layer that reads these 16-bit codes an int32, whatever the codes are?

    Σ (x − z_x)·w + b,   x − z_x in −2^15 − z_x … 2^15 − 1 − z_x
    """
    sums, limits = layer_sums(step, source), np.iinfo(np.int32)
    return bool(sums.high.max(initial=0) <= limits.max and sums.low.min(initial=0) >= limits.min)


def _has_step(step: op.Weighted, slots: list[Slot]) -> bool:
    source, target = slots[step.inputs[0]], slots[step.outputs[0]]
    if not (source.is_wide or target.is_wide):
        return True
    if isinstance(step, op.DepthwiseConv) and source.shape[-1] != step.bias.size:
        return False
    return not source.is_wide or (step.rescale is not None and fits_int32(step, source))


def _lower(step: op.Weighted, work: _Narrowing) -> None:
    """A layer becomes layers of 8 bits and the end of their sums."""
    (source,), (target,) = step.inputs, step.outputs
    shape, wide = work.slots[target].shape, work.slots[source].is_wide
    read = _planes(source, work) if wide else (source,)
    sums = []
    for number in read:
        name = f"{work.slots[target].name} as sums of {work.slots[number].name}"
        found = work.slot(Slot(name, shape, "int32"))
        bias = np.zeros_like(step.bias) if wide else step.bias
        layer = replace(step, inputs=(number,), outputs=(found,), rescale=None, bias=bias)
        work.instructions.append(layer)
        sums.append(found)
    work.instructions.append(
        FinishSums(
            f"end of {step.name}", (*sums, *read), step.outputs, step.bias, step.rescale, step.low, step.high
        )
    )


def _planes(number: int, work: _Narrowing) -> tuple[int, int]:
    """The two bytes of a slot; made once, by the first layer that reads it."""
    if number not in work.planes:
        slot = work.slots[number]
        high = work.slot(
            replace(slot, name=f"{slot.name}, upper bytes", dtype="int8", zero_point=slot.zero_point // BYTE)
        )
        low = work.slot(
            replace(slot, name=f"{slot.name}, lower bytes", dtype="uint8", zero_point=slot.zero_point % BYTE)
        )
        work.instructions.append(HighBytes(f"upper bytes of {slot.name}", (number,), (high,)))
        work.instructions.append(LowBytes(f"lower bytes of {slot.name}", (number,), (low,)))
        work.planes[number] = high, low
    return work.planes[number]
