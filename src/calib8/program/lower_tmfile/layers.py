"""Convolutions and fully connected layers: sums of codes, then one rescale in float32.

    real = fl(fl(float32(acc)·s_x)·s_w[c])       Convolution of one group, 3×3 depthwise ones of one sample
    real = fl(float32(acc)·fl(s_x·s_w[c]))       Convolution of several groups
    code = clip(round(fl(f(real) / s_y)), ±127)  f the activation
    code = clip(round(float32(acc)·fl(fl(s_x·s_w[c]) / s_y)), ±127)                 FullyConnected

Which of Tengine's kernels a Convolution gets decides its activation too: its fast ones know none, ReLU and
ReLU6 (every number above 0), the one for groups has a clamp to ±1 as number 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from calib8.errors import NoFormError
from calib8.program.instructions import Conv, DepthwiseConv, FullyConnected, RealRescale, Weighted
from calib8.program.lower_tmfile.builder import Builder
from calib8.program.lower_tmfile.options import whole
from calib8.program.lower_tmfile.windows import same_pads
from calib8.program.ops.weighted import layer_sums
from calib8.program.program import Slot
from calib8.program.rounding.real import I8, MOST, real_steps
from calib8.program.rules import F32, I32
from calib8.tmfile.graph import Node

NO_ZEROS: Final = np.zeros(1, np.int32)
INT32_LIMIT: Final = 2.0**31

RELU, UNIT, RELU6 = 0, 1, 6


class Rescaling(NamedTuple):
    """What a RealRescale has: ``fl(fl(acc·input)·factor[c]) / output``."""

    input: float
    factor: F32
    output: float


def convolution(builder: Builder, node: Node) -> None:
    """Convolution; a filter per channel where there are as many groups as channels."""
    x, weight = builder.image(node.inputs[0]), _weight(builder, node, 4)
    outputs, depth, rows, columns = weight.shape
    kernel = [size or 1 for size in whole(node, "kernel_h", "kernel_w")]
    (groups,) = whole(node, "group")
    if kernel != [rows, columns] or groups < 1 or x.shape[3] != depth * groups or outputs % groups:
        raise NoFormError(
            f"its weights have the shape {list(weight.shape)}, where it has {groups} groups of "
            f"{x.shape[3]} channels and a kernel of {kernel[0]}×{kernel[1]}"
        )
    strides, dilations = _steps(node, "stride_h", "stride_w"), _steps(node, "dilation_h", "dilation_w")
    pads = same_pads(x.shape[1:3], kernel, strides, whole(node, "pad_h0", "pad_w0", "pad_h1", "pad_w1"))
    scales = _scales(builder, node, outputs)
    fast = groups == 1 or _fast_depthwise(x, weight, groups, strides, pads, dilations)
    bias, numbers = _bias(builder, node, outputs), _numbers(builder, node, x, scales)
    name, (read, sums) = builder.name(node), numbers
    steps = (strides, pads, dilations)
    layer: Weighted
    if depth == 1 and groups > 1:
        filters = np.ascontiguousarray(weight[:, 0].transpose(1, 2, 0))
        layer = DepthwiseConv(name, read, sums, filters, NO_ZEROS, bias, None, -MOST, MOST, *steps)
    else:
        filters = np.ascontiguousarray(weight.transpose(0, 2, 3, 1))
        layer = Conv(name, read, sums, filters, NO_ZEROS, bias, None, -MOST, MOST, *steps, groups)
    target = builder.write(node.outputs[0])
    y = builder.slots[target]
    low, high = _clamp(whole(node, "activation")[0], y.scale, fast)
    _rescale(builder, layer, _rescaling(x, y, scales, fast), target, low, high)


def _fast_depthwise(
    x: Slot,
    weight: I8,
    groups: int,
    strides: tuple[int, int],
    pads: tuple[int, int, int, int],
    dilations: tuple[int, int],
) -> bool:
    """Whether Tengine's kernel for depthwise layers takes it."""
    outputs, depth, rows, columns = weight.shape
    one_each = depth == 1 and outputs == groups and x.shape[0] == 1
    plain = pads[:2] == pads[2:] and dilations == (1, 1) and strides in ((1, 1), (2, 2))
    return one_each and plain and (rows, columns) == (3, 3)


def _rescaling(x: Slot, y: Slot, scales: F32, fast: bool) -> Rescaling:
    if fast:
        return Rescaling(x.scale, scales, y.scale)
    with np.errstate(over="ignore", under="ignore"):
        return Rescaling(1.0, np.float32(x.scale) * scales, y.scale)


def _clamp(activation: int, scale: float, fast: bool) -> tuple[int, int]:
    """Codes of the ends of an activation; what lies beyond ±127 is cut off."""
    unit = activation == UNIT and not fast
    six = activation > RELU if fast else activation == RELU6
    most = 1.0 if unit else 6.0 if six else np.inf
    high = int(min(real_steps(np.array([most], np.float32), scale)[0], MOST)) if most < np.inf else MOST
    return (-high if unit else 0 if activation >= RELU else -MOST), high


def fully_connected(builder: Builder, node: Node) -> None:
    """Rows of as many values as the weights [outputs, inputs] take, in the order of the file."""
    source, weight = builder.number(node.inputs[0]), _weight(builder, node, 2)
    outputs, inputs = weight.shape
    if whole(node, "num_output")[0] != outputs:
        raise NoFormError(f"it has {whole(node, 'num_output')[0]} outputs, its weights {outputs}")
    shape = builder.slots[source].shape
    if not shape or np.prod(shape[1:], dtype=np.int64) != inputs:
        raise NoFormError(f"its weights take {inputs} values, its input has {list(shape)}")
    name, scales = builder.name(node), _scales(builder, node, outputs)
    rows = builder.reshape(name, builder.flat(name, source), (shape[0], inputs))
    x, sums = builder.slots[rows], (shape[0], outputs)
    number = builder.add(Slot(f"{name}/sums", sums, "int32", _of_sums(x, scales)))
    layer = FullyConnected(
        name, (rows,), (number,), weight, NO_ZEROS, _bias(builder, node, outputs), None, -MOST, MOST
    )
    place = node.outputs[0]
    with np.errstate(over="ignore", under="ignore"):
        y_scale = builder.slot_of(place, sums).scale
        factor = np.float32(x.scale) * scales / np.float32(y_scale)
    result = builder.add(builder.slot_of(place, sums))
    _rescale(builder, layer, Rescaling(1.0, factor, 1.0), result, -MOST, MOST)
    builder.same(
        node, builder.unflat(name, builder.reshape(name, result, builder.tensor(place).shape)), place
    )


def _numbers(builder: Builder, node: Node, x: Slot, scales: F32) -> tuple[tuple[int], tuple[int]]:
    """Slots of the image and of the sums."""
    shape = builder.slot_of(node.outputs[0], builder.tensor(node.outputs[0]).shape).shape
    if len(shape) != 4:
        raise NoFormError(f"its output has the shape {list(shape)}")
    sums = Slot(
        f"{builder.name(node)}/sums", (shape[0], shape[2], shape[3], shape[1]), "int32", _of_sums(x, scales)
    )
    return (builder.number(node.inputs[0]),), (builder.add(sums),)


def _of_sums(x: Slot, scales: F32) -> F32:
    """What sums stand for; 1 where nothing, as a slot of sums has scales above 0."""
    with np.errstate(over="ignore", under="ignore"):
        product = np.float32(x.scale) * scales
    return np.where((product > 0) & np.isfinite(product), product, np.float32(1)).astype(np.float32)


def _rescale(
    builder: Builder, layer: Weighted, rescaling: Rescaling, target: int, low: int, high: int
) -> None:
    """Adds a layer and what makes codes of its sums.

    Raises:
        NoFormError: factors that are no finite numbers, or results that no int32 holds.
    """
    factor = rescaling.factor
    largest = layer_sums(layer, builder.slots[layer.inputs[0]]).largest.astype(np.float64)
    with np.errstate(over="ignore"):
        reached = largest * rescaling.input * factor.astype(np.float64) / rescaling.output
    if not np.isfinite(factor).all() or reached.max() >= INT32_LIMIT:
        most = f"{reached.max():.3g}"
        raise NoFormError(f"its sums reach {most} codes, beyond int32: the scale of its output is too small")
    builder.steps.append(layer)
    builder.steps.append(
        RealRescale(
            layer.name, layer.outputs, (target,), rescaling.input, np.ascontiguousarray(factor),
            rescaling.output, low, high,
        )
    )  # fmt: skip


def _weight(builder: Builder, node: Node, rank: int) -> I8:
    weight = builder.constant(node.inputs[1], "int8")
    if weight.ndim != rank or min(weight.shape) < 1:
        raise NoFormError(f"its weights have the shape {list(weight.shape)}")
    return weight.astype(np.int8, copy=False)


def _scales(builder: Builder, node: Node, outputs: int) -> F32:
    """One scale per output channel.

    Raises:
        NoFormError: none, another number of them, or a zero point.
    """
    found = builder.tensor(node.inputs[1]).quantization
    if found is None:
        raise NoFormError(f"its weights '{builder.title(node.inputs[1])}' have no scales")
    scales, points = found.of_rows(outputs), found.zero_points
    if scales is None:
        raise NoFormError(f"its weights have {found.scales.size} scales for {outputs} output channels")
    if points.any():
        raise NoFormError(
            f"its weights have the zero point {points[points != 0][0]}, which Tengine leaves out"
        )
    return scales.astype(np.float32)


def _bias(builder: Builder, node: Node, outputs: int) -> I32:
    """int32 [outputs], zeros where there is none; its scale is nobody's business."""
    if len(node.inputs) < 3:
        return np.zeros(outputs, np.int32)
    bias = builder.constant(node.inputs[2], "int32").reshape(-1)
    if bias.size != outputs:
        raise NoFormError(f"its bias has {bias.size} values for {outputs} output channels")
    return np.ascontiguousarray(bias.astype(np.int32))


def _steps(node: Node, *names: str) -> tuple[int, int]:
    steps: Sequence[int] = [step or 1 for step in whole(node, *names)]
    if min(steps) < 1:
        raise NoFormError(f"{names[0]} and {names[1]} are {steps[0]} and {steps[1]}")
    return steps[0], steps[1]
