"""Instructions that read or write 16-bit codes; those that only move codes are the same for every width."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8 import _core
from calib8.engine import steps
from calib8.engine.emit.borders import begin, border_nests
from calib8.engine.emit.elementwise import pair_fields, per_channel, product_fields, single_fields
from calib8.engine.emit.loops import SOURCE, TARGET
from calib8.engine.emit.pools import window_fields
from calib8.engine.emit.rescale import layer_fields, sum_fields
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fields import NONE, Pair
from calib8.engine.fuse import Work
from calib8.engine.steps import Conv, Depthwise
from calib8.engine.wide import BYTE, FinishSums, HighBytes, LowBytes
from calib8.program.instructions import Add, Dequantize, Lookup, MaxPool, Mul, Quantize, Sub

SUM_BYTES: Final = 4
BAND_BYTES: Final = 1 << 18
"""Sums of a band of rows, at least one: about as much as the second cache holds beside what layers read."""


def emit_plane(work: Work, out: Emitter) -> None:
    """A Plane step."""
    step = work.instruction
    assert isinstance(step, HighBytes | LowBytes)
    for tensors in single_fields(out, step.inputs[0], work.output):
        out.add(steps.Plane(tensors, int(isinstance(step, HighBytes))), work)


def emit_finish(work: Work, out: Emitter) -> None:
    """A Finish step; with the steps of its layers in bands of rows, so that sums stay in the cache."""
    step = work.instruction
    assert isinstance(step, FinishSums)
    channels, both = step.bias.size, len(step.sums) == 2
    places = np.minimum(np.arange(channels + -channels % _core.engine.PADDED), channels - 1)
    rescale, activation = layer_fields(
        out, step.rescale, step.low, step.high, step.outputs[0], channels, places
    )
    bias = out.constant(step.bias[places].astype(np.int32)) if both else NONE
    inputs, size = (step.sums[0], step.sums[-1]), out.item_size(work.output)

    def ended(pair: Pair) -> steps.Finish:
        return steps.Finish(pair, BYTE if both else 0, size, bias, rescale, activation)

    layers = _layers_before(step, work, out)
    rows = _band_rows(work, out, len(layers))
    if not layers or rows >= out.slot(work.output).shape[1]:
        for pair in pair_fields(out, inputs, work.output, keep_last=True):
            out.add(ended(pair), work)
        return
    taken = [(out.steps.pop(), out.names.pop(), out.macs.pop()) for _ in layers][::-1]
    images, height = out.slot(work.output).shape[:2]
    for image in range(images):
        for first in range(0, height, rows):
            count = min(rows, height - first)
            for layer, (_, name, macs) in zip(layers, taken, strict=True):
                part = _band(layer, image, first, count)
                out.add(part, None, macs * count // (images * height), name)
            out.add(ended(_band_pair(work, out, layers, image, first, count)), work)


def _layers_before(step: FinishSums, work: Work, out: Emitter) -> list[Conv | Depthwise]:
    """The steps that make the sums of images, if those are the last ones and there is one for each."""
    last = out.steps[-len(step.sums) :]
    layers = [layer for layer in last if isinstance(layer, Conv | Depthwise)]
    places = [(layer.output.buffer, layer.output.offset) for layer in layers]
    views = {replace(layer.output, offset=0) for layer in layers}
    image = len(out.slot(work.output).shape) == 4
    whole = image and views == {replace(out.view(step.sums[0]), offset=0)}
    return layers if whole and places == [out.place(slot) for slot in step.sums] else []


def _band_rows(work: Work, out: Emitter, layers: int) -> int:
    """Rows whose sums fit the cache."""
    shape = out.slot(work.output).shape
    return max(BAND_BYTES // max(layers * shape[-1] * shape[-2] * SUM_BYTES, 1), 1)


def _band(layer: Conv | Depthwise, image: int, first: int, count: int) -> Conv | Depthwise:
    """A step for some of the rows; its sums begin where those of the first band do."""
    view = layer.input
    start = image * view.image_stride + first * layer.row_step * view.row_stride
    return replace(
        layer,
        input=replace(view, offset=view.offset + start, images=1),
        output=replace(layer.output, images=1, rows=count),
    )


def _band_pair(
    work: Work, out: Emitter, layers: list[Conv | Depthwise], image: int, first: int, count: int
) -> Pair:
    """The sums of a band and the place of its codes."""
    view, sums = out.view(work.output), layers[0].output
    start = image * view.image_stride + first * view.row_stride
    rows = (0, 0, 0, sums.row_stride, sums.column_stride, 1)
    return Pair(
        (1, 1, 1, count, view.columns, view.channels),
        rows,
        rows,
        (0, 0, 0, view.row_stride, view.column_stride, 1),
        *(sums.buffer, sums.offset, layers[-1].output.buffer, layers[-1].output.offset),
        *(view.buffer, view.offset + start * out.item_size(work.output)),
    )


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


EMIT: Final[Emits] = {
    HighBytes: emit_plane,
    LowBytes: emit_plane,
    FinishSums: emit_finish,
}

EMIT_WIDE: Final[Emits] = {
    Quantize: emit_quantize,
    Dequantize: emit_dequantize,
    Add: emit_add,
    Sub: emit_add,
    Mul: emit_mul,
    Lookup: emit_lookup,
    MaxPool: emit_max_pool,
}
"""In place of those of the other families, where a slot has 16-bit codes."""
