"""Rows of characters: whether an output is what one layer makes of each step of a sequence.

picture ─ Conv … ─ LSTM ─ Reshape [T·N, H] ─ Gemm [T·N, C] ─ Reshape [T, N, C] → output      C, 'recurrent'
picture ─ Conv … ─ Reshape [N, T, H] ─ MatMul [N, T, C] ─ Add → output                       C, not
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from calib8.model.graph import constant, rank
from calib8.model.layer import Layer, layer_of
from calib8.ops.groups import KEEPING, RECURRENT, RESHAPING, SOFTMAX
from calib8.ops.questions import adds
from calib8.quantization.qdq import float_origin
from calib8.tasks.composition import Compositions, axis_behind, size_of

MOVES: Final = KEEPING | RESHAPING | {"Cast", "Transpose"}
"""Ops that keep all rows of a layer, in whatever order."""

BY_STEP: Final = MOVES | {
    "Concat", "Add", "Mul", "Sub", "Div", "Relu", "LeakyRelu", "PRelu", "Clip", "Tanh", "Sigmoid", "Gelu",
    "BatchNormalization", "LayerNormalization", "Gemm", "MatMul", "ReverseSequence",
}  # fmt: skip
"""Ops that keep all steps of a sequence: what lies between it and the layer of the characters."""

FARTHEST: Final = 40
"""Nodes that are followed."""


@dataclass(frozen=True)
class Rows:
    """What a layer makes of every step.

    Attributes:
        length: numbers per step.
        recurrent: the steps are those of an LSTM, GRU or RNN.
    """

    length: int
    recurrent: bool


def rows_of(output: ir.Value, found: Compositions) -> Rows | None:
    """The rows along the last axis of an output, one per step; None where it is nothing of the kind.

    Args:
        output: a float output with three axes, or four.
        found: what is known of its graph.
    """
    node, behind = layer_in_front(output, found)
    length = None if node is None else _outputs(node, found)
    if node is None or length is None:
        return None
    last = _last_axis(node, behind[::-1], length)
    return Rows(length, _reads_sequence(node)) if last else None


def layer_in_front(output: ir.Value, found: Compositions) -> tuple[ir.Node | None, list[ir.Node]]:
    """The first node in front of an output that computes, and those behind it, the last one first.

    These move rows, and add biases to them.
    """
    behind = list[ir.Node]()
    node = float_origin(output).producer()
    while node is not None and len(behind) < FARTHEST and _keeps_rows(node, found):
        behind.append(node)
        source = next((value for value in node.inputs if not found.fixed(value)), None)
        node = None if source is None else float_origin(source).producer()
    return node, behind


def _keeps_rows(node: ir.Node, found: Compositions) -> bool:
    """Whether a node moves rows, adds a bias to them, or is the Softmax behind them."""
    bias = adds(node) and sum(not found.fixed(value) for value in node.inputs) == 1
    return bias or node.op_type in MOVES or node.op_type in SOFTMAX


def _outputs(node: ir.Node, found: Compositions) -> int | None:
    """Numbers that a layer makes of each row; None where it is not a layer of one row."""
    layer = layer_of(node)
    if layer is None or layer.transposed or layer.weight is None or not found.fixed(layer.weight):
        return None
    weights = constant(float_origin(layer.weight))
    return None if weights is None or weights.ndim < 2 else layer.channels(weights.shape)


def _last_axis(layer: ir.Node, behind: list[ir.Node], length: int) -> bool:
    """Whether what a layer makes of a row is the last axis of the output.

    Sizes that are computed are not known; a Reshape that ends in one leaves rows alone, as exporters mean it.
    """
    axes = rank(layer.outputs[0])
    axis = None if axes is None else Layer(layer).channel_axis(axes)
    for node in behind:
        if axis is None:
            return False
        source, result = node.inputs[0], node.outputs[0]
        if source is None or adds(node):
            continue
        before, after = rank(source), rank(result)
        stays = axis == (before or 0) - 1 and size_of(result, (after or 0) - 1) in (length, None)
        axis = (after or 0) - 1 if node.op_type in MOVES - {"Transpose"} and stays else axis_behind(
            node, source, axis
        )  # fmt: skip
    axes = rank(behind[-1].outputs[0]) if behind else axes
    return axes in (3, 4) and axis == axes - 1


def _reads_sequence(layer: ir.Node) -> bool:
    """Whether all steps of a recurrent layer reach a layer, with nothing between them but what keeps them."""
    left, seen = [layer.inputs[0]], set[ir.Value]()
    while left and len(seen) < FARTHEST:
        value = left.pop()
        if value is None or value in seen:
            continue
        seen.add(value)
        node = float_origin(value).producer()
        if node is None:
            continue
        if node.op_type in RECURRENT:
            if float_origin(value) is node.outputs[0]:
                return True
        elif node.op_type in BY_STEP:
            left += node.inputs
    return False
