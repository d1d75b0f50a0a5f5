"""Functions of one tensor: what runtimes compute as one, and what they compute together with a layer.

    x ─► Sigmoid ─► Mul(x, ·) ─► y             SiLU                         one function, x → y
    x ─► Div ─► Erf ─► Add ─► Mul(x, ·) ─► y   GELU
    x ─► HardSwish ─► Mul a ─► Add b ─► y      functions that follow each other

A function is a set of nodes that compute each value from the values at the same place, whose activations all
come from one tensor, the source, and of which nothing but the last result is read outside. Every node is in
the largest such set, or in none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from calib8.model.graph import activation_inputs, constant, input_at, rank, scalar_constant, sole_consumer
from calib8.model.layer import layer_of
from calib8.ops.groups import (
    ACTIVATIONS,
    AVERAGE_POOLS,
    BINARY_OPS,
    CLAMPS,
    FUNCTION_OPS,
    FUNCTIONS,
    OPERAND_OPS,
    ROUGH,
    UNARY_OPS,
    WEIGHTED_OPS,
)
from calib8.ops.questions import is_standard, is_weighted, rectifies
from calib8.passes.feeding import feeding_weights as feeding_weights
from calib8.passes.norm_chains import normalizations
from calib8.scheme import ANY_FUNCTION, QuantScheme

FUSING_OPS: Final = WEIGHTED_OPS | BINARY_OPS | AVERAGE_POOLS
"""Ops with which runtimes compute the Relu or Clip behind them."""

_ANYWHERE: Final = UNARY_OPS & FUNCTIONS
_BEHIND_THE_LAST_LAYER: Final = _ANYWHERE | ACTIVATIONS
"""What decodes a size, such as Exp, stays float there: one code for all sizes would be a visible error."""

_MOST_NODES_OF_GELU: Final = 5
_BEFORE_LAYERS: Final = _ANYWHERE | BINARY_OPS | FUNCTION_OPS
_OF_SEVERAL: Final = BINARY_OPS | OPERAND_OPS


@dataclass(frozen=True)
class TensorFunction:
    """Nodes that make one tensor of another one.

    Attributes:
        source: the tensor that all of them compute from.
        nodes: in graph order; the last one yields the result.
    """

    source: ir.Value
    nodes: tuple[ir.Node, ...]

    @property
    def result(self) -> ir.Value:
        """What is read outside."""
        return self.nodes[-1].outputs[0]

    @property
    def is_sole_reader(self) -> bool:
        """Whether nothing else reads the source."""
        inside = set(self.nodes)
        return not self.source.is_graph_output() and all(use.node in inside for use in self.source.uses())

    @property
    def layer(self) -> ir.Node | None:
        """The layer that yields the source for this function alone."""
        producer = layer_of(self.source.producer())
        return producer.node if producer is not None and self.is_sole_reader else None


def function_name(function: TensorFunction) -> str:
    """Its op where it is one node, the op of its name where it is one spelled out, else nothing.

    Swish   x · Sigmoid(x)                      Mish   x · Tanh(Softplus(x))
    Gelu    k · x · (1 + Erf(x / √2))
    """
    ops = [node.op_type for node in function.nodes]
    if len(ops) == 1:
        return ops[0]
    last = function.nodes[-1]
    if ops == ["Sigmoid", "Mul"] and function.source in last.inputs:
        return "Swish"
    if ops == ["Softplus", "Tanh", "Mul"] and function.source in last.inputs:
        return "Mish"
    erf = "Erf" in ops and ops.count("Add") == 1 and set(ops) <= {"Div", "Mul", "Erf", "Add"}
    return "Gelu" if erf and len(ops) <= _MOST_NODES_OF_GELU else ""


def fused_layers(functions: Collection[TensorFunction], scheme: QuantScheme) -> dict[ir.Node, TensorFunction]:
    """Weighted layer → the function that the target computes together with its sums.

    Where a function jumps or the like the sums get codes, of which a table is exact.
    """
    if scheme.placement != "every-op":
        return {}
    every, named = ANY_FUNCTION in scheme.fuses, scheme.fuses - CLAMPS
    return {
        one.layer: one
        for one in functions
        if one.layer is not None and (every or function_name(one) in named) and _is_per_channel(one)
        if not any(node.op_type in ROUGH for node in one.nodes)
    }


def _is_per_channel(function: TensorFunction) -> bool:
    """Whether constants are numbers, or vectors along the channels that a layer's sums have."""
    layer, axes = layer_of(function.layer), rank(function.source)
    if layer is None or axes is None:
        return False
    channel = layer.channel_axis(axes)
    return all(
        array is None
        or all(size == 1 or axes - array.ndim + axis == channel for axis, size in enumerate(array.shape))
        for node in function.nodes
        for array in map(constant, node.inputs)
    )


def tensor_functions(
    model: ir.Model, *, with_activations: bool = False, apart: Collection[ir.Node] = ()
) -> tuple[TensorFunction, ...]:
    """The functions of one tensor of a graph, those of one node too, in the order of their results.

    What a layer, an addition or a pool computes together with its sums is not part of them. Nor is arithmetic
    with constants behind the last weighted layer, nor anything but activations there: the usual ones, and
    with ``with_activations`` all that follow a layer.

    Args:
        model: a float graph or a QDQ graph.
        with_activations: a Relu or Clip right behind a weighted layer is a part of them: the target computes
            any function together with the layer.
        apart: nodes that are part of something else.
    """
    feeds = feeding_weights(model)
    places = {node: place for place, node in enumerate(model.graph) if node not in apart}
    taken = set(apart)
    found: list[TensorFunction] = []
    for node in reversed(model.graph):
        if node in taken or not _joins(node, feeds, with_activations):
            continue
        function = _largest(node, feeds, places, with_activations)
        if function is not None and (function.layer is not None or _are_usual(function, feeds)):
            taken.update(function.nodes)
            found.append(function)
    return tuple(reversed(found))


def computed_as_one(model: ir.Model, target: QuantScheme | None) -> tuple[TensorFunction, ...]:
    """The functions that a target computes as one; none where it has codes beside every op, or is None."""
    if target is None or not target.joins_pointwise:
        return ()
    apart = {node for nodes in normalizations(model, target.computes) for node in nodes}
    return tensor_functions(model, with_activations=ANY_FUNCTION in target.fuses, apart=apart)


def _are_usual(function: TensorFunction, feeds_weights: set[ir.Node]) -> bool:
    """Whether each node may be part of a function, whatever is before it."""
    return all(_joins(node, feeds_weights, with_activations=False) for node in function.nodes)


def _joins(node: ir.Node, feeds_weights: set[ir.Node], with_activations: bool) -> bool:
    """Whether a node may be a part of a function."""
    if not is_elementwise(node) or (with_activations and varies_by_place(node)):
        return False
    if node in feeds_weights or node.op_type in (_BEHIND_THE_LAST_LAYER if with_activations else _ANYWHERE):
        return True
    return node.op_type in BINARY_OPS and len(list(activation_inputs(node))) > 1


def varies_by_place(node: ir.Node) -> bool:
    """Whether a node adds or multiplies a constant that varies along several axes, such as positions.

    Where an engine makes a table of a function it would need one for each place: codes of the constant, an
    operand as others are, are smaller.
    """
    arrays = [constant(value) for value in node.inputs] if node.op_type in BINARY_OPS else []
    return any(array is not None and sum(size > 1 for size in array.shape) > 1 for array in arrays)


def _largest(
    last: ir.Node,
    feeds: set[ir.Node],
    places: Mapping[ir.Node, int],
    with_activations: bool,
) -> TensorFunction | None:
    """The largest function with this result.

    Grows against the flow of the graph. Of what the nodes so far read, the latest tensor can be computed from
    none of the others: either its producer comes in, or that tensor is the only one that can be the source.
    """
    nodes = {last}
    read = set(activation_inputs(last))
    best: TensorFunction | None = None
    while read:
        latest = max(read, key=lambda value: _place(value, places))
        if len(read) == 1 and ((with_activations and _is_sum(latest)) or not _fuses_into(latest, nodes)):
            best = TensorFunction(latest, tuple(sorted(nodes, key=places.__getitem__)))
        producer = latest.producer()
        if producer is None or producer not in places or not _joins(producer, feeds, with_activations):
            break
        if latest.is_graph_output() or any(use.node not in nodes for use in latest.uses()):
            break
        nodes.add(producer)
        read.remove(latest)
        read.update(activation_inputs(producer))
    return best


def _place(value: ir.Value, places: Mapping[ir.Node, int]) -> int:
    producer = value.producer()
    return -1 if producer is None else places.get(producer, -1)


def _is_sum(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and is_weighted(producer)


def _fuses_into(value: ir.Value, nodes: set[ir.Node]) -> bool:
    """Whether one of the nodes is an activation that the producer of the value computes itself."""
    producer = value.producer()
    return producer is not None and activation_behind(producer) in nodes


def is_elementwise(node: ir.Node) -> bool:
    """Whether a node computes each of its values from those of activations at the same place."""
    if node.op_type not in _BEFORE_LAYERS or not is_standard(node) or len(node.outputs) != 1:
        return False
    shape, sources = node.outputs[0].shape, list(activation_inputs(node))
    several = len(sources) < 2 or node.op_type in _OF_SEVERAL
    return bool(sources) and several and all(_are_the_same(one.shape, shape) for one in sources)


def _are_the_same(left: ir.Shape | None, right: ir.Shape | None) -> bool:
    """Whether two shapes of a node are one: free sizes are, an output calls its own as the file does."""
    if left is None or right is None or len(left) != len(right):
        return False
    pairs = zip(left, right, strict=True)
    return all(one == other if isinstance(one, int) else not isinstance(other, int) for one, other in pairs)


def is_pointwise(node: ir.Node) -> bool:
    """Whether a node computes each of its values from one value of one tensor, and constants."""
    usual = node.op_type in _ANYWHERE | BINARY_OPS
    return usual and is_elementwise(node) and len(list(activation_inputs(node))) == 1


def is_chain(function: TensorFunction) -> bool:
    """Whether a function is more than one node, or one and the activation that it computes itself."""
    nodes = set(function.nodes)
    return sum(activation_behind(node) not in nodes for node in nodes) > 1


def chains(model: ir.Model, *, with_activations: bool = False) -> tuple[tuple[ir.Node, ...], ...]:
    """The nodes of every function that several nodes compute; see ``tensor_functions``.

    Codes between them would only add their rounding: runtimes compute such functions in float, or look all
    of them up in one table. An addition of a constant with the activation that it computes itself is one
    function, no chain.
    """
    found = tensor_functions(model, with_activations=with_activations)
    return tuple(function.nodes for function in found if is_chain(function))


def activation_behind(node: ir.Node) -> ir.Node | None:
    """The Relu or Clip(0, …) that is the only reader of a layer's, an addition's or a pool's output."""
    if node.op_type not in FUSING_OPS:
        return None
    consumer = sole_consumer(node.outputs[0])
    if consumer is None or consumer.op_type not in CLAMPS:
        return None
    if rectifies(consumer) or clip_limits(consumer)[0] == 0.0:
        return consumer
    return None


def clip_limits(node: ir.Node) -> tuple[float, float]:
    """Lower and upper limit of a Relu or a Clip with constant limits; ±inf where there is none.

    A limit that is not a number is none, as in ONNX Runtime.
    """
    if rectifies(node):
        return 0.0, math.inf
    low, high = input_at(node, 1), input_at(node, 2)
    low_limit = -math.inf if low is None else scalar_constant(low)
    high_limit = math.inf if high is None else scalar_constant(high)
    if low_limit is None or high_limit is None:
        return -math.inf, math.inf
    low_limit = -math.inf if math.isnan(low_limit) else low_limit
    return low_limit, math.inf if math.isnan(high_limit) else high_limit
