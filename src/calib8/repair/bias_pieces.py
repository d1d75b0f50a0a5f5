"""An int8 graph in pieces, one per layer, for a correction of biases that goes from layer to layer.

    plain layer:   … → layer → y                     y is kept for the pieces that read it
    wide layer:    … → layer → y → y + shift → functions → codes            the codes alone are kept

A wide layer yields much. Its piece runs twice: for y, of which only means are wanted, and once more for the
codes that later pieces read, a quarter of the bytes, when it is known by how much the new bias shifts y. The
shift is an input of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from calib8.model.graph import Names, constant
from calib8.model.runtime import Arrays
from calib8.model.work import elements, with_shapes_of
from calib8.ops.questions import quantizes
from calib8.repair.coded_layers import CodedLayer

WIDE: Final = 1 << 23
"""Bytes of float32 in all runs, of a wide layer's output; more runs twice."""


@dataclass(frozen=True)
class Piece:
    """What must be computed to get a layer's output, of what no piece before has computed.

    Attributes:
        layer: the layer that it ends with.
        inputs: names of inputs of the graph and values of earlier pieces that it reads.
        outputs: names of the layer's output and of all else that later pieces read.
        unused: names of values that nobody reads behind it.
        shift: name of the input that is added to the output of a wide layer; "" for plain ones.
        codes: names of what later pieces read in place of that output.
    """

    layer: CodedLayer
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    unused: frozenset[str]
    shift: str = ""
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Bounds:
    """Values at the borders of a piece: those of before that it reads, those that it makes, and its codes."""

    read: tuple[ir.Value, ...]
    made: tuple[ir.Value, ...]
    shift: ir.Value | None
    codes: tuple[ir.Value, ...]


def pieces(model: ir.Model, layers: Sequence[CodedLayer], runs: Sequence[Arrays]) -> list[Piece]:
    """The graph in pieces, in order; nodes that read only constants belong to all readers.

    Args:
        model: int8; gets the shifts of wide layers.
        layers: of the graph, in order.
        runs: feeds; the sizes of all are taken to be those of the first.
    """
    bounds = _all_bounds(model, layers, runs)
    found: list[Piece] = []
    later: set[ir.Value] = set()
    for layer, around in zip(reversed(layers), reversed(bounds), strict=True):
        output = layer.coded.outputs[0]
        kept = [value for value in around.made if value in later and value is not output]
        codes = [value for value in around.codes if value in later]
        found.append(
            Piece(
                layer, _names(around.read), _names([output, *kept]),
                frozenset(_names({*around.read, output} - later)),
                _name(around.shift) if codes else "", _names(codes),
            )
        )  # fmt: skip
        later.update(around.read)
    return found[::-1]


def _all_bounds(model: ir.Model, layers: Sequence[CodedLayer], runs: Sequence[Arrays]) -> list[_Bounds]:
    shifts = {layer.name: _shifted(model.graph, layer.coded) for layer in _wide(model, layers, runs)}
    computed: set[ir.Value] = set(model.graph.inputs)
    bounds: list[_Bounds] = []
    for layer in layers:
        nodes = _needed(layer.coded, computed)
        values = [value for node in nodes for value in node.inputs if value is not None]
        read = tuple(dict.fromkeys(value for value in values if value in computed))
        made = tuple(value for node in nodes if not _is_constant(node) for value in node.outputs)
        shift, codes = shifts.get(layer.name) or (None, ())
        computed.update(made, codes)
        bounds.append(_Bounds(read, made, shift, codes))
    return bounds


def _wide(model: ir.Model, layers: Sequence[CodedLayer], runs: Sequence[Arrays]) -> list[CodedLayer]:
    """Layers whose outputs take more than ``WIDE`` bytes in all runs; none of unknown sizes."""
    if not runs:
        return []
    sized = {node.name: elements(node.outputs[0]) or 0 for node in with_shapes_of(model, runs[0]).graph}
    return [layer for layer in layers if 4 * len(runs) * sized[layer.coded.name] > WIDE]


def _shifted(graph: ir.Graph, layer: ir.Node) -> tuple[ir.Value, tuple[ir.Value, ...]] | None:
    """Adds a shift of its own to what a layer yields; the shift, and all codes that are made of the sum.

    None, and nothing is added, where something that is no function of the output alone reads it before it is
    codes.
    """
    output = layer.outputs[0]
    codes = _codes_of(graph, output)
    if codes is None:
        return None
    names = Names(graph)
    shift = ir.Value(name=names.value(f"{output.name}/shift"), type=ir.TensorType(ir.DataType.FLOAT))
    readers = list(output.uses())
    add = ir.node("Add", [output, shift], name=names.node(f"{layer.name}/shift"))
    add.outputs[0].name = names.value(f"{output.name}/shifted")
    add.outputs[0].type, add.outputs[0].shape = output.type, output.shape
    for node, place in readers:
        node.replace_input_with(place, add.outputs[0])
    graph.insert_after(layer, add)
    graph.inputs.append(shift)
    return shift, codes


def _codes_of(graph: ir.Graph, output: ir.Value) -> tuple[ir.Value, ...] | None:
    """The codes that functions of a value alone end in; None where something else reads one of them."""
    functions, codes = {output}, []
    for node in graph:
        read = {value for value in node.inputs if value is not None and constant(value) is None}
        if functions.isdisjoint(read):
            continue
        if quantizes(node):
            codes.append(node.outputs[0])
        elif read <= functions:
            functions.update(node.outputs)
        else:
            return None
    return None if any(value.is_graph_output() for value in functions) else tuple(codes)


def _needed(layer: ir.Node, computed: set[ir.Value]) -> list[ir.Node]:
    """The layer and all nodes before it up to values that are computed already."""
    found: dict[ir.Node, None] = {}
    waiting: list[ir.Node | None] = [layer]
    while waiting:
        node = waiting.pop()
        if node is None or node in found:
            continue
        found[node] = None
        waiting += [value.producer() for value in node.inputs if value is not None and value not in computed]
    return list(found)


def _is_constant(node: ir.Node) -> bool:
    return all(value is None or constant(value) is not None for value in node.inputs)


def _name(value: ir.Value | None) -> str:
    return "" if value is None else value.name or ""


def _names(values: Iterable[ir.Value]) -> tuple[str, ...]:
    return tuple(map(_name, values))
