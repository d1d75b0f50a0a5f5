"""Pools and shares: the largest code or the mean of windows, Softmax.

    max       code = clip(round(largest·fl(s_x / s_y)), ±127)
    average   code = clip(round(fl(fl(fl(sum·s_x) / n) / s_y)), ±127)
    softmax   code = clip(round(fl(fl(e / S) / s_y)), ±127)

n counts the pixels of the image, with a flavour of Caffe those of the padding before and as much behind too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from calib8.errors import NoFormError
from calib8.program.instructions import AveragePool, MaxPool, Softmax
from calib8.program.lower_tmfile.builder import Builder
from calib8.program.lower_tmfile.options import whole
from calib8.program.lower_tmfile.windows import pool_pads
from calib8.program.rounding.real import MOST, scaled_table, softmax_table
from calib8.program.rules import RealAverage
from calib8.tmfile.graph import Node

MAX, AVERAGE = 0, 1

HALF_PADS: Final = 2
"""Flavour of Caffe (bits 0 to 3) whose padding is given for both sides together."""

FLAVOURS: Final = 15


def pooling(builder: Builder, node: Node) -> None:
    """The largest code or the mean of windows, or of the image."""
    x, place = builder.image(node.inputs[0]), node.outputs[0]
    alg, everything, flavour = whole(node, "alg", "global", "caffe_flavor")
    if alg not in (MAX, AVERAGE):
        raise NoFormError(f"its kind {alg} is unknown")
    y = builder.slot_of(place, _image_shape(builder, place))
    kernel, strides, before = _window(node)
    pads = (0, 0, 0, 0)
    if everything or (tuple(kernel) == x.shape[1:3] and not any(before)):
        kernel, strides = list(x.shape[1:3]), [1, 1]
    else:
        before = [pad // 2 for pad in before] if flavour & FLAVOURS == HALF_PADS else before
        mirrored = alg == AVERAGE and flavour != 0
        pads = pool_pads(x.shape[1:3], y.shape[1:3], kernel, strides, before, mirrored)
    window = ((kernel[0], kernel[1]), (strides[0], strides[1]), pads)
    name, source = builder.name(node), builder.number(node.inputs[0])
    if alg == AVERAGE:
        target = builder.write(place)
        step = AveragePool(name, (source,), (target,), *window, flavour != 0, RealAverage(), -MOST, MOST)
        builder.steps.append(step)
        return
    largest = builder.between(x, y.shape, "largest")
    builder.steps.append(MaxPool(name, (source,), (largest,), *window, (1, 1)))
    if source in builder.full:
        builder.full.add(largest)
    factor = np.float32(x.scale) / np.float32(y.scale)
    builder.look_up(node, largest, place, scaled_table(factor), "Rescale")


def _window(node: Node) -> tuple[list[int], list[int], list[int]]:
    """Kernel, strides, padding before."""
    kernel, strides = whole(node, "kernel_h", "kernel_w"), whole(node, "stride_h", "stride_w")
    return kernel, strides, whole(node, "pad_h0", "pad_w0")


def _image_shape(builder: Builder, place: int) -> tuple[int, ...]:
    shape = builder.tensor(place).shape
    if len(shape) != 4:
        raise NoFormError(f"its output has the shape {list(shape)}")
    return tuple(shape[axis] for axis in (0, 2, 3, 1))


def softmax(builder: Builder, node: Node) -> None:
    """Shares of one along an axis."""
    source, place = builder.number(node.inputs[0]), node.outputs[0]
    x, name = builder.slots[source], builder.name(node)
    (axis,) = whole(node, "axis")
    rank = len(x.shape)
    if not -rank <= axis < rank or rank == 0:
        raise NoFormError(f"it has axis {axis}, where there are {rank}")
    along = (0, 2, 3, 1).index(axis % rank) if rank == 4 else axis % rank
    order = [*(other for other in range(rank) if other != along), along]
    last = builder.transpose(name, source, order)
    shares = builder.add(builder.slot_of(place, builder.slots[last].shape))
    builder.steps.append(Softmax(name, (last,), (shares,), softmax_table(x.scale)))
    back = [order.index(other) for other in range(rank)]
    builder.same(node, builder.transpose(name, shares, back), place)
