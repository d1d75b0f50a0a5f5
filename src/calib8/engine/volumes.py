"""Volumes [1, D, H, W, C] computed as the images [D, H, W, C], whose steps know strides and borders.

    Conv → Reshape → Add → Reshape → Conv      →      Conv → Add → Conv

What works element by element, joins channels or means over all of a volume is carried out on the images; a
Reshape stays only where somebody else reads or writes the volume.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final

from calib8.engine.few_axes import Reduction
from calib8.program import instructions as op
from calib8.program.program import Program, Slot

Shape = tuple[int, ...]

RANK: Final = 5

POINTWISE: Final = (
    op.Lookup, op.Requantize, op.Add, op.Sub, op.Mul, op.Div, op.RealRescale, op.RealPair, op.Maximum,
    op.Minimum, op.AddSums,
)  # fmt: skip

REDUCTIONS: Final = (op.Mean, op.ReduceL2, op.ReduceMax, op.ReduceMin)


def volumes_as_images(program: Program) -> Program:
    """The program with the images of volumes wherever their instructions take them."""
    if not any(len(slot.shape) == RANK for slot in program.slots):
        return program
    work = _Images(list(program.slots))
    for step in program.instructions:
        work.take(step)
    changed = replace(program, slots=tuple(work.slots), instructions=tuple(work.steps))
    return without_unread_moves(changed)


def without_unread_moves(program: Program) -> Program:
    """The program without Reshapes and Gathers whose results nobody reads."""
    live = {port.slot for port in program.outputs}
    kept = []
    for step in reversed(program.instructions):
        if isinstance(step, op.Reshape | op.Gather) and live.isdisjoint(step.outputs):
            continue
        live.update(step.inputs)
        kept.append(step)
    return replace(program, instructions=tuple(reversed(kept)))


@dataclass
class _Images:
    """The program while it is rewritten.

    Attributes:
        slots, steps: so far.
        images: volume → slot of its images.
        same: slot → one that holds the same in the same shape.
    """

    slots: list[Slot]
    steps: list[op.Instruction] = field(default_factory=list)
    images: dict[int, int] = field(default_factory=dict)
    same: dict[int, int] = field(default_factory=dict)

    def take(self, step: op.Instruction) -> None:
        """One more instruction."""
        step = replace(step, inputs=tuple(self.same.get(slot, slot) for slot in step.inputs))
        made = None if isinstance(step, op.Reshape) else self._on_images(step)
        if made is not None:
            self.steps.append(made)
            if made.outputs != step.outputs:
                self.steps.append(op.Reshape(step.name, made.outputs, step.outputs))
                self.images[step.outputs[0]] = made.outputs[0]
            return
        self.steps.append(step)
        if isinstance(step, op.Reshape):
            self._reshaped(step.inputs[0], step.outputs[0])

    def _reshaped(self, source: int, target: int) -> None:
        """What a Reshape tells about its two slots."""
        have, want = self.slots[source].shape, self.slots[target].shape
        image = self.images.get(source)
        if have == want:
            self.same[target] = source
        elif len(want) == RANK and have == frames_shape(want):
            self.images[target] = source
        elif image is not None and self.slots[image].shape == want:
            self.same[target] = image

    def _on_images(self, step: op.Instruction) -> op.Instruction | None:
        """The instruction on images; None where it has to stay as it is."""
        if isinstance(step, op.Quantize):
            return self._quantize(step)
        known = any(slot in self.images for slot in step.inputs)
        if not known or len(step.outputs) != 1:
            return None
        if isinstance(step, REDUCTIONS):
            return self._reduction(step)
        volume = self.slots[step.outputs[0]].shape
        axis = step.axis if isinstance(step, op.Concat) else RANK
        joins = isinstance(step, op.Concat) and axis >= 2
        if len(volume) != RANK or not (joins or isinstance(step, POINTWISE)):
            return None
        operands = [self._image(slot, volume[:2]) for slot in step.inputs]
        if any(slot is None for slot in operands):
            return None
        inputs = tuple(slot for slot in operands if slot is not None)
        outputs = (self._slot(step.outputs[0], frames_shape(volume)),)
        if isinstance(step, op.Concat):
            return replace(step, inputs=inputs, outputs=outputs, axis=axis - 1)
        return replace(step, inputs=inputs, outputs=outputs)

    def _quantize(self, step: op.Quantize) -> op.Instruction | None:
        """A volume by itself is an image with an axis before it."""
        source, target = self.slots[step.inputs[0]], self.slots[step.outputs[0]]
        if len(target.shape) != RANK or target.shape[0] != 1 or step.axes[0] != 0 or step.axes[-1] != 1:
            return None
        flat = self._slot(step.inputs[0], source.shape[1:])
        self.steps.append(op.Reshape(step.name, step.inputs, (flat,)))
        axes = tuple(axis - 1 for axis in step.axes[1:])
        images = self._slot(step.outputs[0], target.shape[1:])
        return replace(step, inputs=(flat,), outputs=(images,), axes=axes)

    def _reduction(self, step: Reduction) -> op.Instruction | None:
        """Over depth, rows and columns of one volume, or the channels of any."""
        [source] = step.inputs
        count, frames = self.slots[source].shape[:2]
        axes = {axis % RANK for axis in step.axes}
        if count > 1 and (0 in axes) != (1 in axes):
            return None
        if frames > 1 and 1 not in axes and 0 in axes:
            return None
        kept = tuple(sorted({max(axis - 1, 0) for axis in axes if axis != 0 or count > 1 or frames == 1}))
        if not kept:
            return None
        return replace(step, inputs=(self.images[source],), axes=kept)

    def _image(self, slot: int, whole: Shape) -> int | None:
        """The images of an operand beside volumes of so many frames; None where there are none."""
        shape = self.slots[slot].shape
        if len(shape) != RANK or (shape[:2] != whole and math.prod(shape[:2]) != 1):
            return None
        if slot not in self.images:
            self.images[slot] = self._slot(slot, frames_shape(shape))
            self.steps.append(op.Reshape(self.slots[slot].name, (slot,), (self.images[slot],)))
        return self.images[slot]

    def _slot(self, like: int, shape: Shape) -> int:
        slot = self.slots[like]
        self.slots.append(replace(slot, name=f"{slot.name} as images", shape=shape))
        return len(self.slots) - 1


def frames_shape(volume: Shape) -> Shape:
    """The images of a volume."""
    return (volume[0] * volume[1], *volume[2:])
