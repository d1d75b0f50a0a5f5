"""c of all steps of LSTMs as a tensor of the graph: ONNX gives the last one alone.

    x, first h, first c ─► Scan over time ─► c of every step        body: the same LSTM, one step of it

Every direction is scanned by itself; their cells lie side by side along the last axis. The layer stays as
it is. The scan adds the products of one more layer to the run; values count like those of any other tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, constant, input_at, int_attribute
from calib8.passes.integer_cells import cells_of
from calib8.passes.recurrent_nodes import direction_count

SEQUENCE, HIDDEN, CELL = 0, 5, 6
WEIGHTS: Final = (1, 2, 3, 7)
"""Places of weights, recurrent weights, biases and peepholes."""

KEPT: Final = ("clip", "hidden_size", "input_forget")
"""Attributes of the layer that a step of it has."""


def with_cells(model: ir.Model, tensors: Iterable[str]) -> ir.Model:
    """The model with the cells among the tensors; itself where there are none. It is not changed."""
    wanted = set(tensors) & cells_of(model).keys()
    if not wanted:
        return model
    copy = model.clone()
    names = Names(copy.graph)
    for name, node in cells_of(copy).items():
        if name in wanted:
            _add(names, node, name)
    return copy


def _add(names: Names, node: ir.Node, name: str) -> None:
    """A scan per direction behind the node."""
    attribute = node.attributes.get("direction")
    way = "forward" if attribute is None else attribute.as_string()
    count = direction_count(node)
    parts = [_scan(names, node, d, f"{name}/{d}", backwards=way == "reverse" or d == 1) for d in range(count)]
    join = ir.node("Concat", parts, {"axis": -1}, name=names.node(name))
    join.outputs[0].name = name
    join.outputs[0].dtype = ir.DataType.FLOAT
    names.graph.insert_after(_last(names, parts), join)


def _last(names: Names, parts: list[ir.Value]) -> ir.Node:
    """The node among those that yield the parts behind which all of them are known."""
    producers = [part.producer() for part in parts]
    return [node for node in names.graph if node in producers][-1]


def _scan(names: Names, node: ir.Node, d: int, name: str, *, backwards: bool) -> ir.Value:
    """c of all steps of a direction, [T, N, H]."""
    axis = 1 if int_attribute(node, "layout", 0) else 0
    size = int_attribute(node, "hidden_size", 0)
    first = [_first(names, node, place, d, axis, size, name) for place in (HIDDEN, CELL)]
    sequence = node.inputs[SEQUENCE]
    assert sequence is not None
    body = _body(names, node, d, name)
    ways = {f"scan_{side}_directions": [int(backwards)] for side in ("input", "output")}
    attributes: dict[str, int | list[int]] = {"num_scan_inputs": 1, "scan_input_axes": [axis], **ways}
    made = ir.node("Scan", [*first, sequence], attributes, num_outputs=3, name=names.node(f"{name}/Scan"))
    made.attributes["body"] = ir.AttrGraph("body", body)
    for value, what in zip(made.outputs, ("h", "c", "steps"), strict=True):
        value.name, value.dtype = names.value(f"{name}/{what}"), ir.DataType.FLOAT
    names.graph.insert_before(node, made)
    return made.outputs[2]


def _first(names: Names, node: ir.Node, place: int, d: int, axis: int, size: int, name: str) -> ir.Value:
    """The first state of a direction, [1, N, H]: given, or zeros."""
    value, stem = input_at(node, place), f"{name}/first_{place}"

    def added(op_type: str, inputs: list[ir.Value], **attributes: int | list[int]) -> ir.Value:
        made = ir.node(op_type, inputs, attributes, name=names.node(f"{stem}/{op_type}"))
        made.outputs[0].name = names.value(f"{stem}/{op_type}")
        names.graph.insert_before(node, made)
        return made.outputs[0]

    if value is None:
        sequence = node.inputs[SEQUENCE]
        assert sequence is not None
        number = names.constant(f"{stem}/axis", np.array([1 - axis], np.int64))
        samples = added("Gather", [added("Shape", [sequence]), number], axis=0)
        around = [names.constant(f"{stem}/size", np.array([n], np.int64)) for n in (1, size)]
        return added("ConstantOfShape", [added("Concat", [around[0], samples, around[1]], axis=0)])
    direction = names.constant(f"{stem}/direction", np.array([d], np.int64))
    part = added("Gather", [value, direction], axis=axis)
    return added("Transpose", [part], perm=[1, 0, 2]) if axis else part


def _body(names: Names, node: ir.Node, d: int, name: str) -> ir.Graph:
    """One step: h, c and x_t [N, I] to the next h and c, and c once more as [N, H]."""
    floats = ir.TensorType(ir.DataType.FLOAT)
    h, c, x, new_h, new_c = (
        ir.Value(name=names.value(f"{name}/body_{what}"), type=floats)
        for what in ("h", "c", "x", "new_h", "new_c")
    )
    axes = names.constant(f"{name}/axes", np.array([0], np.int64))
    row = ir.node("Unsqueeze", [x, axes], name=f"{name}/row")
    row.outputs[0].name = names.value(f"{name}/body_row")
    weights = {place: _weight(names, node, place, d, name) for place in WEIGHTS}
    inputs = [row.outputs[0], weights[1], weights[2], weights[3], None, h, c, weights[7]]
    attributes = [node.attributes[key] for key in KEPT if key in node.attributes]
    unused = ir.Value(name="")
    step = ir.Node("", "LSTM", inputs, attributes, outputs=[unused, new_h, new_c], name=f"{name}/step")
    flat = ir.node("Squeeze", [new_c, axes], name=f"{name}/flat")
    flat.outputs[0].name, flat.outputs[0].type = names.value(f"{name}/body_step"), floats
    return ir.Graph([h, c, x], [new_h, new_c, flat.outputs[0]], nodes=[row, step, flat], name=f"{name}/body")


def _weight(names: Names, node: ir.Node, place: int, d: int, name: str) -> ir.Value | None:
    """A direction of a constant."""
    array = constant(input_at(node, place))
    return None if array is None else names.constant(f"{name}/weight_{place}", array[d : d + 1].copy())
