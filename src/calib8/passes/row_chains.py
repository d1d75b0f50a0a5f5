"""RMSNormalization and normalization to the length 1 spelled out: one computation from codes to codes.

    x ─► Pow 2 ─► ReduceMean ─► Add ε ─► Sqrt ─► Div(x, ·), or Reciprocal ─► Mul(x, ·) ─► Mul γ
    x ─► ReduceL2 ─► Clip or Max ─► Expand ─► Div(x, ·)                          (Clip … Expand: or not)

A target that normalizes rows in integers computes such a chain as one; there are no codes inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import (
    constant,
    input_at,
    int_attribute,
    rank,
    reduced_axes,
    scalar_constant,
    sole_consumer,
)
from calib8.ops.limits import LONGEST_ROW_AROUND_0
from calib8.ops.questions import adds, clips, divides, is_standard, multiplies

SMALLEST_LENGTH: Final = 1e-6
"""Up to here a limit under a length is taken for what only rows of zeros meet."""


@dataclass(frozen=True)
class RowChain:
    """Rows with a mean square of 1, or with the length 1.

    Attributes:
        nodes: in graph order; the last one yields the result.
        source: what all of them compute from.
        axes: that are a row: the last ones, or any one.
        scale: float32, of the sizes of these axes.
        epsilon: added to the mean square.
        least: lengths below this one count as it; 0 for a mean square.
    """

    nodes: tuple[ir.Node, ...]
    source: ir.Value
    axes: tuple[int, ...]
    scale: npt.NDArray[np.float32]
    epsilon: float = 0.0
    least: float = 0.0


def row_chains(model: ir.Model, computes: Collection[str]) -> tuple[RowChain, ...]:
    """Those of a float graph, in graph order, that a target which computes these ops from codes has."""
    if "RMSNormalization" not in computes:
        return ()
    return tuple(chain for node in model.graph if (chain := row_chain(node)) is not None)


def row_chain(node: ir.Node) -> RowChain | None:
    """The chain that begins with a square or a length, in a float graph or a QDQ graph; else None."""
    if not is_standard(node) or not node.inputs or node.inputs[0] is None:
        return None
    return _of_length_1(node) if node.op_type == "ReduceL2" else _of_square_1(node)


def _of_square_1(square: ir.Node) -> RowChain | None:
    source = square.inputs[0]
    is_square = (square.op_type == "Pow" and scalar_constant(input_at(square, 1)) == 2.0) or (
        multiplies(square) and square.inputs[1] is source
    )
    mean = _next(square, lambda node: node.op_type == "ReduceMean") if is_square else None
    raised = None if mean is None else _next(mean, adds)
    root = None if raised is None else _next(raised, lambda node: node.op_type == "Sqrt")
    if source is None or mean is None or raised is None or root is None:
        return None
    axes, epsilon = _rows(mean, source), _number(raised)
    if axes is None or epsilon is None or not 0 <= epsilon < math.inf:
        return None
    ends = _divided(root, source)
    sizes = _sizes(source, axes)
    if ends is None or sizes is None:
        return None
    chain = RowChain((square, mean, raised, root, *ends), source, axes, np.ones(sizes, np.float32), epsilon)
    return _scaled(chain, sizes)


def _of_length_1(length: ir.Node) -> RowChain | None:
    source = length.inputs[0]
    axes = None if source is None else _rows(length, source)
    sizes = None if source is None or axes is None else _sizes(source, axes)
    if source is None or axes is None or sizes is None:
        return None
    nodes, least = [length], 0.0
    limited = _next(length, lambda node: clips(node) or node.op_type == "Max")
    if limited is not None:
        bound = scalar_constant(input_at(limited, 1)) if clips(limited) else _number(limited)
        if bound is None or not 0 <= bound <= SMALLEST_LENGTH or (clips(limited) and input_at(limited, 2)):
            return None
        nodes, least = [*nodes, limited], bound
    repeated = _next(nodes[-1], lambda node: node.op_type == "Expand")
    nodes = nodes if repeated is None else [*nodes, repeated]
    ends = _divided(nodes[-1], source)
    if ends is None or len(ends) > 1 or not _keeps_shape(source, ends[0]):
        return None
    scale = np.full(sizes, 1 / math.sqrt(math.prod(sizes)), np.float32)
    return RowChain((*nodes, *ends), source, axes, scale, least=least)


def _next(node: ir.Node, asked: Callable[[ir.Node], bool]) -> ir.Node | None:
    """The only reader of a node's result, if it is what is asked for."""
    reader = sole_consumer(node.outputs[0])
    return reader if reader is not None and is_standard(reader) and asked(reader) else None


def _number(node: ir.Node) -> float | None:
    """The constant operand of an Add or Max of two."""
    numbers = [scalar_constant(value) for value in node.inputs]
    return next((number for number in numbers if number is not None), None) if len(numbers) == 2 else None


def _rows(node: ir.Node, source: ir.Value) -> tuple[int, ...] | None:
    """The axes over which a node reduces, kept with size 1: the last ones, or one."""
    axes = rank(source)
    if axes is None or not int_attribute(node, "keepdims", 1):
        return None
    chosen = tuple(sorted(reduced_axes(node, axes)))
    is_last = chosen == tuple(range(axes - len(chosen), axes))
    return chosen if chosen and (is_last or len(chosen) == 1) else None


def _sizes(source: ir.Value, axes: tuple[int, ...]) -> tuple[int, ...] | None:
    shape = source.shape
    sizes = () if shape is None else tuple(size for axis in axes if isinstance(size := shape[axis], int))
    return sizes if len(sizes) == len(axes) and math.prod(sizes) <= LONGEST_ROW_AROUND_0 else None


def _divided(divisor: ir.Node, source: ir.Value) -> tuple[ir.Node, ...] | None:
    """The nodes that divide the source by what a node yields: a Div, or a reciprocal and a Mul."""
    reader = _next(divisor, lambda node: divides(node) or node.op_type == "Reciprocal")
    if reader is None:
        return None
    if divides(reader) and reader.inputs[0] is source:
        return (reader,)
    inverts = reader.op_type == "Reciprocal" or scalar_constant(reader.inputs[0]) == 1.0
    product = _next(reader, multiplies) if inverts else None
    return (reader, product) if product is not None and source in product.inputs else None


def _keeps_shape(source: ir.Value, last: ir.Node) -> bool:
    """Whether an Expand on the way repeats no more than what was reduced."""
    before, after = source.shape, last.outputs[0].shape
    return before is not None and after is not None and tuple(before) == tuple(after)


def _scaled(chain: RowChain, sizes: tuple[int, ...]) -> RowChain:
    """With the Mul of a constant for every value of the last axes, if there is one behind it."""
    product, axes = _next(chain.nodes[-1], multiplies), rank(chain.source) or 0
    arrays = [] if product is None else [constant(value) for value in product.inputs]
    array = next((one for one in arrays if one is not None), None)
    last = chain.axes == tuple(range(axes - len(chain.axes), axes))
    if product is None or array is None or array.dtype != np.float32 or not last or array.ndim > axes:
        return chain
    lead, own = array.shape[: -len(sizes)], array.shape[-len(sizes) :]
    fits = all(have in (1, size) for have, size in zip(own, sizes[len(sizes) - len(own) :], strict=True))
    if math.prod(lead) != 1 or not fits or not np.all(np.isfinite(array)):
        return chain
    scale = np.ascontiguousarray(np.broadcast_to(array.reshape(own), sizes), np.float32)
    return replace(chain, nodes=(*chain.nodes, product), scale=scale)
