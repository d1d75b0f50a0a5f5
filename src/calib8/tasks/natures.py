"""What the graph does to numbers before they become an output: the last function that says what they are.

classes ─ Sigmoid ─ Reshape → part        nature 'sigmoid'
layer ─ Mul stride ─ Add anchors → part   nature 'placed'
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import onnx_ir as ir

from calib8.model.graph import constant, rank
from calib8.ops.groups import ADDENDS, CUTTING, KEEPING, NEUTRAL, RECURRENT, RESHAPING, SOFTMAX, WEIGHTED_OPS
from calib8.ops.questions import adds
from calib8.quantization.qdq import float_origin
from calib8.tasks.composition import Compositions, Part, Size, shape_of, size_of, softmax_axis

Nature: TypeAlias = Literal["sigmoid", "softmax", "placed", "unit", "normalized", "chosen", "plain"]
"""sigmoid     Sigmoid: each by itself between 0 and 1
softmax     Softmax over neighbours
placed      arithmetic with numbers that differ from place to place, such as anchors and strides
unit        divided by its own length
normalized  BatchNormalization of a vector behind a layer
chosen      picked or sorted by values: TopK, NonMaxSuppression
plain       none of them
"""

MOVING: Final = KEEPING | RESHAPING | CUTTING | {"Cast", "Concat", "Transpose"}
CHOOSING: Final = frozenset({
    "TopK", "NonMaxSuppression", "NonZero", "Gather", "GatherND", "GatherElements", "ScatterND",
    "ScatterElements", "Mod", "ArgMax",
})  # fmt: skip
LAYERS: Final = WEIGHTED_OPS | RECURRENT | {"Einsum"}
LENGTHS: Final = frozenset({"ReduceL2", "Sqrt"})
FARTHEST: Final = 40
"""Nodes that are followed."""


class Natures:
    """Looks at one graph."""

    def __init__(self, found: Compositions) -> None:
        """Takes what is known of the graph."""
        self._found = found

    def of(self, part: Part) -> Nature:
        """The nature of a part of an output."""
        for node in reversed(part.behind):
            nature = self._told_by(node)
            if nature is not None:
                return nature
        return self._upstream(part.source)

    def layer(self, part: Part) -> ir.Node | None:
        """The last layer with weights behind a part."""
        return self._first(part.source, LAYERS)

    def sigmoid(self, part: Part) -> ir.Node | None:
        """The last Sigmoid behind a part."""
        node = next((one for one in reversed(part.behind) if one.op_type == "Sigmoid"), None)
        return node or self._first(part.source, frozenset({"Sigmoid"}))

    def softmax_over(self, part: Part) -> Size:
        """Entries of the Softmax that a part ends in, moves passed over; None where it ends in another op."""
        nodes = [*reversed(part.behind)]
        value: ir.Value | None = part.source
        while value is not None and len(nodes) < FARTHEST:
            producer = float_origin(value).producer()
            if producer is None:
                break
            nodes.append(producer)
            value = producer.inputs[0] if producer.op_type in MOVING else None
        node = next((one for one in nodes if one.op_type not in MOVING), None)
        if node is None or node.op_type not in SOFTMAX:
            return None
        return size_of(node.outputs[0], softmax_axis(node))

    def _upstream(self, value: ir.Value) -> Nature:
        node = float_origin(value).producer()
        for _ in range(FARTHEST):
            if node is None:
                return "plain"
            nature = self._told_by(node)
            if nature is not None:
                return nature
            source = self._next(node)
            node = None if source is None else float_origin(source).producer()
        return "plain"

    def _told_by(self, node: ir.Node) -> Nature | None:
        """What a single node says; None: look at what is in front of it."""
        op = node.op_type
        if op == "Sigmoid":
            return "sigmoid"
        if op in SOFTMAX:
            return "softmax"
        if op == "LpNormalization" or (op == "Div" and self._is_length(node.inputs[1])):
            return "unit"
        if op == "BatchNormalization":
            axes = rank(node.inputs[0])
            return "normalized" if axes == 2 or _is_vector(shape_of(node.inputs[0])) else "plain"
        if op in CHOOSING and not all(map(self._found.fixed, node.inputs)):
            fixed_places = op == "Gather" and self._found.fixed(node.inputs[1])
            return None if fixed_places else "chosen"
        if op in NEUTRAL:
            return self._of_arithmetic(node)
        return "plain" if op in LAYERS else None

    def _of_arithmetic(self, node: ir.Node) -> Nature | None:
        """Arithmetic with other numbers for other places, or of two results, tells of coordinates."""
        fixed = [value for value in node.inputs if self._found.fixed(value)]
        if not fixed:
            return "placed" if node.op_type in ADDENDS else None
        if adds(node) and self._is_bias(node):
            return None
        return "placed" if any(_differs(value) for value in fixed) else None

    def _is_bias(self, node: ir.Node) -> bool:
        """Whether an Add is the bias of the layer in front of it."""
        source = self._next(node)
        producer = None if source is None else float_origin(source).producer()
        return producer is not None and producer.op_type in LAYERS

    def _next(self, node: ir.Node) -> ir.Value | None:
        """The input that carries the values."""
        return next((value for value in node.inputs if not self._found.fixed(value)), None)

    def _is_length(self, value: ir.Value | None) -> bool:
        """Whether a value is the length of a vector: what lies behind it, up to an Expand or Clip."""
        for _ in range(6):
            node = None if value is None else float_origin(value).producer()
            if node is None:
                return False
            if node.op_type in LENGTHS:
                return node.op_type == "ReduceL2" or _behind_a_sum(node)
            value = self._next(node)
        return False

    def _first(self, value: ir.Value | None, ops: frozenset[str]) -> ir.Node | None:
        for _ in range(FARTHEST):
            node = None if value is None else float_origin(value).producer()
            if node is None or node.op_type in ops:
                return node
            value = self._next(node)
        return None


def _behind_a_sum(node: ir.Node) -> bool:
    """Whether a Sqrt reads sums of squares."""
    source = node.inputs[0]
    for _ in range(4):
        producer = None if source is None else float_origin(source).producer()
        if producer is None:
            return False
        if producer.op_type in ("ReduceSum", "ReduceSumSquare"):
            return True
        source = producer.inputs[0]
    return False


def _differs(value: ir.Value | None) -> bool:
    """Whether a fixed operand has more than one number; computed ones of unknown size have."""
    array = constant(value)
    if array is not None:
        return array.size > 1 and bool((array != array.reshape(-1)[0]).any())
    sizes = shape_of(value)
    return not all(size == 1 for size in sizes) or value is None or value.shape is None


def _is_vector(sizes: tuple[Size, ...]) -> bool:
    """A single row of numbers: [N, C] or [N, C, 1, 1]."""
    return len(sizes) >= 2 and all(size == 1 for size in sizes[2:])
