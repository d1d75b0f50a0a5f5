"""Convolutions and pools over one axis of space get a second one of size 1.

Conv(x [N,C,L], W [O,C,k]) → Squeeze(Conv(Unsqueeze(x) [N,C,1,L], W [O,C,1,k]), axis 2)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, constant, ints_attribute, rank, sole_consumer
from calib8.ops.groups import CLAMPS, POOL_OPS, REDUCTIONS
from calib8.ops.questions import is_convolution, is_standard
from calib8.program.expressions import NARY_FUNCTIONS, UNARY_FUNCTIONS
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

    The Squeeze stands behind the function that alone reads the result (Relu, x · sigmoid(x), PRelu …): the
    layer finds it right behind itself.

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
    """The value that others read keeps its name; those up to it get ``/wide`` added."""
    wide = _function_behind(node.outputs[0])
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
    for value in wide[1:]:
        _widen_constants(names, value)
    insert_behind(names.graph, last, [squeeze])


def _function_behind(result: ir.Value) -> list[ir.Value]:
    """The result of a layer, and all values of the function of it that ends in the last one."""
    found, grows = [result], True
    while grows:
        readers = {use.node for value in found for use in value.uses()}
        new = [node.outputs[0] for node in readers if node.outputs[0] not in found and _goes_on(node, found)]
        found += new
        grows = bool(new)
    ends = [value for value in found if value.is_graph_output() or not _read_inside(value, found)]
    if len(ends) == 1:
        return (
            [result, *(value for value in found[1:] if value is not ends[0]), *ends] if found[1:] else found
        )
    chain = [result]
    while (reader := sole_consumer(chain[-1])) is not None and reader.op_type in CLAMPS:
        if reader.inputs[0] is not chain[-1]:
            break
        chain.append(reader.outputs[0])
    return chain


def _goes_on(node: ir.Node, values: Collection[ir.Value]) -> bool:
    """Whether a node is a function of these values and constants, of their sizes."""
    known = node.op_type in UNARY_FUNCTIONS or node.op_type in NARY_FUNCTIONS or node.op_type in CLAMPS
    if not known or not is_standard(node) or len(node.outputs) != 1 or rank(node.outputs[0]) != 3:
        return False
    given = [value for value in node.inputs if value is not None]
    return all(value in values or constant(value) is not None for value in given)


def _read_inside(value: ir.Value, values: Collection[ir.Value]) -> bool:
    uses = list(value.uses())
    return bool(uses) and all(use.node.outputs and use.node.outputs[0] in values for use in uses)


def _widen_constants(names: Names, value: ir.Value) -> None:
    """What a node reads beside values: [C, 1] → [C, 1, 1]."""
    node = value.producer()
    for index, read in enumerate(() if node is None else node.inputs):
        array = constant(read)
        if node is not None and read is not None and array is not None and array.ndim > 1:
            wider = np.expand_dims(array, array.ndim - 1)
            node.replace_input_with(index, names.constant(f"{read.name}/wide", wider))
