"""Quantizers behind a move are put before it, so that it moves codes.

Conv → MaxPool → Q(s, z)           →   Conv → Q(s, z) → DQ(s, z) → MaxPool → Q(s, z)
Conv, Conv → Concat → Q(s, z)      →   the same on both branches
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, int_attribute
from calib8.ops.groups import MOVES
from calib8.ops.questions import quantizes, splits
from calib8.program.lower.canonical.codings import Coding, coding_of, reader_codings, source_coding
from calib8.program.lower.canonical.edits import insert_behind, new_node, quantize_nodes, static_shape
from calib8.program.lower.canonical.movers import activation_bounds, data_inputs


def rewrite(model: ir.Model) -> int:
    """Codes the inputs of every move that only quantizers read; what is coded alike already stays.

    A move that quantizers of several codings read, or float readers too, is duplicated: one copy for each
    coding, the float readers keep the original. A Split is cut into Slices first where its parts are coded
    differently. A Relu or Clip counts as a move if it stands behind one; right behind a layer it is left
    there, where it is a matter of the layer's clamp. Exact: quantizing is monotone and elementwise, and
    every value is quantized as before.

    Returns:
        Moves that work on codes now.
    """
    names = Names(model.graph)
    for node in list(model.graph):
        if splits(node) and _reads_differ(node):
            _cut(names, node)
    rewritten = 0
    for node in reversed(list(model.graph)):
        places = _places(node)
        for copy, coding in _per_coding(names, node) if places else []:
            rewritten += _code_inputs(names, copy, places, coding)
    return rewritten


def _places(node: ir.Node) -> list[int]:
    if activation_bounds(node) is not None:
        return [0] if _stands_behind_move(node) else []
    return data_inputs(node)


def _stands_behind_move(node: ir.Node) -> bool:
    source = node.inputs[0]
    producer = None if source is None else source.producer()
    if producer is None or producer.op_type in MOVES:
        return producer is not None
    return activation_bounds(producer) is not None and _stands_behind_move(producer)


def _reads_differ(node: ir.Node) -> bool:
    """Some part is read by a quantizer, but not all parts by quantizers of one coding."""
    readers = {coding for value in node.outputs for coding in reader_codings(value)}
    return len(readers) > 1


def _per_coding(names: Names, node: ir.Node) -> list[tuple[ir.Node, Coding]]:
    """A node for every coding that reads the result, the node itself for the last of them."""
    readers = list(dict.fromkeys(coding for value in node.outputs for coding in reader_codings(value)))
    codings = [coding for coding in readers if coding is not None]
    if splits(node) and len(readers) > 1:
        return []
    keep = codings[-1:] if None not in readers else []
    return [(_copy_for(names, node, coding), coding) for coding in codings if coding not in keep] + [
        (node, coding) for coding in keep
    ]


def _copy_for(names: Names, node: ir.Node, coding: Coding) -> ir.Node:
    """The same node once more, read by the quantizers of one coding."""
    value = node.outputs[0]
    copy = new_node(
        names, node.op_type, list(node.inputs), name=node.name or "", result=f"{value.name}/coded", like=value
    )
    for attribute in node.attributes.values():
        copy.attributes[attribute.name] = attribute
    names.graph.insert_after(node, copy)
    for use in list(value.uses()):
        if quantizes(use.node) and coding_of(use.node) == coding:
            use.node.replace_input_with(0, copy.outputs[0])
    return copy


def _code_inputs(names: Names, node: ir.Node, places: list[int], coding: Coding) -> bool:
    """Q/DQ on those data inputs that are not codes of this coding."""
    changed = False
    for place in places:
        source = node.inputs[place]
        assert source is not None
        if source_coding(source) == coding:
            continue
        stem = f"{source.name}/for_{node.name}"
        first, second = quantize_nodes(names, source, coding, stem)
        insert_behind(names.graph, source, [first, second])
        node.replace_input_with(place, second.outputs[0])
        changed = True
    return changed


def _cut(names: Names, node: ir.Node) -> None:
    """``Split(x) → a, b`` → ``a = Slice(x)``, ``b = Slice(x)``; a Split of unknown sizes stays."""
    sizes = [static_shape(value) for value in node.outputs]
    source = node.inputs[0]
    shapes = [shape for shape in sizes if shape is not None]
    if len(shapes) != len(sizes) or source is None:
        return
    axis, start = int_attribute(node, "axis", 0) % len(shapes[0]), 0
    for value, shape in zip(node.outputs, shapes, strict=True):
        bounds = [start, start + shape[axis], axis]
        inputs = [names.constant(f"{value.name}/slice", np.array([bound], np.int64)) for bound in bounds]
        part = new_node(
            names,
            "Slice",
            [source, *inputs],
            name=f"{node.name}/Slice",
            result=f"{value.name}/part",
            like=value,
        )
        names.graph.insert_after(node, part)
        name = value.name
        value.replace_all_uses_with(part.outputs[0], replace_graph_outputs=True)
        value.name, part.outputs[0].name = part.outputs[0].name, name
        start = bounds[1]
    names.graph.remove(node, safe=True)
