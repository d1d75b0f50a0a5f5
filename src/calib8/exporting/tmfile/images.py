"""Pools and other sizes of images, from ONNX to Tengine.

outputs of an axis      flavor 0    1 + (size + 2 p − k) // s
                        flavor 1    2 + (size + 2 p − k − 1) // s, one less if the last holds padding alone

p lies before the axis; how much lies behind it follows. Averages of flavor 0 are over the pixels of the image
alone, those of flavor 1 count padding up to p behind the image.
Source: OAID Tengine, ``pooling_param.h``, ``pooling_kernel_ref_fp32.c``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.exporting.tmfile.layers import NO_ACTIVATION
from calib8.exporting.tmfile.net import Net
from calib8.model.graph import input_at, int_attribute, ints_attribute
from calib8.model.padding import conv_pads
from calib8.tmfile.graph import Option

MAX, AVERAGE = 0, 1

NEAREST, LINEAR, ALIGNED = 1, 2, 4
"""Types of Interp."""

FLAVORS: Final = (0, 1)


def whole(alg: int) -> Callable[[Net, ir.Node], None]:
    """The largest or the mean value of an image."""

    def add(net: Net, node: ir.Node) -> None:
        size = net.image(node.inputs[0])[2:]
        options = pool_options(alg, size, (1, 1), [(0, 0), (0, 0)], 0)
        net.write(node, "Pooling", [net.read(node.inputs[0])], **{**options, "global": 1})

    return add


def windows(alg: int) -> Callable[[Net, ir.Node], None]:
    """The largest or the mean value of windows."""

    def add(net: Net, node: ir.Node) -> None:
        sizes, out = net.image(node.inputs[0])[2:], net.image(node.outputs[0])[2:]
        kernel = ints_attribute(node, "kernel_shape", ())
        strides = ints_attribute(node, "strides", (1, 1))
        if set(ints_attribute(node, "dilations", (1, 1))) != {1}:
            raise NoFormError("it takes pixels that lie apart")
        if len(node.outputs) > 1 and node.outputs[1].uses():
            raise NoFormError("it gives the places of what it found")
        stated = conv_pads(node, sizes, strides, kernel)
        flavor = _flavor(node, alg, (sizes, out, kernel, strides), stated)
        pads = [
            (before, max((many - 1) * step + span - size, 0) - before)
            for (before, _), size, many, span, step in zip(stated, sizes, out, kernel, strides, strict=True)
        ]
        options = pool_options(alg, kernel, strides, pads, flavor)
        net.write(node, "Pooling", [net.read(node.inputs[0])], **options)

    return add


def pool_options(
    alg: int, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[tuple[int, int]], flavor: int
) -> dict[str, Option]:
    """Options of a Pooling: rows before columns, padding before and behind each."""
    return {
        "alg": alg, "kernel_h": kernel[0], "kernel_w": kernel[1], "stride_h": strides[0],
        "stride_w": strides[1], "global": 0, "caffe_flavor": flavor, "pad_h0": pads[0][0],
        "pad_w0": pads[1][0], "pad_h1": pads[0][1], "pad_w1": pads[1][1],
    }  # fmt: skip


def _flavor(node: ir.Node, alg: int, axes: tuple[Sequence[int], ...], pads: Sequence[tuple[int, int]]) -> int:
    """The flavor with which Tengine takes as many windows, and averages the same numbers."""
    counted = int_attribute(node, "count_include_pad", 0)
    padded = any(before or after for before, after in pads)
    for flavor in FLAVORS:
        many = [
            _outputs(size, span, step, before, flavor)
            for (before, _), size, span, step in zip(pads, axes[0], axes[2], axes[3], strict=True)
        ]
        if many == list(axes[1]) and (alg == MAX or not padded or flavor == counted):
            return flavor
    what = "counts padding or takes" if alg == AVERAGE else "takes"
    raise NoFormError(f"it {what} windows of {list(axes[2])} that Tengine does not")


def _outputs(size: int, kernel: int, stride: int, before: int, flavor: int) -> int:
    """Windows along an axis."""
    if not flavor:
        return 1 + (size - kernel + 2 * before) // stride
    many = 2 + (size - kernel + 2 * before - 1) // stride
    return many - (before > 0 and (many - 1) * stride >= size + before)


def resize(net: Net, node: ir.Node) -> None:
    """Resized images."""
    have, out = net.image(node.inputs[0]), net.image(node.outputs[0])
    if have[:2] != out[:2]:
        raise NoFormError("it resizes batch or channels")
    kind = _kind(node, out)
    stated = input_at(node, 2)
    scales = [np.float32(0.0)] * 2 if stated is None else list(net.floats(stated)[2:])
    exact = [int(np.float32(size) * scale) for size, scale in zip(have[2:], scales, strict=True)]
    height, width = map(float, scales) if exact == list(out[2:]) else (0.0, 0.0)
    options: dict[str, Option] = {
        "type": kind, "width_scale": width, "height_scale": height, "output_w": out[3], "output_h": out[2],
    }  # fmt: skip
    net.write(node, "Interp", [net.read(node.inputs[0])], **options)


def _kind(node: ir.Node, out: tuple[int, ...]) -> int:
    """Type of an Interp.

    Raises:
        NoFormError: Tengine has none that takes the same pixels.
    """
    mode, coordinates, nearest = (
        node.attributes[name].as_string() if name in node.attributes else usual
        for name, usual in (
            ("mode", "nearest"),
            ("coordinate_transformation_mode", "half_pixel"),
            ("nearest_mode", "round_prefer_floor"),
        )
    )
    if (mode, coordinates, nearest) == ("nearest", "asymmetric", "floor"):
        return NEAREST
    if mode == "linear" and coordinates == "align_corners":
        return ALIGNED
    halves = coordinates == "half_pixel" or (coordinates == "pytorch_half_pixel" and min(out[2:]) > 1)
    if mode == "linear" and halves and not int_attribute(node, "antialias", 0):
        return LINEAR
    raise NoFormError(f"its mode is {mode} with {coordinates} coordinates")


def depth_to_space(net: Net, node: ir.Node) -> None:
    """Channels become pixels: Tengine's kernels take those of a block from channels side by side (CRD)."""
    mode = node.attributes["mode"].as_string() if "mode" in node.attributes else "DCR"
    if mode != "CRD" and net.image(node.outputs[0])[1] != 1:
        raise NoFormError(f"its mode is {mode}, and Tengine computes CRD")
    size = int_attribute(node, "blocksize", 1)
    net.write(node, node.op_type, [net.read(node.inputs[0])], block_size=size)


def space_to_depth(net: Net, node: ir.Node) -> None:
    """Pixels become channels, as a Convolution that picks them: Tengine's kernels copy them unmoved.

    y[(i·b + j)·C + c] = x[c] at row i and column j of each block of b×b
    """
    size = int_attribute(node, "blocksize", 1)
    _, channels, _, _ = net.image(node.inputs[0])
    each = np.eye(size * size * channels, dtype=np.float32)
    picks = np.ascontiguousarray(each.reshape(-1, size, size, channels).transpose(0, 3, 1, 2))
    weight = net.new_const(f"{node.outputs[0].name}/picks", picks)
    options: dict[str, Option] = {
        "kernel_h": size, "kernel_w": size, "stride_h": size, "stride_w": size, "dilation_h": 1,
        "dilation_w": 1, "input_channel": channels, "output_channel": len(picks), "group": 1,
        "activation": NO_ACTIVATION, "pad_h0": 0, "pad_w0": 0, "pad_h1": 0, "pad_w1": 0,
    }  # fmt: skip
    net.write(node, "Convolution", [net.read(node.inputs[0]), weight], **options)
