"""Convolutions and pools over one axis of space get a second one of size 1.

Conv(x [N,C,L], W [O,C,k]) → Squeeze(Conv(Unsqueeze(x) [N,C,1,L], W [O,C,1,k]), axis 2)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, ints_attribute, rank, sole_consumer
from calib8.ops.groups import CLAMPS, POOL_OPS, REDUCTIONS
from calib8.ops.questions import is_convolution
from calib8.program.lower.canonical.codings import constant_codes
from calib8.program.lower.canonical.edits import (
    dequantized_constant,
    insert_behind,
    new_node,
    set_attributes,
    set_type,
)

POOLS: Final = POOL_OPS - REDUCTIONS
NEW_AXIS: Final = 2

WIDER: Final[dict[str, int]] = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0}
"""Attribute with one entry per axis of space → entry of the new axis."""


def rewrite(model: ir.Model) -> int:
    """Layers with coded weights and pools on values of three axes work on four.

    The Squeeze stands behind a Relu or Clip that alone reads the result, so that a quantizer finds the
    activation right behind the layer.

    Returns:
        Nodes rewritten.
    """
    names = Names(model.graph)
    rewritten = 0
    for node in list(model.graph):
        if node.domain or rank(node.inputs[0] if node.inputs else None) != 3 or not _is_meant(node):
            continue
        if is_convolution(node):
            _widen_weight(names, node)
        _widen_window(node)
        _unsqueeze(names, node)
        _squeeze(names, node)
        rewritten += 1
    return rewritten


def _is_meant(node: ir.Node) -> bool:
    if is_convolution(node):
        weight = constant_codes(node.inputs[1])
        stated = "kernel_shape" in node.attributes and "auto_pad" not in node.attributes
        return stated and weight is not None and weight.values.ndim == 3
    read = len(node.outputs) > 1 and bool(node.outputs[1].uses() or node.outputs[1].is_graph_output())
    return node.op_type in POOLS and not read and "auto_pad" not in node.attributes


def _widen_weight(names: Names, node: ir.Node) -> None:
    weight = constant_codes(node.inputs[1])
    assert weight is not None
    axis = weight.axis if weight.axis is None or weight.axis < NEW_AXIS else weight.axis + 1
    wider = replace(weight, values=np.expand_dims(weight.values, NEW_AXIS), axis=axis)
    new = dequantized_constant(names, wider, f"{node.name}/weight")
    names.graph.insert_before(node, new)
    node.replace_input_with(1, new.outputs[0])


def _widen_window(node: ir.Node) -> None:
    for name, entry in WIDER.items():
        stated = ints_attribute(node, name, ())
        if stated:
            set_attributes(node, {name: (entry, *stated)})
    pads = ints_attribute(node, "pads", ())
    if pads:
        set_attributes(node, {"pads": (0, pads[0], 0, pads[1])})


def _unsqueeze(names: Names, node: ir.Node) -> None:
    source = node.inputs[0]
    assert source is not None
    axes = names.constant(f"{node.name}/axes", np.array([NEW_AXIS], np.int64))
    wider = new_node(
        names, "Unsqueeze", [source, axes], name=f"{node.name}/Unsqueeze", result=f"{source.name}/wide"
    )
    set_type(wider.outputs[0], source.dtype)
    wider.outputs[0].shape = _widened(source)
    names.graph.insert_before(node, wider)
    node.replace_input_with(0, wider.outputs[0])


def _widened(value: ir.Value) -> ir.Shape | None:
    sizes = None if value.shape is None else list(value.shape)
    return None if sizes is None else ir.Shape([*sizes[:NEW_AXIS], 1, *sizes[NEW_AXIS:]])


def _squeeze(names: Names, node: ir.Node) -> None:
    """The value that others read keeps its name; those up to the activation get ``/wide`` added."""
    result = node.outputs[0]
    wide = [result]
    while (reader := sole_consumer(wide[-1])) is not None and _is_activation(reader, wide[-1]):
        wide.append(reader.outputs[0])
    last = wide[-1]
    axes = names.constant(f"{node.name}/axes", np.array([NEW_AXIS], np.int64))
    squeeze = new_node(
        names,
        "Squeeze",
        [None, axes],
        name=f"{node.name}/Squeeze",
        result=f"{last.name}/wide",
        like=last,
    )
    narrow = squeeze.outputs[0]
    last.replace_all_uses_with(narrow, replace_graph_outputs=True)
    squeeze.replace_input_with(0, last)
    last.name, narrow.name = narrow.name, last.name
    for value in wide:
        value.shape = _widened(value)
    insert_behind(names.graph, last, [squeeze])


def _is_activation(node: ir.Node, value: ir.Value) -> bool:
    return node.op_type in CLAMPS and node.inputs[0] is value
