"""What normalizations are spelled out with: means, centred values, variances, their roots.

    mean      ReduceMean(x)                          ReduceSum(x) · 1/n, or / n
    centred   Sub(x, mean)
    variance  mean of Pow(centred, 2)                mean of x·x − mean·mean                 Max(variance, 0)
    root      Sqrt(variance + ε)
    inverse   Reciprocal(root)                       1 / root             Pow(variance + ε, −½)

Between them a Reshape, Unsqueeze or Squeeze may put axes of size 1 in place of those that were reduced.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import onnx_ir as ir

from calib8.model.graph import input_at, int_attribute, rank, reduced_axes, scalar_constant
from calib8.ops.questions import adds, clips, divides, is_standard, multiplies, subtracts

_MOVES = ("Reshape", "Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class Term:
    """Something computed of rows of a tensor.

    Attributes:
        source: the tensor.
        axes: that are a row.
        nodes: that compute it, all behind the source.
        epsilon: added to a variance.
    """

    source: ir.Value
    axes: tuple[int, ...]
    nodes: frozenset[ir.Node]
    epsilon: float = 0.0

    def behind(self, *nodes: ir.Node) -> Term:
        """The same, with more nodes."""
        return Term(self.source, self.axes, self.nodes | {*nodes}, self.epsilon)


def centred(value: ir.Value | None) -> Term | None:
    """x − mean, of the sizes of x."""
    node = _of(value, "Sub")
    mean = None if node is None else mean_of(input_at(node, 1))
    if node is None or mean is None or mean.source is not node.inputs[0]:
        return None
    return mean.behind(node) if lies_along(node.inputs[1], mean) else None


def mean_of(value: ir.Value | None) -> Term | None:
    """The mean of rows, whatever axes of size 1 it has."""
    value, moves = moved(value)
    node = None if value is None else value.producer()
    if node is None or not is_standard(node):
        return None
    if node.op_type == "ReduceMean":
        found = reduced(node)
        return None if found is None else found.behind(*moves)
    taken = _scaled_sum(node)
    return None if taken is None else taken.behind(node, *moves)


def reduced(node: ir.Node) -> Term | None:
    """A reduction over axes that it names."""
    source, axes = node.inputs[0], rank(node.inputs[0])
    chosen = () if not axes else tuple(sorted(reduced_axes(node, axes)))
    return Term(source, chosen, frozenset({node})) if source is not None and chosen else None


def _scaled_sum(node: ir.Node) -> Term | None:
    """ReduceSum(x) · c or / c that is a mean."""
    if not (multiplies(node) or divides(node)):
        return None
    pairs = [(node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])]
    for value, other in pairs[: 1 if divides(node) else 2]:
        number, inner = scalar_constant(other), _of(value, "ReduceSum")
        total = None if inner is None else reduced(inner)
        if number is None or total is None:
            continue
        factor = number if multiplies(node) else 1 / number if number else 0.0
        count = _count(total)
        return total if count and math.isclose(factor * count, 1.0, rel_tol=1e-6) else None
    return None


def _count(term: Term) -> int:
    """Values of a row, 0 where it is not known."""
    sizes = [term.source.shape[axis] for axis in term.axes] if term.source.shape is not None else []
    known = [size for size in sizes if isinstance(size, int)]
    return math.prod(known) if len(known) == len(sizes) else 0


def variance(value: ir.Value | None) -> Term | None:
    """The mean square distance from the mean."""
    value, moves = moved(value)
    node = None if value is None else value.producer()
    if node is None or not is_standard(node):
        return None
    inner = _limited(node)
    if inner is not None:
        found = variance(inner)
        return None if found is None else found.behind(node, *moves)
    spread = _difference_of_squares(node) if subtracts(node) else _mean_square(value)
    return None if spread is None else spread.behind(*moves)


def _limited(node: ir.Node) -> ir.Value | None:
    """What a node keeps from being negative."""
    if node.op_type == "Relu":
        return node.inputs[0]
    if clips(node) and input_at(node, 2) is None and scalar_constant(input_at(node, 1)) == 0:
        return node.inputs[0]
    if node.op_type != "Max" or len(node.inputs) != 2:
        return None
    return next((one for one, other in orders(node) if scalar_constant(other) == 0), None)


def _mean_square(value: ir.Value | None) -> Term | None:
    mean = mean_of(value)
    base = None if mean is None else _square(mean.source)
    distance = None if base is None else centred(base[0])
    if mean is None or base is None or distance is None or distance.axes != mean.axes:
        return None
    return distance.behind(base[1], *mean.nodes)


def _difference_of_squares(node: ir.Node) -> Term | None:
    """mean(x²) − mean(x)²."""
    raised, lowered = mean_of(node.inputs[0]), _square(moved(node.inputs[1])[0])
    inner = None if raised is None else _square(raised.source)
    mean = None if lowered is None else mean_of(lowered[0])
    if raised is None or lowered is None or inner is None or mean is None:
        return None
    if (
        inner[0] is not mean.source
        or raised.axes != mean.axes
        or rank(node.inputs[0]) != rank(node.inputs[1])
    ):
        return None
    return mean.behind(node, inner[1], lowered[1], *raised.nodes, *moved(node.inputs[1])[1])


def _square(value: ir.Value | None) -> tuple[ir.Value, ir.Node] | None:
    """What is squared, and the node that does it."""
    node = None if value is None else value.producer()
    if node is None or not is_standard(node) or node.inputs[0] is None:
        return None
    raised = node.op_type == "Pow" and scalar_constant(node.inputs[1]) == 2.0
    return (node.inputs[0], node) if raised or _times_itself(node) else None


def _times_itself(node: ir.Node) -> bool:
    return multiplies(node) and node.inputs[0] is node.inputs[1]


def root(value: ir.Value | None) -> Term | None:
    """√(variance + ε)."""
    value, moves = moved(value)
    node = _of(value, "Sqrt")
    found = None if node is None else _with_epsilon(node.inputs[0])
    return None if found is None or node is None else found.behind(node, *moves)


def inverse(value: ir.Value | None) -> Term | None:
    """1 / √(variance + ε)."""
    value, moves = moved(value)
    node = None if value is None else value.producer()
    if node is None or not is_standard(node):
        return None
    found = None
    if node.op_type == "Reciprocal":
        found = root(node.inputs[0])
    elif divides(node) and scalar_constant(node.inputs[0]) == 1.0:
        found = root(node.inputs[1])
    elif node.op_type == "Pow" and scalar_constant(node.inputs[1]) == -0.5:
        found = _with_epsilon(node.inputs[0])
    return None if found is None else found.behind(node, *moves)


def _with_epsilon(value: ir.Value | None) -> Term | None:
    """variance + ε."""
    value, moves = moved(value)
    node = None if value is None else value.producer()
    if node is None or not is_standard(node) or not adds(node):
        return None
    for one, other in orders(node):
        number, found = scalar_constant(other), variance(one)
        if number is not None and found is not None and 0 <= number < math.inf:
            return Term(found.source, found.axes, found.nodes | {node, *moves}, number)
    return None


def orders(node: ir.Node) -> tuple[tuple[ir.Value | None, ir.Value | None], ...]:
    """The operands in both orders."""
    return (node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])


def _of(value: ir.Value | None, op_type: str) -> ir.Node | None:
    """The producer of a value, if it is of this op."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == op_type and is_standard(node) else None


def moved(value: ir.Value | None) -> tuple[ir.Value | None, list[ir.Node]]:
    """What a value was before axes of size 1 came or went, and the nodes that did it."""
    nodes: list[ir.Node] = []
    node = None if value is None else value.producer()
    while node is not None and node.op_type in _MOVES and is_standard(node):
        nodes.append(node)
        value = node.inputs[0]
        node = None if value is None else value.producer()
    return value, nodes


def lies_along(value: ir.Value | None, term: Term) -> bool:
    """Whether a value has one number for each row, in the axes of the source: those of a row have size 1.

    Reductions that keep their axes show it. Behind a Reshape sizes have to; one of them may be free, for the
    number of values settles it.
    """
    changed = any(node.op_type in _MOVES for node in term.nodes)
    reductions = [node for node in term.nodes if node.op_type.startswith("Reduce")]
    if not changed and all(int_attribute(node, "keepdims", 1) for node in reductions):
        return True
    have, source = None if value is None else value.shape, term.source.shape
    if have is None or source is None or len(have) != len(source):
        return False
    wanted = [1 if axis in term.axes else size for axis, size in enumerate(source.dims)]
    free = [pair for pair in zip(have.dims, wanted, strict=True) if not all(isinstance(x, int) for x in pair)]
    known = [pair for pair in zip(have.dims, wanted, strict=True) if all(isinstance(x, int) for x in pair)]
    alone = all(not isinstance(size, int) for pair in free for size in pair)
    return len(free) <= 1 and alone and all(one == other for one, other in known)


def is_closed(nodes: Collection[ir.Node], last: ir.Node) -> bool:
    """Whether nobody but these nodes and the last one reads what they compute."""
    results = [value for node in nodes if node is not last for value in node.outputs]
    read = all(use.node in nodes or use.node is last for value in results for use in value.uses())
    return read and not any(value.is_graph_output() for value in results)
