"""Quantize and Dequantize: between float32 and stored codes or sums, with a change of layout on the way."""

from __future__ import annotations

from typing import Final

import numpy as np

from calib8.engine import steps
from calib8.engine.emit.loops import SOURCE, TARGET, Loop, Nest, nests
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fuse import Work
from calib8.program.instructions import Dequantize, Quantize


def emit_quantize(work: Work, out: Emitter) -> None:
    """One Quantize step (several beyond six axes)."""
    step = work.instruction
    assert isinstance(step, Quantize)
    slot, limits = out.slot(work.output), np.iinfo(out.slot(work.output).dtype)
    for nest in border_nests(step, work, out):
        source, target = begin(nest, step.inputs[0], SOURCE, out), begin(nest, work.output, TARGET, out)
        out.add(
            steps.Quantize(
                *source,
                *target,
                sizes=nest.sizes,
                source_strides=nest.strides(SOURCE),
                target_strides=nest.strides(TARGET),
                scale=slot.scale,
                zero_point=slot.zero_point,
                low=int(limits.min),
                high=int(limits.max),
                shift=out.shift(work.output),
                away=int(step.rounding == "away"),
            ),
            work,
        )


def emit_dequantize(work: Work, out: Emitter) -> None:
    """One Dequantize step (several beyond six axes)."""
    step = work.instruction
    assert isinstance(step, Dequantize)
    number = step.inputs[0]
    scales = out.constant(out.slot(number).scales)
    for nest in border_nests(step, work, out):
        out.add(
            steps.Dequantize(
                *begin(nest, number, SOURCE, out),
                *begin(nest, work.output, TARGET, out),
                source_size=out.item_size(number),
                sizes=nest.sizes,
                source_strides=nest.strides(SOURCE),
                target_strides=nest.strides(TARGET),
                scale_strides=nest.strides(2),
                scales=scales + nest.starts[2],
                zero_point=out.stored_zero_point(number),
            ),
            work,
        )


def border_nests(step: Quantize | Dequantize, work: Work, out: Emitter) -> list[Nest]:
    """Loops over the axes of the output, with the strides of source, target and the scales of the source."""
    number = step.inputs[0]
    sizes = (out.item_size(number), out.item_size(work.output))
    source = [stride * sizes[SOURCE] for stride in out.strides(number)]
    target = [stride * sizes[TARGET] for stride in out.strides(work.output)]
    scales = [0] * len(source)
    if isinstance(step, Dequantize) and out.slot(number).scales.size > 1:
        scales[-1] = 4
    return nests(
        [
            Loop(size, (source[axis], stride, scales[axis]))
            for size, stride, axis in zip(out.slot(work.output).shape, target, step.axes, strict=True)
        ],
        tensors=3,
    )


def begin(nest: Nest, number: int, tensor: int, out: Emitter) -> tuple[int, int]:
    """Buffer and byte offset at which a nest begins in a slot."""
    buffer, offset = out.place(number)
    return buffer, offset + nest.starts[tensor]


EMIT: Final[Emits] = {
    Quantize: emit_quantize,
    Dequantize: emit_dequantize,
}
