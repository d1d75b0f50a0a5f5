"""Convolutions and pools say their padding, strides and sizes themselves.

Conv(auto_pad=SAME_UPPER) → Conv(kernel_shape, strides, dilations, pads)
MaxPool(ceil_mode=1)      → MaxPool(pads large enough for the last window)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from calib8.model.graph import int_attribute, ints_attribute
from calib8.program.lower.canonical.edits import set_attributes, static_shape

LAYERS: Final = ("Conv", "ConvTranspose")
POOLS: Final = ("MaxPool", "AveragePool")


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

    def missing(self) -> int:
        """Elements by which the last window passes the padded input."""
        return (self.output - 1) * self.stride + self.reach - self.size - self.before - self.after

    def surplus(self) -> int:
        """Elements by which an unpadded ConvTranspose passes the stated output."""
        return (self.size - 1) * self.stride + self.reach - self.output


def rewrite(model: ir.Model) -> int:
    """``auto_pad``, ``output_shape`` and ``ceil_mode`` become pads; all attributes of a window are stated.

    Rounding up stays where padding of its own would change the result: in an AveragePool that counts pads.

    Returns:
        Nodes whose padding was restated; those whose sizes are unknown stay.
    """
    rewritten = 0
    for node in model.graph:
        windows = _windows(node) if node.op_type in (*LAYERS, *POOLS) else None
        if windows is None:
            continue
        pads = _stated_pads(node, windows)
        rewritten += _pads(windows) != pads or _is_automatic(node)
        _state(node, windows, pads)
    return rewritten


def _windows(node: ir.Node) -> list[Window] | None:
    """The window along every axis of space, None where a size is unknown."""
    data, result = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    weight = static_shape(node.inputs[1]) if node.op_type in LAYERS else ()
    if data is None or result is None or weight is None:
        return None
    axes = len(data) - 2
    kernel = ints_attribute(node, "kernel_shape", weight[2:])
    strides = ints_attribute(node, "strides", (1,) * axes)
    dilations = ints_attribute(node, "dilations", (1,) * axes)
    pads = ints_attribute(node, "pads", (0,) * (2 * axes))
    if _auto_pad(node) in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        pads = (0,) * (2 * axes)
    return [
        Window(data[2 + k], kernel[k], strides[k], dilations[k], pads[k], pads[axes + k], result[2 + k])
        for k in range(axes)
    ]


def _auto_pad(node: ir.Node) -> str:
    attribute = node.attributes.get("auto_pad")
    return "NOTSET" if attribute is None else attribute.as_string()


def _is_automatic(node: ir.Node) -> bool:
    return _auto_pad(node) != "NOTSET" or "output_shape" in node.attributes


def _pads(windows: Sequence[Window]) -> tuple[int, ...]:
    return (*(window.before for window in windows), *(window.after for window in windows))


def _stated_pads(node: ir.Node, windows: Sequence[Window]) -> tuple[int, ...]:
    """Pads under which the result has the size that it has."""
    mode = _auto_pad(node)
    pairs = [(window.before, window.after) for window in windows]
    if node.op_type == "ConvTranspose":
        if _is_automatic(node):
            extra = ints_attribute(node, "output_padding", (0,) * len(windows))
            totals = [max(window.surplus() + more, 0) for window, more in zip(windows, extra, strict=True)]
            pairs = [_shared(total, first_smaller=mode == "SAME_UPPER") for total in totals]
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        totals = [max(window.missing(), 0) for window in windows]
        pairs = [_shared(total, first_smaller=mode == "SAME_UPPER") for total in totals]
    elif _can_pad_up(node, windows):
        pairs = [(window.before, window.after + max(window.missing(), 0)) for window in windows]
    return (*(before for before, _ in pairs), *(after for _, after in pairs))


def _shared(total: int, *, first_smaller: bool) -> tuple[int, int]:
    return (total // 2, total - total // 2) if first_smaller else (total - total // 2, total // 2)


def _can_pad_up(node: ir.Node, windows: Sequence[Window]) -> bool:
    """Rounding up is the same as more padding behind, which runtimes allow up to the kernel's size."""
    if not int_attribute(node, "ceil_mode", 0):
        return False
    if node.op_type == "AveragePool" and int_attribute(node, "count_include_pad", 0):
        return all(window.missing() <= 0 for window in windows)
    return all(window.after + window.missing() < window.kernel for window in windows)


def _state(node: ir.Node, windows: Sequence[Window], pads: tuple[int, ...]) -> None:
    if _can_pad_up(node, windows):
        node.attributes.pop("ceil_mode", None)
    if _is_automatic(node) and node.op_type == "ConvTranspose":
        lacking = [max(-window.surplus(), 0) for window in windows]
        padding = ints_attribute(node, "output_padding", tuple(lacking))
        set_attributes(node, {"output_padding": padding})
    for name in ("auto_pad", "output_shape"):
        node.attributes.pop(name, None)
    stated: dict[str, int | Sequence[int]] = {
        "kernel_shape": [window.kernel for window in windows],
        "strides": [window.stride for window in windows],
        "pads": pads,
    }
    if node.op_type != "AveragePool" or "dilations" in node.attributes:  # has none before operator set 19
        stated["dilations"] = [window.dilation for window in windows]
    if node.op_type in LAYERS:
        stated["group"] = int_attribute(node, "group", 1)
    set_attributes(node, stated)
