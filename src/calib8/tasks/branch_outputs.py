"""A graph with the branches of its outputs as outputs of their own, for what is computed inside of it.

    boxes (0 … 640) ─┐
    scores (0 … 1) ──┴ Concat → output          becomes          output[boxes], output[scores]

The noise of a large branch hides all that happens to a small one; as outputs of their own each counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names
from calib8.tasks.branches import Meaning, Piece
from calib8.tasks.seen import is_float

PLAINLY: Final[Mapping[str, Any]] = MappingProxyType({})


def with_branches(model: ir.Model, meaning: Meaning) -> ir.Model:
    """A copy whose float outputs are the pieces of all branches, ``Meaning.pieces`` in this order.

    Args:
        model: of a network with as many float outputs, float or QDQ; other outputs stay, behind them.
        meaning: what they are made of.
    """
    copy = model.clone()
    names, outputs = Names(copy.graph), list(copy.graph.outputs)
    floats = [value for value in outputs if is_float(value)]
    copy.graph.outputs.clear()
    for piece in meaning.pieces:
        value = floats[piece.index]
        copy.graph.outputs.append(_read(names, value, piece))
    copy.graph.outputs.extend(value for value in outputs if not is_float(value))
    return copy


def _read(names: Names, output: ir.Value, piece: Piece) -> ir.Value:
    """What figures of a piece are of."""
    part = output if piece.axis is None else _slice(names, output, piece)
    if piece.softmax and piece.axis is not None:
        return _softmax(names, part, piece.axis)
    return _of(names, "Sigmoid", part, part.shape) if piece.sigmoid else part


def _softmax(names: Names, part: ir.Value, axis: int) -> ir.Value:
    """Over an axis that is moved to the end: before operator set 13 all axes behind it would count too."""
    if part.shape is None or axis == len(part.shape) - 1:
        return _of(names, "Softmax", part, part.shape, {"axis": axis})
    order = [place for place in range(len(part.shape)) if place != axis] + [axis]
    back = [order.index(place) for place in range(len(order))]
    shape = ir.Shape([part.shape[place] for place in order])
    turned = _of(names, "Transpose", part, shape, {"perm": order})
    found = _of(names, "Softmax", turned, shape, {"axis": len(order) - 1})
    return _of(names, "Transpose", found, part.shape, {"perm": back})


def _of(
    names: Names, op: str, part: ir.Value, shape: ir.Shape | None, attributes: Mapping[str, Any] = PLAINLY
) -> ir.Value:
    """What an op makes of a part."""
    node = ir.node(op, [part], attributes, name=names.node("calib8/branch"))
    value = node.outputs[0]
    value.name = names.value(f"{part.name}/{op.lower()}")
    value.type, value.shape = part.type, shape
    names.graph.append(node)
    return value


def _slice(names: Names, output: ir.Value, piece: Piece) -> ir.Value:
    """The entries of a piece."""
    ends = (piece.first, piece.last, piece.axis)
    bounds = [names.constant("calib8/branch", np.array([n], np.int64)) for n in ends]
    node = ir.node("Slice", [output, *bounds], name=names.node("calib8/branch"))
    value = node.outputs[0]
    value.name = names.value(f"{output.name}/branch")
    value.type = output.type
    if output.shape is not None:
        length = piece.last - piece.first
        sizes = [length if index == piece.axis else size for index, size in enumerate(output.shape)]
        value.shape = ir.Shape(sizes)
    names.graph.append(node)
    return value
