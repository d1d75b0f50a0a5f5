"""Steps of layers by the width of the codes that they read and write."""

from __future__ import annotations

from calib8.engine.emitter import Emitter
from calib8.engine.fuse import Work
from calib8.engine.steps import Conv, Depthwise, WideConv, WideDepthwise


def sized(layer: Conv | Depthwise, work: Work, out: Emitter) -> Conv | Depthwise | WideConv | WideDepthwise:
    """The step of a layer, or, where 16-bit codes are read or written, the one that knows them."""
    source, target = work.instruction.inputs[0], work.output
    if not (out.slot(source).is_wide or out.slot(target).is_wide):
        return layer
    sizes = (out.item_size(source), out.item_size(target))
    return WideConv(layer, *sizes) if isinstance(layer, Conv) else WideDepthwise(layer, *sizes)
