"""Convolutions over depth, rows and columns: one over the rows and columns of frames side by side.

    Conv           weight [O, C/g, kd, kh, kw] → [O, kh·kd, kw, C/g] over the joined rows of kd frames
    ConvTranspose  kd = stride of the depth: frame d gives the frames d·kd … d·kd + kd − 1, which are
                   channels of one layer over images at first; else a layer over frames joined along the
                   channels, those between frames being zero

Images, and what has fewer axes, go to ``emit_layers``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import input_at, int_attribute, ints_attribute
from calib8.program.instructions import (
    Concat,
    Conv,
    ConvTranspose,
    DepthwiseConv,
    Reshape,
    Transpose,
    Weighted,
)
from calib8.program.lower import emit_layers
from calib8.program.lower.builder import Builder, shape_of
from calib8.program.lower.emit_layers import NEGATIVE_PADS, NOT_AN_IMAGE, Layer
from calib8.program.lower.forms import Coded
from calib8.program.lower.results import coded_source
from calib8.program.lower.volumes import (
    VOLUME,
    Frames,
    arranged,
    as_volume,
    frames_of,
    in_shape,
    joined,
    padded,
    picked_frames,
    refuse_sums,
    sizes_of,
    windows_of,
)
from calib8.program.lower.weights import Weights, coded_weights
from calib8.program.ops.windows import Window
from calib8.program.rules import Codes


def conv(builder: Builder, node: ir.Node) -> None:
    """A convolution over three axes, or what ``emit_layers`` makes of one over two."""
    source = coded_source(builder, node)
    if len(source.order) != len(VOLUME):
        emit_layers.conv(builder, node)
        return
    weights = coded_weights(node.inputs[1], 0)
    if weights.codes.ndim != len(VOLUME):
        raise NoFormError(NOT_AN_IMAGE)
    depth, rows, columns = windows_of(builder, node, source)
    if any(min(window.before, window.after) < 0 for window in (depth, rows, columns)):
        raise NoFormError(NEGATIVE_PADS)
    groups, channels = int_attribute(node, "group", 1), builder.shape(source)[1]
    image = joined(builder, frames_of(builder, source), depth, rows, shape_of(node.outputs[0])[2:])
    strides, dilations = (image.stride, columns.stride), (image.dilation, columns.dilation)
    pads = (image.pads[0], columns.before, image.pads[1], columns.after)
    depthwise = groups == channels and groups > 1

    def make(**fields: Any) -> Weighted:
        if depthwise:
            return DepthwiseConv(**fields, strides=strides, pads=pads, dilations=dilations)
        return Conv(**fields, strides=strides, pads=pads, dilations=dilations, groups=groups)

    codes = _over_rows(weights.codes, depthwise=depthwise)
    emit_layers.emit(builder, Layer(node, image.image, weights, codes, input_at(node, 2), 1, VOLUME, make))
    as_volume(builder, builder.steps[-1].name, builder.steps[-1].outputs[0])


def _over_rows(codes: Codes, *, depthwise: bool) -> Codes:
    """[O, C/g, kd, kh, kw] → [O, kh·kd, kw, C/g], or [kh·kd, kw, O] with one filter per channel."""
    outputs, inputs, frames, rows, columns = codes.shape
    if depthwise:
        return codes[:, 0].transpose(2, 1, 3, 0).reshape(rows * frames, columns, outputs)
    return codes.transpose(0, 3, 2, 4, 1).reshape(outputs, rows * frames, columns, inputs)


def conv_transpose(builder: Builder, node: ir.Node) -> None:
    """A transposed convolution over three axes, or what ``emit_layers`` makes of one over two."""
    source = coded_source(builder, node)
    if len(source.order) != len(VOLUME):
        emit_layers.conv_transpose(builder, node)
        return
    groups = int_attribute(node, "group", 1)
    weights = coded_weights(node.inputs[1], 1, groups)
    if weights.codes.ndim != len(VOLUME):
        raise NoFormError(NOT_AN_IMAGE)
    depth, *image_windows = windows_of(builder, node, source)
    if any(min(window.before, window.after) < 0 for window in (depth, *image_windows)):
        raise NoFormError(NEGATIVE_PADS)
    frames, outputs = frames_of(builder, source), shape_of(node.outputs[0])[2]
    if outputs == depth.size * depth.kernel and depth.kernel == depth.stride and depth.before == 0:
        _side_by_side(builder, node, weights, frames, depth.kernel)
    elif groups == 1:
        _overlapping(builder, node, weights, frames, depth, outputs)
    else:
        raise NoFormError("it has groups, and its frames overlap")


def _side_by_side(builder: Builder, node: ir.Node, weights: Weights, frames: Frames, kernel: int) -> None:
    """Every frame gives ``kernel`` frames by itself, each with a part of the weight: as many layers.

    Their rule is that of one layer with all of the weights, so that it holds for each of them.
    """
    _emit_transposed(builder, node, weights, frames.image, _whole_filter(node, weights.codes))
    if kernel == 1:
        as_volume(builder, builder.steps[-1].name, builder.steps[-1].outputs[0])
        return
    step = builder.steps.pop()
    assert isinstance(step, ConvTranspose)
    [target] = step.outputs
    slot, images = builder.slots[target], builder.slots[frames.image.slot].shape[0]
    refuse_sums(slot)
    shape, parts = (images, *slot.shape[2:]), list[int]()
    for place in range(kernel):
        made = builder.slot(replace(slot, name=f"{slot.name}/frame{place}", shape=shape))
        parts.append(
            builder.slot(replace(slot, name=f"{slot.name}/line{place}", shape=(images, 1, *shape[1:])))
        )
        weight = step.weight[:, place::kernel]
        builder.steps.append(replace(step, outputs=(made,), weight=weight))
        builder.steps.append(Reshape(step.name, (made,), (parts[-1],)))
    whole = builder.slot(replace(slot, name=f"{slot.name}/frames", shape=(images, kernel, *shape[1:])))
    builder.steps.append(Concat(step.name, tuple(parts), (whole,), 1))
    builder.steps.append(Reshape(step.name, (whole,), (target,)))


def _overlapping(
    builder: Builder, node: ir.Node, weights: Weights, frames: Frames, depth: Window, outputs: int
) -> None:
    """All frames that meet in an output frame side by side along the channels; zeros where there is none."""
    beyond = depth.size
    meets = np.full((outputs, depth.kernel), beyond, np.int32)
    for output, tap in np.ndindex(outputs, depth.kernel):
        frame, rest = divmod(output + depth.before - tap * depth.dilation, depth.stride)
        if rest == 0 and 0 <= frame < depth.size:
            meets[output, tap] = frame
    whole = padded(builder, frames, ((0, 1), (0, 0), (0, 0)))
    _, *sizes, channels = sizes_of(builder, whole)
    image = picked_frames(builder, whole, meets.reshape(-1)).image
    count = frames.count * outputs
    beside = in_shape(builder, image, (count, depth.kernel, *sizes, channels), "beside")
    together = (count, *sizes, depth.kernel, channels)
    axes = (0, 2, 3, 1, 4)
    moved = arranged(builder, beside, together, lambda ports: Transpose(*ports, axes), "together", axes)
    joined_image = in_shape(builder, moved, (count, *sizes, depth.kernel * channels), "joined")
    codes = weights.codes.transpose(1, 3, 4, 2, 0)
    codes = codes.reshape(*codes.shape[:3], depth.kernel * channels)
    _emit_transposed(builder, node, weights, joined_image, codes)
    as_volume(builder, builder.steps[-1].name, builder.steps[-1].outputs[0])


def _whole_filter(node: ir.Node, codes: Codes) -> Codes:
    """[I, O / groups, kd, kh, kw] → [O, kh·kd, kw, I / groups]."""
    groups = int_attribute(node, "group", 1)
    inputs, outputs, frames, rows, columns = codes.shape
    split = codes.reshape(groups, inputs // groups, outputs, frames, rows, columns)
    return split.transpose(0, 2, 4, 3, 5, 1).reshape(
        groups * outputs, rows * frames, columns, inputs // groups
    )


def _emit_transposed(builder: Builder, node: ir.Node, weights: Weights, image: Coded, codes: Codes) -> None:
    """The layer over rows and columns."""
    _, down, across = ints_attribute(node, "strides", (1, 1, 1))
    _, top, left, _, bottom, right = ints_attribute(node, "pads", (0,) * 6)
    _, rows, columns = ints_attribute(node, "dilations", (1, 1, 1))
    strides, dilations, pads = (down, across), (rows, columns), (top, left, bottom, right)
    groups = int_attribute(node, "group", 1)

    def make(**fields: Any) -> Weighted:
        return ConvTranspose(**fields, strides=strides, pads=pads, dilations=dilations, groups=groups)

    emit_layers.emit(builder, Layer(node, image, weights, codes, input_at(node, 2), 1, VOLUME, make))
