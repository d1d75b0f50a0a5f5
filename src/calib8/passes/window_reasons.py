"""Why what looks through windows, or between pixels, stays float: forms that integer programs do not have.

ConvTranspose over three axes   with groups whose frames overlap
AveragePool                     whose window has gaps
Resize                          that interpolates along other axes than rows and columns
"""

from __future__ import annotations

import onnx_ir as ir

from calib8.model.graph import int_attribute, ints_attribute, rank
from calib8.model.layer import Layer
from calib8.ops.groups import AVERAGE_POOLS
from calib8.ops.questions import resizes

VOLUME_AXES = 5


def why_window_float(node: ir.Node) -> str:
    """Of a pool or a Resize: empty if it has an integer form as far as its attributes and its input tell."""
    if node.op_type in AVERAGE_POOLS and any(gap != 1 for gap in ints_attribute(node, "dilations", ())):
        return "its window is dilated"
    mode = node.attributes.get("mode")
    if resizes(node) and mode is not None and mode.as_string() == "linear":
        axes = rank(node.inputs[0])
        if axes is not None and axes >= VOLUME_AXES and _resized(node):
            return "it interpolates along other axes than rows and columns"
    return ""


def _resized(node: ir.Node) -> bool:
    """Whether a Resize changes a shape, or may."""
    before, after = node.inputs[0].shape if node.inputs[0] else None, node.outputs[0].shape
    return before is None or after is None or tuple(before) != tuple(after)


def why_frames_float(layer: Layer, axes: int) -> str:
    """Of a layer whose weight has so many axes: empty but for a transposed one with groups that overlap."""
    node = layer.node
    if not layer.transposed or axes != VOLUME_AXES or int_attribute(node, "group", 1) == 1:
        return ""
    return "" if _side_by_side(node, layer.array.shape[2]) else "it has groups, and its frames overlap"


def _side_by_side(node: ir.Node, kernel: int) -> bool:
    """Whether every frame of the input gives ``kernel`` frames of its own, and no other ones are added."""
    source, result = node.inputs[0], node.outputs[0]
    sizes = [None if value is None or value.shape is None else value.shape[2] for value in (source, result)]
    if ints_attribute(node, "strides", (1, 1, 1))[0] != kernel:
        return False
    if all(isinstance(size, int) for size in sizes):
        return sizes[1] == kernel * sizes[0] and not ints_attribute(node, "pads", (0,) * 6)[0]  # type: ignore[operator]
    pads, more = ints_attribute(node, "pads", (0,) * 6), ints_attribute(node, "output_padding", (0,) * 3)
    return not (pads[0] or pads[3] or more[0]) and (
        kernel == 1 or ints_attribute(node, "dilations", (1,) * 3)[0] == 1
    )
