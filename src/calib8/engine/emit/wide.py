"""Instructions that read or write 16-bit codes; those that only move codes are the same for every width."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.engine import wide_steps as steps
from calib8.engine.emit.borders import begin, border_nests
from calib8.engine.emit.elementwise import pair_fields, per_channel, product_fields, single_fields
from calib8.engine.emit.loops import SOURCE, TARGET
from calib8.engine.emit.pools import window_fields
from calib8.engine.emit.rescale import layer_fields, sum_fields
from calib8.engine.emitter import Emitter
from calib8.engine.fields import NONE
from calib8.engine.fuse import Work
from calib8.engine.wide import BYTE, FinishSums, HighBytes, LowBytes
from calib8.program.instructions import Add, Dequantize, Lookup, MaxPool, Mul, Quantize, Sub

PADDED: Final = 64
"""What the entries of arrays per channel are filled up to a multiple of."""


def emit_plane(work: Work, out: Emitter) -> None:
    """A Plane step."""
    step = work.instruction
    assert isinstance(step, HighBytes | LowBytes)
    for tensors in single_fields(out, step.inputs[0], work.output):
        out.add(steps.Plane(tensors, int(isinstance(step, HighBytes))), work)


def emit_finish(work: Work, out: Emitter) -> None:
    """A Finish step."""
    step = work.instruction
    assert isinstance(step, FinishSums)
    channels, both = step.bias.size, len(step.inputs) == 2
    places = np.minimum(np.arange(-(-channels // PADDED) * PADDED), channels - 1)
    rescale, activation = layer_fields(
        out, step.rescale, step.low, step.high, step.outputs[0], channels, places
    )
    bias = out.constant(step.bias[places].astype(np.int32)) if both else NONE
    inputs = (step.inputs[0], step.inputs[-1])
    for pair in pair_fields(out, inputs, work.output, keep_last=True):
        size = out.item_size(work.output)
        out.add(steps.Finish(pair, BYTE if both else 0, size, bias, rescale, activation), work)


def emit_add(work: Work, out: Emitter) -> None:
    """Sum or difference of codes."""
    step = work.instruction
    assert isinstance(step, Add | Sub)
    rule = sum_fields(out, step)
    for pair in pair_fields(out, step.inputs, work.output):
        out.add(steps.WideAdd(pair, *_sizes(work, out), sum=rule), work)


def emit_mul(work: Work, out: Emitter) -> None:
    """Product of codes."""
    step = work.instruction
    assert isinstance(step, Mul)
    for pair in pair_fields(out, step.inputs, work.output):
        out.add(steps.WideMul(pair, *_sizes(work, out), **product_fields(step, work.output, out)), work)


def emit_lookup(work: Work, out: Emitter) -> None:
    """A table by code, or one per channel."""
    step, source = work.instruction, work.instruction.inputs[0]
    assert isinstance(step, Lookup)
    table: npt.NDArray[Any] = step.table
    each = table.ndim == 2 and per_channel(table)
    if not each and not out.slot(source).is_wide:
        table = table.reshape(-1, BYTE)[0]
    shifted = table.astype(np.int32) + out.shift(work.output)
    constant = out.constant(shifted.astype(np.int16 if out.slot(work.output).is_wide else np.uint8))
    sizes = (out.item_size(source), out.item_size(work.output))
    for tensors in single_fields(out, source, work.output, keep_last=each):
        out.add(steps.WideLookup(tensors, *sizes, int(each), constant), work)


def emit_max_pool(work: Work, out: Emitter) -> None:
    """One step."""
    step = work.instruction
    assert isinstance(step, MaxPool)
    window = window_fields(step, step.dilations)
    out.add(steps.WideMaxPool(out.view(step.inputs[0]), out.view(work.output), window), work)


def emit_quantize(work: Work, out: Emitter) -> None:
    """One step (several beyond six axes)."""
    step, slot = work.instruction, out.slot(work.output)
    assert isinstance(step, Quantize)
    for nest in border_nests(step, work, out):
        out.add(
            steps.WideQuantize(
                *begin(nest, step.inputs[0], SOURCE, out),
                *begin(nest, work.output, TARGET, out),
                sizes=nest.sizes,
                source_strides=nest.strides(SOURCE),
                target_strides=nest.strides(TARGET),
                scale=slot.scale,
                zero_point=slot.zero_point,
                away=int(step.rounding == "away"),
            ),
            work,
        )


def emit_dequantize(work: Work, out: Emitter) -> None:
    """One step (several beyond six axes)."""
    step, slot = work.instruction, out.slot(work.instruction.inputs[0])
    assert isinstance(step, Dequantize)
    for nest in border_nests(step, work, out):
        out.add(
            steps.WideDequantize(
                *begin(nest, step.inputs[0], SOURCE, out),
                *begin(nest, work.output, TARGET, out),
                sizes=nest.sizes,
                source_strides=nest.strides(SOURCE),
                target_strides=nest.strides(TARGET),
                scale=slot.scale,
                zero_point=slot.zero_point,
            ),
            work,
        )


def _sizes(work: Work, out: Emitter) -> tuple[int, int, int]:
    """Bytes of an element of the operands and of the output."""
    lhs, rhs = work.instruction.inputs
    return out.item_size(lhs), out.item_size(rhs), out.item_size(work.output)
