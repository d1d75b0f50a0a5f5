"""Float nodes on images: Conv, ConvTranspose, pools, Pad, Resize; N×C×H×W becomes N×H×W×C around each.

TRANSPOSEs that undo each other go at the end (``turns``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx

from calib8.errors import NoFormError
from calib8.exporting.tflite.float_node import ACTIVATION, TO_NHWC, Node, Write
from calib8.exporting.tflite.windows import border, bordered, padding

LOWEST: Final = float(np.finfo(np.float32).min)
"""Never the largest of a window."""


def conv(node: Node) -> None:
    """CONV_2D, or DEPTHWISE_CONV_2D where every channel has filters of its own."""
    weight = node.constant(1, "the weights of a Conv")
    if weight.ndim != 4:
        raise NoFormError(f"a Conv over {weight.ndim - 2} axes")
    groups, channels = int(node.attributes.get("group", 1)), node.shape(0)[1]
    kernel, strides, dilations = weight.shape[2:], _two(node, "strides"), _two(node, "dilations")
    image, kind = _padded(node, kernel, strides, dilations)
    bias = _bias(node, weight.shape[0])
    options = {
        "padding": kind, "stride_h": strides[0], "stride_w": strides[1],
        "dilation_h_factor": dilations[0], "dilation_w_factor": dilations[1], **ACTIVATION,
    }  # fmt: skip
    if groups == channels and weight.shape[1] == 1:
        own = node.fixed("weight", weight.transpose(1, 2, 3, 0))
        op, options = "DEPTHWISE_CONV_2D", options | {"depth_multiplier": weight.shape[0] // channels}
    else:
        own = node.fixed("weight", weight.transpose(0, 2, 3, 1))
        op = "CONV_2D"
    version = 6 if op == "CONV_2D" and groups > 1 else 2 if op != "CONV_2D" and max(dilations) > 1 else 1
    node.give_image(
        lambda target: node.builder.operator(op, [image, own, bias], [target], version, **options)
    )


def conv_transpose(node: Node) -> None:
    """TRANSPOSE_CONV without padding, the border cut off behind it."""
    weight = node.constant(1, "the weights of a ConvTranspose")
    dilations, strides = _two(node, "dilations"), _two(node, "strides")
    if weight.ndim != 4 or node.attributes.get("group", 1) != 1 or max(dilations) > 1:
        raise NoFormError("a ConvTranspose with groups or dilations, or not over two axes")
    (n, _, *have), out = node.shape(0), node.out()
    top, left, *_ = _pads(node)
    whole = [
        (size - 1) * step + taps for size, step, taps in zip(have, strides, weight.shape[2:], strict=True)
    ]
    room = [
        max(size, before + wanted) for size, before, wanted in zip(whole, (top, left), out[2:], strict=True)
    ]
    if any(most - size >= step for most, size, step in zip(room, whole, strides, strict=True) if most > size):
        raise NoFormError("the output padding of a ConvTranspose is not less than its stride")
    image, shape = node.image(), (n, *room, out[1])
    own = node.fixed("weight", weight.transpose(1, 2, 3, 0))
    uncut = node.between("uncut", shape)
    inputs = [node.builder.ints("output_shape", shape), own, image, _bias(node, out[1])]
    node.builder.operator(
        "TRANSPOSE_CONV", inputs, [uncut], 3,
        padding="VALID", stride_h=strides[0], stride_w=strides[1], **ACTIVATION,
    )  # fmt: skip
    lists = [node.builder.ints("begin", (0, top, left, 0)), node.builder.ints("size", (n, *out[2:], out[1]))]
    node.give_image(lambda target: node.builder.operator("SLICE", [uncut, *lists], [target]))


def max_pool(node: Node) -> None:
    """The largest number of each window."""
    if len(node.outputs) > 1 or max(_two(node, "dilations")) > 1:
        raise NoFormError("a MaxPool with dilations, or with the places of its results")
    _pool(node, "MAX_POOL_2D", LOWEST)


def average_pool(node: Node) -> None:
    """The mean of each window; a border of zeros where it counts.

    Where it does not, and is not that of SAME, the means with it times taps / taps inside, place by place.
    """
    if bool(node.attributes.get("count_include_pad", 0)):
        _pool(node, "AVERAGE_POOL_2D", 0.0, counted=True)
        return
    kernel, strides = _kernel(node), _two(node, "strides")
    (have, out), pads = (node.shape(0)[2:], node.out()[2:]), _pads(node)
    kind = padding(have, out, kernel, strides, (1, 1), pads)
    _pool(node, "AVERAGE_POOL_2D", 0.0, None if kind else _shares(have, out, kernel, strides, pads))


def _shares(
    have: Sequence[int],
    out: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
) -> Any:
    """Taps over taps in the image, [1, rows, columns, 1]."""
    inside = []
    for axis in (0, 1):
        first = np.arange(out[axis]) * strides[axis] - pads[axis]
        inside.append(np.minimum(first + kernel[axis], have[axis]) - np.maximum(first, 0))
    counts = np.maximum(inside[0][:, None] * inside[1], 1)
    return (kernel[0] * kernel[1] / counts)[None, :, :, None]


def _kernel(node: Node) -> tuple[int, int]:
    kernel = tuple(int(taps) for taps in node.attributes["kernel_shape"])
    if len(kernel) != 2:
        raise NoFormError(f"a pool over {len(kernel)} axes")
    return kernel[0], kernel[1]


def _pool(node: Node, op: str, fill: float, shares: Any = None, *, counted: bool = False) -> None:
    """``shares``: factors of the results; ``counted``: the border is among the taps, SAME leaves it out."""
    kernel, strides = _kernel(node), _two(node, "strides")
    image, kind = _padded(node, kernel, strides, (1, 1), fill, counted=counted)
    options = {
        "padding": kind, "stride_h": strides[0], "stride_w": strides[1],
        "filter_height": kernel[0], "filter_width": kernel[1], **ACTIVATION,
    }  # fmt: skip

    def make(target: int) -> None:
        if shares is None:
            node.builder.operator(op, [image], [target], 1, **options)
            return
        whole = node.between("means", node.builder.tensors[target].shape)
        node.builder.operator(op, [image], [whole], 1, **options)
        node.builder.operator("MUL", [whole, node.fixed("shares", shares)], [target], 1, **ACTIVATION)

    node.give_image(make)


def prelu(node: Node) -> None:
    """PRELU with constant slopes; those of an image belong to its channels."""
    slopes, rank = node.constant(1, "the slopes of a PRelu"), len(node.shape(0))
    if rank == 4 and slopes.ndim <= rank:
        full = slopes.reshape((1,) * (rank - slopes.ndim) + slopes.shape)
        image, own = node.image(), node.fixed("slopes", full.transpose(TO_NHWC)[0])
        if full.shape[0] == 1:
            node.give_image(lambda target: node.builder.operator("PRELU", [image, own], [target], 1))
            return
    node.builder.operator("PRELU", [node.given()[0], node.fixed("slopes", slopes)], node.outputs, 1)


def _padded(
    node: Node,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    fill: float = 0.0,
    *,
    counted: bool = False,
) -> tuple[int, str]:
    """The image and SAME or VALID: with a border of ``fill`` where neither means the pads of the node."""
    window = (node.shape(0)[2:], node.out()[2:], kernel, strides, dilations, _pads(node))
    kind, image = padding(*window), node.image()
    if kind is not None and not (counted and kind == "SAME"):
        return image, kind
    widths = border(*window)
    if fill == 0.0:
        return bordered(node.builder, image, widths), "VALID"
    top, left, bottom, right = widths
    return _filled(node, image, [(0, 0), (top, bottom), (left, right), (0, 0)], fill), "VALID"


def _filled(node: Node, source: int, widths: Sequence[tuple[int, int]], fill: float) -> int:
    old = node.builder.tensors[source].shape
    shape = [before + size + after for size, (before, after) in zip(old, widths, strict=True)]
    target = node.between("padded", shape)
    _pad(node, source, target, widths, fill)
    return target


def _pad(node: Node, source: int, target: int, widths: Sequence[tuple[int, int]], fill: float) -> None:
    table = node.builder.constant("paddings", np.array(widths, np.int32))
    if fill == 0.0:
        node.builder.operator("PAD", [source, table], [target], 1)
    else:
        node.builder.operator("PADV2", [source, table, node.fixed("border", [fill])], [target], 1)


def pad(node: Node) -> None:
    """A border of one number."""
    if node.attributes.get("mode", b"constant") != b"constant" or len(node.inputs) > 3:
        raise NoFormError("a Pad that mirrors, repeats or names axes")
    widths, fill = node.constant(1, "the widths of a Pad"), node.constant(2, "the number of a Pad")
    before, after = np.split(np.asarray(widths).reshape(-1), 2)
    if min(*before, *after) < 0 or len(before) > 4:
        raise NoFormError("a Pad that cuts, or of more than four axes")
    value = 0.0 if fill is None else float(np.asarray(fill).reshape(()))
    pairs = [(int(a), int(b)) for a, b in zip(before, after, strict=True)]
    _pad(node, node.given()[0], node.outputs[0], pairs, value)


def global_pool(op: str) -> Write:
    """MEAN or REDUCE_MAX over rows and columns."""

    def write(node: Node) -> None:
        image, axes = node.image(), node.builder.ints("axes", (1, 2))
        node.give_image(lambda target: node.builder.operator(op, [image, axes], [target], 1, keep_dims=True))

    return write


def resize(node: Node) -> None:
    """RESIZE_NEAREST_NEIGHBOR or RESIZE_BILINEAR, where they take the pixels of the node."""
    text = {name: value.decode() for name, value in node.attributes.items() if isinstance(value, bytes)}
    mode = (text.get("mode", "nearest"), text.get("coordinate_transformation_mode", "half_pixel"))
    nearest = text.get("nearest_mode", "round_prefer_floor")
    found = RESIZES.get((*mode, nearest if mode[0] == "nearest" else ""))
    (n, c, *have), out = node.shape(0), node.out()
    if found is None or out[:2] != (n, c) or node.attributes.get("antialias", 0):
        raise NoFormError(f"a Resize with {', '.join((*mode, nearest))}")
    if mode[0] == "nearest" and any(wanted % size for size, wanted in zip(have, out[2:], strict=True)):
        raise NoFormError("a Resize to the nearest pixels by a factor that is no whole number")
    image, size = node.image(), node.builder.ints("size", out[2:])
    op, align, half = found
    node.give_image(
        lambda target: node.builder.operator(
            op, [image, size], [target], 3, align_corners=align, half_pixel_centers=half
        )
    )


RESIZES: Final[Mapping[tuple[str, str, str], tuple[str, bool, bool]]] = {
    ("nearest", "asymmetric", "floor"): ("RESIZE_NEAREST_NEIGHBOR", False, False),
    ("nearest", "half_pixel", "round_prefer_floor"): ("RESIZE_NEAREST_NEIGHBOR", False, False),
    ("linear", "asymmetric", ""): ("RESIZE_BILINEAR", False, False),
    ("linear", "half_pixel", ""): ("RESIZE_BILINEAR", False, True),
    ("linear", "pytorch_half_pixel", ""): ("RESIZE_BILINEAR", False, True),
    ("linear", "align_corners", ""): ("RESIZE_BILINEAR", True, False),
}
"""(mode, coordinates, which pixel) of a Resize → operator, align_corners, half_pixel_centers."""


def _bias(node: Node, channels: int) -> int:
    array = node.constant(2, "the biases of a layer")
    return node.fixed("bias", np.zeros(channels) if array is None else array)


def _two(node: Node, name: str) -> tuple[int, int]:
    """A number for rows and one for columns; 1 where the node says nothing.

    Raises:
        NoFormError: there are more or fewer.
    """
    numbers = tuple(int(number) for number in node.attributes.get(name, (1, 1)))
    if len(numbers) != 2:
        raise NoFormError(f"a window over {len(numbers)} axes")
    return numbers[0], numbers[1]


def _pads(node: Node) -> tuple[int, ...]:
    """Top, left, bottom, right.

    Raises:
        NoFormError: the runtime computes them.
    """
    if node.attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise NoFormError("the pads of a window are computed (auto_pad)")
    pads = tuple(int(number) for number in node.attributes.get("pads", (0, 0, 0, 0)))
    if len(pads) != 4 or min(pads) < 0:
        raise NoFormError(f"a window with pads {list(pads)}")
    return pads


def reads_image(model: bytes, name: str) -> bool:
    """Whether a node on images reads a tensor of an ONNX model first of all."""
    graph = onnx.load_from_string(model).graph
    readers = [node.op_type for node in graph.node if name in node.input]
    return bool(readers) and all(op in WRITE and op not in ("PRelu", "Pad") for op in readers)


WRITE: Final[Mapping[str, Write]] = {
    "AveragePool": average_pool,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "GlobalAveragePool": global_pool("MEAN"),
    "GlobalMaxPool": global_pool("REDUCE_MAX"),
    "MaxPool": max_pool,
    "PRelu": prelu,
    "Pad": pad,
    "Resize": resize,
}
"""ONNX operator → what adds its float32 operators."""
