"""Which nodes compute every entry of axis 0 by itself, so that several versions of a tensor may go through.

    [k, …] → node → [m, …]          [n·k, …] → node → [n·m, …], one version behind the other

What is not known to work so is refused: a node that mixes rows would make wrong figures of right ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import constant, input_at, int_attribute, ints_attribute, rank
from calib8.ops.groups import ARITHMETIC, REDUCTIONS, ROW_BY_ROW
from calib8.ops.questions import is_standard

Inputs = Mapping[int, npt.NDArray[Any]]
"""Index of an input → the constant that takes its place."""

AS_THEY_ARE: Final[Inputs] = MappingProxyType({})

_JOINING: Final = ARITHMETIC | {"PRelu"}
_REDUCING: Final = REDUCTIONS | {"Squeeze", "Unsqueeze"}


def with_rows(node: ir.Node, rows: int, changing: Collection[ir.Value]) -> Inputs | None:
    """What a node needs to compute ``rows`` versions at once; None if it may mix them.

    Args:
        node: of a graph whose shapes are those of one version.
        rows: how many versions there will be.
        changing: the values that will have them; all others stay.

    Returns:
        Constants in place of inputs, such as the shape of a Reshape.
    """
    op = node.op_type
    if not is_standard(node) or (op != "Split" and any(value.name for value in node.outputs[1:])):
        return None
    if op in ROW_BY_ROW:
        others = (value for value in node.inputs[1:] if value is not None)
        return None if any(value in changing for value in others) else AS_THEY_ARE
    if op in _JOINING:
        return AS_THEY_ARE if _operands_fit(node, changing) else None
    rule = _reducing if op in _REDUCING else _RULES.get(op)
    first_only = op == "Concat" or op == "MatMul" or all(value not in changing for value in node.inputs[1:])
    return None if rule is None or not first_only else rule(node, rows)


def _operands_fit(node: ir.Node, changing: Collection[ir.Value]) -> bool:
    """Changing operands have equally many axes, constants do not reach axis 0 or have one entry there."""
    operands = [value for value in node.inputs if value is not None]
    axes = {rank(value) for value in operands if value in changing}
    if len(axes) != 1 or None in axes or 0 in axes:
        return False
    [most] = axes
    return all(value in changing or _stays_below(value, most or 0) for value in operands)


def _stays_below(value: ir.Value, axes: int) -> bool:
    """A constant that is the same for all entries of axis 0 of a tensor with so many axes."""
    if value.shape is None:
        return False
    own = value.shape.rank()
    return own < axes or (own == axes and value.shape[0] == 1)


def _gemm(node: ir.Node, rows: int) -> Inputs | None:
    del rows
    bias = input_at(node, 2)
    fits = bias is None or _stays_below(bias, 2)
    return AS_THEY_ARE if fits and not int_attribute(node, "transA", 0) else None


def _mat_mul(node: ir.Node, rows: int) -> Inputs | None:
    """A product with a constant matrix on the right, or of two stacks of matrices."""
    del rows
    left, right = (rank(value) for value in node.inputs)
    if left is None or right is None or left < 2:
        return None
    second = node.inputs[1]
    one_matrix = second is not None and right <= 2 and _is_constant(second)
    return AS_THEY_ARE if one_matrix or (left == right >= 3) else None


def _is_constant(value: ir.Value) -> bool:
    """Nothing that a run feeds is behind it."""
    producer = value.producer()
    if producer is None:
        return constant(value) is not None
    return all(source is None or _is_constant(source) for source in producer.inputs)


def _axis(node: ir.Node, default: int, axes: int | None) -> int | None:
    """The attribute ``axis``, counted from the front."""
    axis = int_attribute(node, "axis", default)
    return axis if axis >= 0 else None if axes is None else axis + axes


def _along(default: int) -> Callable[[ir.Node, int], Inputs | None]:
    """The rule of ops that work along one axis, which must not be the first."""

    def rule(node: ir.Node, rows: int) -> Inputs | None:
        del rows
        return AS_THEY_ARE if _axis(node, default, rank(node.inputs[0])) not in (None, 0) else None

    return rule


def _concat(node: ir.Node, rows: int) -> Inputs | None:
    ranks = {rank(value) for value in node.inputs}
    return _along(0)(node, rows) if len(ranks) == 1 else None


def _transpose(node: ir.Node, rows: int) -> Inputs | None:
    del rows
    return AS_THEY_ARE if ints_attribute(node, "perm", ())[:1] == (0,) else None


def _flatten(node: ir.Node, rows: int) -> Inputs | None:
    del rows
    return AS_THEY_ARE if int_attribute(node, "axis", 1) > 0 else None


def _reshape(node: ir.Node, rows: int) -> Inputs | None:
    """The first size is that of all versions together."""
    shape, value = constant(node.inputs[1]), node.outputs[0]
    first = None if value.shape is None or not value.shape.rank() else value.shape[0]
    if shape is None or not isinstance(first, int) or int_attribute(node, "allowzero", 0):
        return None
    return {1: np.concatenate([[rows * first], shape[1:]]).astype(np.int64)}


def _reducing(node: ir.Node, rows: int) -> Inputs | None:
    del rows
    stated = constant(input_at(node, 1))
    found = ints_attribute(node, "axes", ()) if stated is None else tuple(int(axis) for axis in stated)
    own = rank(node.outputs[0]) if node.op_type == "Unsqueeze" else rank(node.inputs[0])
    if not found or own is None:
        return None
    return AS_THEY_ARE if all(axis % own for axis in found) else None


def _resize(node: ir.Node, rows: int) -> Inputs | None:
    scales, sizes = constant(input_at(node, 2)), constant(input_at(node, 3))
    if "axes" in node.attributes:
        return None
    first = None if node.outputs[0].shape is None else node.outputs[0].shape[0]
    if sizes is not None and sizes.size and sizes[0] == first:
        return {3: np.concatenate([[rows * first], sizes[1:]]).astype(np.int64)}
    return AS_THEY_ARE if scales is not None and scales.size and scales[0] == 1.0 else None


def _pad(node: ir.Node, rows: int) -> Inputs | None:
    del rows
    pads = constant(input_at(node, 1))
    if pads is None or pads.size < 2 or input_at(node, 3) is not None:
        return None
    return AS_THEY_ARE if not pads[0] and not pads[pads.size // 2] else None


def _slice(node: ir.Node, rows: int) -> Inputs | None:
    del rows
    axes, own = constant(input_at(node, 3)), rank(node.inputs[0])
    if axes is None or not own:
        return None
    return AS_THEY_ARE if all(int(axis) % own for axis in axes) else None


_RULES: Final[Mapping[str, Callable[[ir.Node, int], Inputs | None]]] = {
    "Gemm": _gemm,
    "MatMul": _mat_mul,
    "Concat": _concat,
    "Softmax": _along(-1),
    "LogSoftmax": _along(-1),
    "LayerNormalization": _along(-1),
    "RMSNormalization": _along(-1),
    "LpNormalization": _along(-1),
    "Gather": _along(0),
    "Transpose": _transpose,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Resize": _resize,
    "Pad": _pad,
    "Slice": _slice,
    "Split": _along(0),
}
"""Op → what it needs."""
