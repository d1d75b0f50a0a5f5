"""Pools and other sizes of images.

Tengine states padding before an axis; how much lies behind it follows from the size of the output. Averages
of a pool without the flavour of Caffe are over the pixels of the image alone, those of Caffe count padding up
to as much as lies before.
"""

from __future__ import annotations

import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.from_tmfile.builder import Attribute, Builder
from calib8.model.from_tmfile.elementwise import number, whole
from calib8.tmfile.graph import Node

MAX, AVERAGE = 0, 1

NEAREST, LINEAR, ALIGNED = 1, 2, 4
"""Types of Interp."""


def pooling(builder: Builder, node: Node) -> None:
    """Largest or mean value of windows, or of the image."""
    alg, everything, flavour = whole(node, "alg", "global", "caffe_flavor")
    kernel = whole(node, "kernel_h", "kernel_w")
    pads = whole(node, "pad_h0", "pad_w0", "pad_h1", "pad_w1")
    have = builder.image(node.inputs[0])[2:]
    if alg not in (MAX, AVERAGE):
        raise NoFormError(f"its kind {alg} is unknown")
    value = builder.read(node.inputs[0])
    if everything or (tuple(kernel) == have and not any(pads)):
        builder.write(node, "GlobalMaxPool" if alg == MAX else "GlobalAveragePool", [value])
        return
    out, strides = builder.image(node.outputs[0])[2:], whole(node, "stride_h", "stride_w")
    sides = [_sides(*axis) for axis in zip(have, out, kernel, strides, pads[:2], strict=True)]
    before, after = [side[0] for side in sides], [side[1] for side in sides]
    attributes: dict[str, Attribute] = {"kernel_shape": kernel, "strides": strides, "pads": before + after}
    if alg == MAX:
        builder.write(node, "MaxPool", [value], **attributes)
        return
    counted = _counts_padding(flavour, before, after)
    builder.write(node, "AveragePool", [value], count_include_pad=int(counted), **attributes)


def _sides(have: int, out: int, kernel: int, stride: int, before: int) -> tuple[int, int]:
    """Padding of an axis of which ``out`` windows are taken."""
    reach = (out - 1) * stride + kernel
    if before < 0:
        before = max(reach - have, 0) // 2
    after = max(reach - have - before, 0)
    if (have + before + after - kernel) // stride + 1 != out:
        raise NoFormError(f"{out} windows of {kernel} in steps of {stride} do not fit {have} pixels")
    return before, after


def _counts_padding(flavour: int, before: list[int], after: list[int]) -> bool:
    if not flavour or not any(before + after):
        return False
    if all(behind <= first for first, behind in zip(before, after, strict=True)):
        return True
    if not any(before):
        return False
    raise NoFormError("its averages count a part of the padding")


def interp(builder: Builder, node: Node) -> None:
    """Resized images."""
    (kind,) = whole(node, "type")
    modes = {
        NEAREST: ("nearest", "asymmetric"),
        LINEAR: ("linear", "half_pixel"),
        ALIGNED: ("linear", "align_corners"),
    }
    if kind not in modes:
        raise NoFormError(f"its type {kind} is unknown")
    factors = [number(node, "height_scale"), number(node, "width_scale")]
    _resize(builder, node, *modes[kind], factors=factors if all(factors) else None)


def upsample(builder: Builder, node: Node) -> None:
    """Pixels repeated."""
    factor = number(node, "scale")
    if factor != int(factor) or factor < 1:
        raise NoFormError(f"it repeats pixels {factor} times")
    _resize(builder, node, "nearest", "asymmetric", factors=[factor, factor])


def _resize(
    builder: Builder, node: Node, mode: str, coordinates: str, *, factors: list[float] | None
) -> None:
    title = builder.name(node.outputs[0])
    have, out = builder.image(node.inputs[0]), builder.image(node.outputs[0])
    last: list[ir.Value | None]
    if factors is not None and [int(n * f) for n, f in zip(have[2:], factors, strict=True)] == list(out[2:]):
        last = [builder.numbers(f"{title}/scales", [1.0, 1.0, *factors], "float32")]
    else:
        last = [None, builder.numbers(f"{title}/sizes", out)]
    attributes: dict[str, Attribute] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = "floor"
    builder.write(node, "Resize", [builder.read(node.inputs[0]), None, *last], **attributes)


def depth_to_space(builder: Builder, node: Node) -> None:
    """Channels become pixels; those of a block lie side by side."""
    (size,) = whole(node, "block_size")
    builder.write(node, "DepthToSpace", [builder.read(node.inputs[0])], blocksize=size, mode="CRD")


def space_to_depth(builder: Builder, node: Node) -> None:
    """Pixels become channels."""
    (size,) = whole(node, "block_size")
    builder.write(node, "SpaceToDepth", [builder.read(node.inputs[0])], blocksize=size)
