"""Steps by the width of the codes that they read and write."""

from __future__ import annotations

from dataclasses import replace

from calib8.engine.emitter import Emitter
from calib8.engine.fuse import Work
from calib8.engine.steps import (
    Conv,
    Depthwise,
    LayerNorm,
    Reduce,
    WideConv,
    WideDepthwise,
    WideLayerNorm,
    WideLength,
)


def sized(layer: Conv | Depthwise, work: Work, out: Emitter) -> Conv | Depthwise | WideConv | WideDepthwise:
    """The step of a layer, or, where 16-bit codes are read or written, the one that knows them."""
    sizes = _sizes(work, out)
    if max(sizes) == 1:
        return layer
    return WideConv(layer, *sizes) if isinstance(layer, Conv) else WideDepthwise(layer, *sizes)


def sized_length(reduction: Reduce, work: Work, out: Emitter) -> Reduce | WideLength:
    """The same of a reduction; with 16-bit codes it is a length."""
    sizes = _sizes(work, out)
    return reduction if max(sizes) == 1 else WideLength(reduction, *sizes)


def sized_norm(norm: LayerNorm, work: Work, out: Emitter, *, centred: bool) -> LayerNorm | WideLayerNorm:
    """The same of a LayerNorm; around the mean no code is subtracted."""
    sizes = _sizes(work, out)
    if max(sizes) == 1:
        return norm
    return WideLayerNorm(replace(norm, centre=0) if centred else norm, *sizes, int(centred))


def _sizes(work: Work, out: Emitter) -> tuple[int, int]:
    """Bytes of an element that is read, and of one that is written."""
    source, target = (
        out.item_size(number) if out.slot(number).is_codes else 1
        for number in (work.instruction.inputs[0], work.output)
    )
    return source, target
