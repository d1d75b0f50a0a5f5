"""How much a node computes: multiply-accumulates and elements, for the shapes in the graph.

Conv             macs = elements of the output · I/g · k_h · k_w
ConvTranspose    macs = elements of the input · O/g · k_h · k_w
Gemm, MatMul     macs = elements of the output · K                     for [M, K] × [K, N]
LSTM, GRU, RNN   macs = steps · samples · elements of W and R          for an input of steps · samples · I

W and R of all directions have D·G·H·(I + H) elements, with G = 4 gates of an LSTM, 3 of a GRU, 1 of an RNN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx_ir as ir

from calib8.model.graph import constant, input_at, int_attribute
from calib8.model.infer_shapes import infer_shapes
from calib8.model.runtime import Arrays
from calib8.ops.groups import CODED_CELLS, RECURRENT, WEIGHT_INPUT
from calib8.ops.questions import is_transposed_convolution


def macs(node: ir.Node) -> int | None:
    """Multiply-accumulates for the shapes in the graph; 0 for other ops, None where a size is unknown."""
    if node.op_type in RECURRENT | CODED_CELLS:
        return _recurrent_macs(node)
    if node.op_type not in WEIGHT_INPUT:
        return 0
    output, weight = elements(node.outputs[0]), input_at(node, WEIGHT_INPUT[node.op_type])
    sizes = _sizes(weight)
    if sizes is None or output is None:
        return None
    if is_transposed_convolution(node):
        source = elements(node.inputs[0])
        return None if source is None else source * math.prod(sizes[1:])
    if node.op_type in ("Conv", "ConvInteger", "QLinearConv"):
        return output * math.prod(sizes[1:])
    if node.op_type in ("Gemm", "QGemm") and int_attribute(node, "transB", 0):
        return output * sizes[1]
    return output * sizes[max(len(sizes) - 2, 0)]


def _recurrent_macs(node: ir.Node) -> int | None:
    source, *weights = (_sizes(input_at(node, place)) for place in range(3))
    if source is None or not source or None in weights:
        return None
    return math.prod(source[:-1]) * sum(math.prod(sizes) for sizes in weights if sizes is not None)


def elements(value: ir.Value | None) -> int | None:
    """Number of elements, None for no value or where a size is unknown."""
    sizes = _sizes(value)
    return None if sizes is None else math.prod(sizes)


def _sizes(value: ir.Value | None) -> tuple[int, ...] | None:
    if value is None or value.shape is None:
        return None
    sizes = tuple(size for size in value.shape if isinstance(size, int) and size >= 0)
    return sizes if len(sizes) == value.shape.rank() else None


def node_macs(model: ir.Model, sample: Arrays) -> dict[str, int]:
    """Name of every node of a float graph → its multiply-accumulates for inputs shaped like ``sample``.

    Where a size stays unknown, the number of the weights stands for them.
    """
    return {
        node.name or "": macs_or_weights(node) for node in with_shapes_of(model, sample).graph if node.name
    }


def used_once(model: ir.Model, work: Mapping[str, int]) -> frozenset[str]:
    """Names of the layers that use each of their weights once, such as a matrix times one vector.

    They take as long as their weights take to be read.

    Args:
        model: a float graph.
        work: name of a node → its multiply-accumulates.
    """
    layers = {node.name or "": node for node in model.graph if node.op_type in WEIGHT_INPUT}
    weights = {name: constant(input_at(node, WEIGHT_INPUT[node.op_type])) for name, node in layers.items()}
    return frozenset(
        name for name, array in weights.items() if array is not None and work.get(name) == array.size
    )


def macs_or_weights(node: ir.Node) -> int:
    """Multiply-accumulates; the number of the weights where a size is unknown."""
    found = macs(node)
    if found is not None:
        return found
    return sum(array.size for value in node.inputs if (array := constant(value)) is not None)


def with_shapes_of(model: ir.Model, sample: Arrays) -> ir.Model:
    """A copy with the shapes that all tensors have for inputs shaped like ``sample``."""
    copy = model.clone()
    for value in copy.graph.inputs:
        array = sample.get(value.name or "")
        if array is not None:
            value.shape = ir.Shape(array.shape)
    for node in copy.graph:
        for value in node.outputs:
            value.shape = None
    infer_shapes(copy)
    return copy
