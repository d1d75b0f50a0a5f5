"""Small edits of a graph that the rewrites are made of: a node more, a value instead of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.coded_array import CodedArray
from calib8.model.graph import Names
from calib8.program.lower.canonical.codings import Coding

Attributes = Mapping[str, int | float | str | Sequence[int]]
Array = npt.NDArray[np.generic]


def new_node(
    names: Names,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    *,
    name: str,
    result: str,
    like: ir.Value | None = None,
    attributes: Attributes | None = None,
) -> ir.Node:
    """A node that is in no graph yet.

    Args:
        names: where names are taken.
        op_type: of the standard domain.
        inputs: its inputs, None where one is left out.
        name, result: of the node and its only output, numbered if taken.
        like: a value with the type and shape of the output.
        attributes: ONNX attributes.
    """
    node = ir.node(op_type, inputs, dict(attributes or {}), name=names.node(name))
    output = node.outputs[0]
    output.name = names.value(result)
    if like is not None:
        set_type(output, like.dtype)
        output.shape = like.shape
    return node


def set_type(value: ir.Value, dtype: ir.DataType | None) -> None:
    """A tensor type of its own: values that share one object would change together."""
    value.type = None if dtype is None else ir.TensorType(dtype)


def replace(graph: ir.Graph, old: ir.Value, new: ir.Value) -> None:
    """The output of a new node takes the readers, the name and the place as an output of ``old``.

    ``old``, the result of a node, goes with its node unless that has other outputs.
    """
    name, producer = old.name, old.producer()
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    if producer is not None and len(producer.outputs) == 1:
        graph.remove(producer, safe=True)
    else:
        old.name = f"{name}/replaced"
    new.name = name


def redirect(old: ir.Value, new: ir.Value) -> bool:
    """All readers of ``old`` read ``new``; False and nothing done where ``old`` is an output of the graph."""
    if old.is_graph_output():
        return False
    old.replace_all_uses_with(new)
    return True


def quantize_nodes(names: Names, source: ir.Value, coding: Coding, stem: str) -> tuple[ir.Node, ir.Node]:
    """QuantizeLinear of ``source`` and the DequantizeLinear that reads it, in no graph yet."""
    first = new_node(
        names,
        "QuantizeLinear",
        [source, *coding.parameters],
        name=f"{stem}/QuantizeLinear",
        result=f"{stem}/quantized",
    )
    first.outputs[0].dtype, first.outputs[0].shape = coding.dtype, source.shape
    second = new_node(
        names,
        "DequantizeLinear",
        [first.outputs[0], *coding.parameters],
        name=f"{stem}/DequantizeLinear",
        result=f"{stem}/dequantized",
    )
    second.outputs[0].dtype, second.outputs[0].shape = ir.DataType.FLOAT, source.shape
    return first, second


def insert_behind(graph: ir.Graph, value: ir.Value, nodes: Sequence[ir.Node]) -> None:
    """Puts nodes behind the node that makes ``value``, to the front if none does."""
    producer = value.producer()
    if producer is not None:
        graph.insert_after(producer, nodes)
    else:
        graph.insert_before(next(iter(graph)), nodes)


def dequantized_constant(names: Names, coded: CodedArray, stem: str) -> ir.Node:
    """``DequantizeLinear(codes, scale, zero_point)`` of new initializers, in no graph yet."""
    inputs = [
        names.constant(stem, coded.values),
        names.constant(f"{stem}/scale", np.asarray(coded.scale, np.float32)),
        names.constant(f"{stem}/zero_point", np.asarray(coded.zero_point, coded.values.dtype)),
    ]
    node = new_node(
        names,
        "DequantizeLinear",
        inputs,
        name=f"{stem}/DequantizeLinear",
        result=f"{stem}/dequantized",
        attributes={} if coded.axis is None else {"axis": coded.axis},
    )
    node.outputs[0].dtype, node.outputs[0].shape = ir.DataType.FLOAT, ir.Shape(coded.values.shape)
    return node


def set_input(node: ir.Node, index: int, value: ir.Value) -> None:
    """Input ``index``, which may lie beyond the list."""
    if index >= len(node.inputs):
        node.resize_inputs(index + 1)
    node.replace_input_with(index, value)


def set_attributes(node: ir.Node, attributes: Mapping[str, int | Sequence[int]]) -> None:
    """Adds or replaces attributes that are numbers or lists of them."""
    for name, value in attributes.items():
        if isinstance(value, int):
            node.attributes[name] = ir.AttrInt64(name, value)
        else:
            node.attributes[name] = ir.AttrInt64s(name, list(value))


def static_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """Sizes of a value, None unless all of them are known."""
    if value is None or value.shape is None:
        return None
    sizes = tuple(size for size in value.shape if isinstance(size, int))
    return sizes if len(sizes) == value.shape.rank() else None
