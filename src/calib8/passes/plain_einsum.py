"""Einsum of two tensors as the MatMul that it is.

    Einsum("bhid,bhjd->bhij", q, k)   →   MatMul(q, Transpose(k))
    Einsum("bcn,bnk->bck")            →   MatMul
    Einsum("nchw,oc->nohw")           →   Transpose, MatMul, Transpose
    Einsum("nhwc,hkc->nhwk")          →   MatMul(x, Transpose(k)), n free

An index stands in both tensors and the result (b: a stack of matrices), in both tensors alone (d: summed up),
in one of them and the result (i: rows of the left, j: columns of the right matrix). Other ones stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from calib8.model.graph import add_constant, put_in_place, unique_name, unique_node_name
from calib8.ops.questions import is_standard
from calib8.passes.simplify import fold_constants


@dataclass(frozen=True)
class _Product:
    """The indices of an equation by their part in it; ``left`` and ``right`` are those of the operands."""

    left: str
    right: str
    result: str
    stack: str
    rows: str
    summed: str
    columns: str


def plain_einsum(model: ir.Model) -> int:
    """``Einsum(a, b) → Transpose(MatMul(a, b))``, with Transposes and Reshapes of the operands where needed.

    What has an ellipsis, an index twice in one tensor, one that a single tensor sums up, no rows, columns or
    sum, or joins axes of unknown size, stays.

    Returns:
        Number of nodes rewritten.
    """
    return sum(_rewritten(model.graph, node) for node in list(model.graph) if node.op_type == "Einsum")


def late_einsum(model: ir.Model) -> int:
    """What ``plain_einsum`` left because sizes were not known yet; constants that it moves are folded.

    Returns:
        Number of nodes rewritten.
    """
    made = plain_einsum(model)
    if made:
        fold_constants(model)
    return made


def _rewritten(graph: ir.Graph, node: ir.Node) -> bool:
    product = _product(node)
    if product is None or not is_standard(node):
        return False
    a, b = node.inputs
    if not product.stack and len(product.columns) > len(product.rows):
        a, b, product = b, a, _exchanged(product)
    assert a is not None and b is not None
    sizes = _sizes(product, a, b)
    # Without a stack the right matrix is one for all: rows but the last are a stack of the left side alone.
    # So they are in front of a stack, where they cannot be joined: MatMul repeats the right one for them.
    alone = not product.stack or None in map(sizes.get, product.rows)
    stack = product.rows[:-1] + product.stack if alone else product.stack
    rows = product.rows[-1:] if alone else product.rows
    if any(
        len(part) > 1 and None in map(sizes.get, part) for part in (rows, product.columns, product.summed)
    ):
        return False
    left = _matrix(graph, node, a, product.left, (stack, rows, product.summed), sizes)
    right = _matrix(graph, node, b, product.right, (product.stack, product.summed, product.columns), sizes)
    made = _added(graph, node, "MatMul", [left, right])
    order = stack + rows + product.columns
    if len(rows + product.columns) > 2:
        apart = [*_apart(rows, sizes, 0), *_apart(product.columns, sizes, -1)]
        made = _reshaped(graph, node, made, [*[0] * len(stack), *apart])
    places = [order.index(index) for index in product.result]
    put_in_place(graph, node, ir.node("Transpose", [made], {"perm": places}, name=node.name))
    return True


def _product(node: ir.Node) -> _Product | None:
    """The equation of two operands as a product of matrices; None for others."""
    text = node.attributes["equation"].as_string().replace(" ", "") if "equation" in node.attributes else ""
    operands, arrow, result = text.partition("->")
    left, comma, right = operands.partition(",")
    known = (left, right, result)
    if not (arrow and comma) or len(node.inputs) != 2 or "." in text or "," in right:
        return None
    if any(len(set(part)) != len(part) for part in known) or set(result) - set(left) - set(right):
        return None
    stack = "".join(index for index in result if index in left and index in right)
    summed = "".join(index for index in left if index in right and index not in result)
    rows = "".join(index for index in result if index in left and index not in right)
    columns = "".join(index for index in result if index in right and index not in left)
    alone = (set(left) ^ set(right)) - set(result)
    return (
        None if alone or not (rows and columns and summed) else _Product(*known, stack, rows, summed, columns)
    )


def _exchanged(one: _Product) -> _Product:
    """The same with its operands exchanged."""
    return _Product(one.right, one.left, one.result, one.stack, one.columns, one.summed, one.rows)


def _sizes(product: _Product, a: ir.Value, b: ir.Value) -> dict[str, int | None]:
    sizes: dict[str, int | None] = {}
    for text, value in ((product.left, a), (product.right, b)):
        for index, size in zip(text, value.shape or [None] * len(text), strict=False):
            known = size if isinstance(size, int) else None
            sizes[index] = sizes.get(index) or known
    return sizes


def _matrix(
    graph: ir.Graph,
    node: ir.Node,
    value: ir.Value,
    own: str,
    parts: tuple[str, str, str],
    sizes: dict[str, int | None],
) -> ir.Value:
    """An operand as stacks of matrices: axes in order, those of one part joined."""
    order = "".join(parts)
    if order != own:
        value = _added(graph, node, "Transpose", [value], perm=[own.index(index) for index in order])
    stack, first, second = parts
    if len(first) == len(second) == 1:
        return value
    return _reshaped(
        graph, node, value, [*[0] * len(stack), _joined(first, sizes, 0), _joined(second, sizes, -1)]
    )


def _joined(part: str, sizes: dict[str, int | None], otherwise: int) -> int:
    """Size of the axis that indices become; ``otherwise``: of one whose size nobody knows."""
    known = [sizes.get(index) for index in part]
    return otherwise if None in known else math.prod(size or 0 for size in known)


def _apart(part: str, sizes: dict[str, int | None], otherwise: int) -> list[int]:
    """Sizes of the axes that an axis of a matrix becomes again."""
    return [_joined(index, sizes, otherwise) for index in part]


def _reshaped(graph: ir.Graph, node: ir.Node, value: ir.Value, sizes: list[int]) -> ir.Value:
    shape = add_constant(graph, f"{node.name}.shape", np.array(sizes, np.int64))
    return _added(graph, node, "Reshape", [value, shape])


def _added(
    graph: ir.Graph, node: ir.Node, op: str, inputs: list[ir.Value], **attributes: list[int]
) -> ir.Value:
    """The result of a new node before another one."""
    made = ir.node(op, inputs, attributes, name=unique_node_name(graph, f"{node.name}_{op.lower()}"))
    made.outputs[0].name = unique_name(graph, f"{node.outputs[0].name}_{op.lower()}")
    made.outputs[0].type = node.outputs[0].type
    graph.insert_before(node, made)
    return made.outputs[0]
