"""A graph with the branches of its outputs as outputs of their own, for what is computed inside of it.

    boxes (0 … 640) ─┐
    scores (0 … 1) ──┴ Concat → output          becomes          output[boxes], output[scores]

The noise of a large branch hides all that happens to a small one; as outputs of their own each counts.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names
from calib8.tasks.branches import Meaning, Piece
from calib8.tasks.seen import is_float


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
        part = value if piece.axis is None else _slice(names, value, piece)
        copy.graph.outputs.append(_sigmoid(names, part) if piece.sigmoid else part)
    copy.graph.outputs.extend(value for value in outputs if not is_float(value))
    return copy


def _sigmoid(names: Names, part: ir.Value) -> ir.Value:
    """What figures are of."""
    node = ir.node("Sigmoid", [part], name=names.node("calib8/branch"))
    value = node.outputs[0]
    value.name = names.value(f"{part.name}/sigmoid")
    value.type, value.shape = part.type, part.shape
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
