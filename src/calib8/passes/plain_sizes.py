"""Reshapes to sizes computed of sizes, as exporters write them for free batches, state what is known.

    Reshape(x, [Shape(a)[0], 512, 256])              →  Reshape(x, [−1, 512, 256])
    Reshape(x, [Shape(x)[0], Shape(x)[1], −1])       →  Reshape(x, [0, 0, −1])
    Expand(Reshape(x, sizes), sizes)                 →  Reshape(x, sizes)

One size that is not known follows from the number of values, and 0 is the size that x has at that place.
Shape inference often finds none of them behind such a node, and what is done to rows of unknown length has
no integer form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import add_constant, constant, input_at, int_attribute
from calib8.model.infer_shapes import infer_shapes
from calib8.ops.questions import is_standard, reshapes
from calib8.passes.branches import holds_branches
from calib8.passes.simplify import restore_outputs


@dataclass(frozen=True)
class AxisSize:
    """The size of an axis of a tensor, where that depends on the run."""

    tensor: ir.Value
    axis: int


Sizes = tuple[int | AxisSize | None, ...]


def plain_sizes(model: ir.Model) -> int:
    """Removes Expands to the sizes that a Reshape just gave, then puts constants in place of computed sizes.

    A Reshape stays where more than one of its sizes is neither known nor its input's at that place, and all
    do beside nodes that hold graphs.

    Returns:
        Nodes removed or changed.
    """
    if holds_branches(model):
        return 0
    made = _drop_expands(model)
    for node in list(model.graph):
        if reshapes(node) and is_standard(node):
            made += _state_sizes(model.graph, node)
    if made:
        ir_passes.RemoveUnusedNodesPass()(model)
        infer_shapes(model)
    return made


def _drop_expands(model: ir.Model) -> int:
    """``Expand(Reshape(x, s), s)`` is the Reshape: an Expand takes no sizes but true ones."""
    names = [value.name for value in model.graph.outputs]
    found = [node for node in model.graph if _gives_its_input(node)]
    for node in found:
        reshaped = node.inputs[0]
        assert reshaped is not None
        node.outputs[0].replace_all_uses_with(reshaped, replace_graph_outputs=True)
        model.graph.remove(node, safe=True)
    if found:
        restore_outputs(model.graph, names)
    return len(found)


def _gives_its_input(node: ir.Node) -> bool:
    if node.op_type != "Expand" or not is_standard(node) or constant(node.inputs[1]) is not None:
        return False
    before = None if node.inputs[0] is None else node.inputs[0].producer()
    return before is not None and reshapes(before) and input_at(before, 1) is node.inputs[1]


def _state_sizes(graph: ir.Graph, node: ir.Node) -> bool:
    """Whether the sizes of a Reshape became a constant."""
    given = input_at(node, 1)
    if given is None or constant(given) is not None:
        return False
    sizes = known_numbers(given)
    stated = None if sizes is None else _stated(node, sizes)
    if stated is None:
        return False
    node.replace_input_with(1, add_constant(graph, f"{node.name}.sizes", np.array(stated, np.int64)))
    return True


def _stated(node: ir.Node, sizes: Sizes) -> list[int] | None:
    """The sizes as a Reshape takes them, with one −1 at most; None where that does not say all."""
    own_zeros = bool(int_attribute(node, "allowzero", 0))
    if 0 in sizes and own_zeros:
        return None
    open_ones = [size for size in sizes if not isinstance(size, int) or size == -1]
    if len(open_ones) > 1 and not own_zeros:
        own = (AxisSize(_source(node), place) for place in range(len(sizes)))
        sizes = tuple(0 if size == one else size for size, one in zip(sizes, own, strict=True))
    stated = [size if isinstance(size, int) else -1 for size in sizes]
    return stated if stated.count(-1) <= 1 else None


def _source(node: ir.Node) -> ir.Value:
    assert node.inputs[0] is not None
    return node.inputs[0]


def known_numbers(value: ir.Value | None) -> Sizes | None:
    """The integers that a vector holds in every run; of one that depends on the run the axis, or None.

    Returns:
        None where not even their number is known.
    """
    array = constant(value)
    if array is not None:
        return tuple(int(number) for number in array.reshape(-1)) if array.dtype.kind in "iu" else None
    node = None if value is None else value.producer()
    reader = None if node is None or not is_standard(node) else _NUMBERS.get(node.op_type)
    found = None if node is None or reader is None else reader(node)
    return found if found is not None else _all_unknown(value)


def _all_unknown(value: ir.Value | None) -> Sizes | None:
    """As many unknown numbers as a vector has; one for a single number."""
    shape = None if value is None else value.shape
    if shape is None or len(shape) > 1:
        return None
    count = shape[0] if len(shape) else 1
    return (None,) * count if isinstance(count, int) else None


def _shape(node: ir.Node) -> Sizes | None:
    """Sizes of a tensor, or of some of its axes."""
    source = node.inputs[0]
    if source is None or source.shape is None:
        return None
    dims = source.shape.dims
    first, last = int_attribute(node, "start", 0), int_attribute(node, "end", len(dims))
    sizes = (size if isinstance(size, int) else AxisSize(source, axis) for axis, size in enumerate(dims))
    return tuple(sizes)[slice(first, last)]


def _joined(node: ir.Node) -> Sizes | None:
    parts = [known_numbers(value) for value in node.inputs]
    return None if None in parts else tuple(number for part in parts if part is not None for number in part)


def _passed_on(node: ir.Node) -> Sizes | None:
    return known_numbers(node.inputs[0])


def _sliced(node: ir.Node) -> Sizes | None:
    """A part of a vector, by constant places."""
    numbers = known_numbers(node.inputs[0])
    given = (input_at(node, 1), input_at(node, 2), input_at(node, 4))
    places = [(1,) if value is None else known_numbers(value) for value in given]
    alone = [part[0] for part in places if part is not None and len(part) == 1 and isinstance(part[0], int)]
    if numbers is None or len(alone) != 3 or not alone[2]:
        return None
    return numbers[slice(*alone)]


def _gathered(node: ir.Node) -> Sizes | None:
    numbers, places = known_numbers(node.inputs[0]), known_numbers(node.inputs[1])
    if numbers is None or places is None:
        return None
    count = len(numbers)
    inside = [place for place in places if isinstance(place, int) and -count <= place < count]
    return tuple(numbers[place] for place in inside) if len(inside) == len(places) else None


_NUMBERS: Final[dict[str, Callable[[ir.Node], Sizes | None]]] = {
    "Cast": _passed_on,
    "Concat": _joined,
    "Gather": _gathered,
    "Shape": _shape,
    "Slice": _sliced,
    "Squeeze": _passed_on,
    "Unsqueeze": _passed_on,
}
"""Op that exporters compute sizes with → what is known of its result."""
