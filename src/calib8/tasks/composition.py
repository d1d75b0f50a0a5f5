"""Which parts an output is made of: Concats found through what only moves values or changes each by itself.

boxes (0 … 640) ─────────────┐
classes ─ Sigmoid (0 … 1) ───┴ Concat ─ Transpose → output      parts: boxes 4, classes 80, along axis 2

scale 1: [85 × 400] ─┐
scale 2: [85 × 100] ─┴ Concat along the places → output         parts of each scale, along the channels
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import onnx_ir as ir

from calib8.model.graph import constant, input_at, int_attribute, ints_attribute, rank
from calib8.ops.groups import BINARY_OPS, CUTTING, OF_SHAPES, OPERAND_OPS, RESHAPING, SOFTMAX
from calib8.ops.questions import joins, splits, transposes
from calib8.quantization.qdq import float_origin

SAME_PLACES: Final = frozenset({
    "Identity", "Cast", "Relu", "Clip", "Sigmoid", "HardSigmoid", "Tanh", "Exp", "Log", "Sqrt", "Neg",
    "Abs", "Floor", "Softplus", "Dropout",
})  # fmt: skip
"""Ops that leave every value in its place and look at no other."""

WITH_FIXED: Final = BINARY_OPS | OPERAND_OPS
"""Ops of two operands that do so where the other operand does not depend on the inputs of the model."""

HANDING_ON: Final = SAME_PLACES | SOFTMAX | RESHAPING | CUTTING | {"Transpose"}
"""Ops that hand on the values of their first input, each changed by itself or among its neighbours."""

DEEPEST: Final = 200
"""Nodes behind each other that are followed."""

Size = int | str | None


@dataclass(frozen=True)
class Part:
    """Entries of an axis that come from one tensor.

    Attributes:
        size: how many entries.
        source: the tensor; of several scales that of the first.
        behind: nodes between it and the output, the last one the nearest to the output.
    """

    size: int
    source: ir.Value
    behind: tuple[ir.Node, ...] = ()


@dataclass(frozen=True)
class Composition:
    """Parts side by side.

    Attributes:
        axis: ≥ 1.
        parts: in their order, two at least.
    """

    axis: int
    parts: tuple[Part, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the parts."""
        return tuple(part.size for part in self.parts)


class Compositions:
    """Looks at one graph."""

    def __init__(self, model: ir.Model) -> None:
        """Finds what depends on the inputs.

        Args:
            model: float or QDQ, constants as initializers, shapes inferred as far as they can be.
        """
        self._known: dict[ir.Value, Composition | None] = {}
        self._depending = depending_values(model)

    def fixed(self, value: ir.Value | None) -> bool:
        """Whether a value is the same for all inputs of one size: constants, anchors, strides."""
        return value is None or value not in self._depending

    def of(self, value: ir.Value, depth: int = 0) -> Composition | None:
        """The parts of a tensor, None where it is a single one."""
        value = float_origin(value)
        if value not in self._known:
            self._known[value] = None  # while it is looked at
            self._known[value] = None if depth > DEEPEST else self._found(value, depth + 1)
        return self._known[value]

    def operand(self, node: ir.Node) -> ir.Value | None:
        """The only input of an element-wise node that depends on the inputs; None where there are more."""
        depending = [value for value in node.inputs if value is not None and not self.fixed(value)]
        return depending[0] if len(depending) == 1 else None

    def _found(self, value: ir.Value, depth: int) -> Composition | None:
        node = value.producer()
        if node is None:
            return None
        if joins(node):
            return self._joined(node, depth)
        source = self._source(node)
        found = None if source is None else self.of(source, depth)
        if source is None or found is None:
            return None
        if node.op_type in CUTTING:
            return _cut(node, value, found)
        axis = axis_behind(node, source, found.axis)
        if not axis:
            return None
        if node.op_type in SOFTMAX and softmax_axis(node) == axis:
            return None  # every entry looks at all
        parts = tuple(replace(part, behind=(*part.behind, node)) for part in found.parts)
        return Composition(axis, parts)

    def _source(self, node: ir.Node) -> ir.Value | None:
        """The input whose values a node hands on, each changed by itself or not at all."""
        if node.op_type in HANDING_ON:
            return node.inputs[0]
        return self.operand(node) if node.op_type in WITH_FIXED else None

    def _joined(self, node: ir.Node, depth: int) -> Composition | None:
        """Inputs of a Concat side by side, or, where all have the same parts across it, these."""
        axes = rank(node.outputs[0]) or rank(node.inputs[0])
        values = [float_origin(value) for value in node.inputs if value is not None]
        if len(values) == 1:
            return self.of(values[0], depth)
        if not axes or len({_uncut(value) for value in values if not self.fixed(value)}) == 1:
            return None  # a Pad, or parts of one tensor in another order
        axis = int_attribute(node, "axis", 0) % axes
        found = [self.of(value, depth) for value in values]
        first = found[0]
        if first is not None and first.axis != axis and all(
            one is not None and (one.axis, one.sizes) == (first.axis, first.sizes) for one in found
        ):  # fmt: skip
            return first
        parts: list[Part] = []
        for value, one in zip(values, found, strict=True):
            size = size_of(value, axis)
            if axis == 0 or not isinstance(size, int):
                return None
            parts += one.parts if one is not None and one.axis == axis else [Part(size, value)]
        return Composition(axis, tuple(parts))


def _uncut(value: ir.Value) -> ir.Value | None:
    """What a Split cuts into the value and others; the value itself where none does."""
    node = value.producer()
    return node.inputs[0] if node is not None and splits(node) else value


def _cut(node: ir.Node, value: ir.Value, found: Composition) -> Composition | None:
    """What a Split or Slice leaves of parts; None where it leaves one, or what it takes is computed."""
    bounds = _split_bounds(node, value) if splits(node) else _slice_bounds(node)
    axes = rank(node.inputs[0])
    if bounds is None or not axes:
        return None
    axis, first, last = bounds[0] % axes, bounds[1], bounds[2]
    if axis != found.axis:
        return found
    total = sum(found.sizes)
    first, last = (min(max(end + total if end < 0 else end, 0), total) for end in (first, last))
    left: list[Part] = []
    for part, end in zip(found.parts, accumulate(found.sizes), strict=True):
        size = min(end, last) - max(end - part.size, first)
        if size > 0:
            left.append(replace(part, size=size))
    return Composition(axis, tuple(left)) if len(left) > 1 else None


def _split_bounds(node: ir.Node, value: ir.Value) -> tuple[int, int, int] | None:
    """Axis, first and last of what an output of a Split takes."""
    axis = int_attribute(node, "axis", 0)
    sizes = [size_of(output, axis) for output in node.outputs]
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) < len(sizes):
        return None
    place = list(node.outputs).index(value)
    return axis, sum(numbers[:place]), sum(numbers[: place + 1])


def _slice_bounds(node: ir.Node) -> tuple[int, int, int] | None:
    """Axis, first and last of a Slice of one axis in steps of 1."""
    starts, ends, axes, steps = (constant(input_at(node, index)) for index in (1, 2, 3, 4))
    if starts is None or ends is None or axes is None or starts.size != 1:
        return None
    if steps is not None and int(steps.reshape(-1)[0]) != 1:
        return None
    return tuple(int(one.reshape(-1)[0]) for one in (axes, starts, ends))  # type: ignore[return-value]


def softmax_axis(node: ir.Node) -> int:
    """Axis of a Softmax; < 0 where the number of axes is not known."""
    axis, axes = int_attribute(node, "axis", -1), rank(node.inputs[0]) or rank(node.outputs[0])
    return axis if axes is None else axis % axes


def axis_behind(node: ir.Node, source: ir.Value, axis: int) -> int | None:
    """Where a node leaves an axis of its input; None where it takes it apart."""
    if transposes(node):
        order = ints_attribute(node, "perm", ())
        return order.index(axis) if axis in order else None
    if node.op_type in RESHAPING:
        return _axis_reshaped(shape_of(source), shape_of(node.outputs[0]), axis)
    before, after = rank(source), rank(node.outputs[0])
    return axis if before is None or after is None else axis + after - before


def _axis_reshaped(before: tuple[Size, ...], after: tuple[Size, ...], axis: int) -> int | None:
    """The axis of the same size with as many elements in front of it, or behind it, as before."""
    if len(before) <= axis or not after:
        return None
    sized = [place for place, size in enumerate(after) if size == before[axis] and isinstance(size, int)]
    for place in sized:
        if place and _same_number(after[:place], before[:axis]):
            return place
    for place in sized:
        if place and _same_number(after[place + 1 :], before[axis + 1 :]):
            return place
    if len(sized) == 1 and sized[0] and (sized[0], axis) in ((len(after) - 1, len(before) - 1), (1, 1)):
        return sized[0]  # the other sizes are free
    return None


def _same_number(left: tuple[Size, ...], right: tuple[Size, ...]) -> bool:
    """Whether so many elements are surely the same number; a free batch, in front of both, counts as 1."""
    counted = []
    for sizes in (left, right):
        numbers = [size for size in sizes if isinstance(size, int)]
        names = sorted(size for place, size in enumerate(sizes) if isinstance(size, str) and place)
        if any(size is None and place for place, size in enumerate(sizes)):
            return False
        counted.append((math.prod(numbers), names))
    return counted[0] == counted[1]


def shape_of(value: ir.Value | None) -> tuple[Size, ...]:
    """Sizes, names of free ones, None for unknown ones; empty where nothing is known."""
    shape = () if value is None or value.shape is None else value.shape
    return tuple(size if isinstance(size, int) and size >= 0 else _name(size) for size in shape)


def _name(size: int | ir.SymbolicDim) -> str | None:
    return None if isinstance(size, int) else size.value


def size_of(value: ir.Value | None, axis: int) -> Size:
    """One of them; None beyond the axes."""
    sizes = shape_of(value)
    return sizes[axis] if -len(sizes) <= axis < len(sizes) else None


def depending_values(model: ir.Model) -> frozenset[ir.Value]:
    """The values of a graph that change with what its inputs hold, not with their sizes alone."""
    found = {value for value in model.graph.inputs if value.name not in model.graph.initializers}
    for node in model.graph:
        if node.op_type not in OF_SHAPES and any(value in found for value in node.inputs):
            found.update(node.outputs)
    return frozenset(found)
