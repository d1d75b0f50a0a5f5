"""Convolutions and pools say their padding, strides and sizes themselves.

    Conv(auto_pad=SAME_UPPER)               → Conv(kernel_shape, strides, dilations, pads)
    MaxPool(ceil_mode=1)                    → MaxPool(pads up to the end of the last window)
    AveragePool(ceil_mode, count_include_pad) → AveragePool(Pad(x), pads up to the end of the last window)

Rounding up: ⌈(size + pads − reach) / stride⌉ + 1 windows, without one that would begin behind the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, int_attribute, ints_attribute
from calib8.model.padding import auto_pad, halves
from calib8.ops.groups import CONVOLUTIONS
from calib8.ops.questions import is_convolution, is_transposed_convolution
from calib8.program.lower.canonical.edits import new_node, set_attributes, set_type, static_shape
from calib8.program.lower.canonical.shapes import infer_anew

POOLS: Final = frozenset({"MaxPool", "AveragePool"})
SAME: Final = ("SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True)
class Window:
    """One axis of a window.

    Attributes:
        size: of the input.
        kernel, stride, dilation: ≥ 1.
        before, after: padding.
        output: size of the result.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    output: int

    @property
    def reach(self) -> int:
        """Input elements that one window spans."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def missing(self) -> int:
        """Elements by which the last window passes the padded input, 0 if it does not."""
        return max((self.output - 1) * self.stride + self.reach - self.size - self.before - self.after, 0)

    @property
    def surplus(self) -> int:
        """Elements by which an unpadded ConvTranspose passes the stated output."""
        return (self.size - 1) * self.stride + self.reach - self.output

    @property
    def rounded_up(self) -> int:
        """Number of windows of a pool that rounds up, as ONNX Runtime and PyTorch count them."""
        count = -(-(self.size + self.before + self.after - self.reach) // self.stride) + 1
        return count - 1 if (count - 1) * self.stride >= self.size + self.before else count


def rewrite(model: ir.Model) -> int:
    """``auto_pad``, ``output_shape`` and ``ceil_mode`` become pads; all attributes of a window are stated.

    Returns:
        Nodes whose padding was restated; those whose sizes are unknown stay.
    """
    names = Names(model.graph)
    rewritten = 0
    for node in list(model.graph):
        if node.op_type not in CONVOLUTIONS | POOLS or node.domain:
            continue
        windows = _windows(node)
        if windows is None:
            continue
        if node.op_type in POOLS and int_attribute(node, "ceil_mode", 0):
            rewritten += _pad_up(names, node, windows)
            if any(window.rounded_up != window.output for window in windows):
                infer_anew(model)  # shape inference counted windows that runtimes leave out
        else:
            rewritten += _state_automatic(node, windows)
        _state_all(node)
    return rewritten


def _windows(node: ir.Node) -> list[Window] | None:
    """The window along every axis of space, None where a size is unknown."""
    data, result = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    weight = static_shape(node.inputs[1]) if is_convolution(node) else ()
    if data is None or result is None or weight is None:
        return None
    axes = len(data) - 2
    kernel = ints_attribute(node, "kernel_shape", weight[2:])
    strides = ints_attribute(node, "strides", (1,) * axes)
    dilations = ints_attribute(node, "dilations", (1,) * axes)
    pads = (
        (0,) * (2 * axes) if auto_pad(node) != "NOTSET" else ints_attribute(node, "pads", (0,) * (2 * axes))
    )
    return [
        Window(data[2 + k], kernel[k], strides[k], dilations[k], pads[k], pads[axes + k], result[2 + k])
        for k in range(axes)
    ]


def _state_automatic(node: ir.Node, windows: Sequence[Window]) -> bool:
    """Pads under which the result has the size that it has."""
    mode = auto_pad(node)
    if mode == "NOTSET" and "output_shape" not in node.attributes:
        return node.attributes.pop("auto_pad", None) is not None
    totals = [window.missing if mode in SAME else 0 for window in windows]
    if is_transposed_convolution(node) and mode != "VALID":
        lacking = [max(-window.surplus, 0) for window in windows]
        extra = ints_attribute(node, "output_padding", tuple(lacking))
        totals = [max(window.surplus + more, 0) for window, more in zip(windows, extra, strict=True)]
        set_attributes(node, {"output_padding": extra})
    before, after = zip(*(halves(total, mode) for total in totals), strict=True)
    set_attributes(node, {"pads": [*before, *after]})
    for name in ("auto_pad", "output_shape"):
        node.attributes.pop(name, None)
    return True


def _pad_up(names: Names, node: ir.Node, windows: Sequence[Window]) -> bool:
    """The window that rounding up adds finds padding; stated pads that count in a mean become zeros."""
    if auto_pad(node) in SAME:
        node.attributes.pop("ceil_mode")
        return _state_automatic(node, windows)
    grown = [replace(window, output=window.rounded_up) for window in windows]
    before = [window.before for window in grown]
    after = [window.after for window in grown]
    if int_attribute(node, "count_include_pad", 0) and any(before + after):
        _pad_before(names, node, before, after)
        before, after = [0] * len(before), [0] * len(after)
    missing = [window.missing for window in grown]
    if any(
        behind + more >= window.kernel for behind, more, window in zip(after, missing, grown, strict=True)
    ):
        return False  # runtimes allow no padding as large as the kernel
    behind = [a + more for a, more in zip(after, missing, strict=True)]
    set_attributes(node, {"pads": [*before, *behind]})
    for name in ("ceil_mode", "count_include_pad", "auto_pad"):
        node.attributes.pop(name, None)
    return True


def _pad_before(names: Names, node: ir.Node, before: Sequence[int], after: Sequence[int]) -> None:
    source = node.inputs[0]
    assert source is not None
    amounts = names.constant(f"{node.name}/pads", np.array([0, 0, *before, 0, 0, *after], np.int64))
    pad = new_node(names, "Pad", [source, amounts], name=f"{node.name}/Pad", result=f"{source.name}/padded")
    set_type(pad.outputs[0], source.dtype)
    names.graph.insert_before(node, pad)
    node.replace_input_with(0, pad.outputs[0])


def _state_all(node: ir.Node) -> None:
    """Defaults are stated; an AveragePool has no dilations before operator set 19."""
    weight = static_shape(node.inputs[1]) if is_convolution(node) else ()
    kernel = ints_attribute(node, "kernel_shape", (weight or ())[2:])
    axes = len(kernel)
    stated: dict[str, int | Sequence[int]] = {
        "kernel_shape": kernel,
        "strides": ints_attribute(node, "strides", (1,) * axes),
        "pads": ints_attribute(node, "pads", (0,) * (2 * axes)),
    }
    if node.op_type != "AveragePool" or "dilations" in node.attributes:
        stated["dilations"] = ints_attribute(node, "dilations", (1,) * axes)
    if not int_attribute(node, "ceil_mode", 0):
        node.attributes.pop("ceil_mode", None)
    if is_convolution(node):
        stated["group"] = int_attribute(node, "group", 1)
    set_attributes(node, stated)
