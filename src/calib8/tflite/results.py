"""The shapes of an operator's outputs, from the shapes of its inputs and its constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from calib8.tflite.graph import Graph, Operator
from calib8.tflite.sizes import SHAPES, Shape
from calib8.tflite.views import VIEWS, UnknownSizesError, constant, number


def result_shapes(graph: Graph, operator: Operator) -> list[Shape]:
    """The shape of every output.

    Args:
        graph: whose tensors before the operator have their sizes.
        operator: of it.

    Raises:
        UnknownSizesError: no rule is known, or the sizes depend on numbers that are computed.
        ArithmeticError, LookupError, TypeError, ValueError: tensors and options contradict each other.
    """
    if operator.op in VIEWS:
        place, view = VIEWS[operator.op]
        shape = graph.tensors[operator.inputs[place]].shape
        return [part.shape for part in view(graph, operator, np.broadcast_to(np.int8(0), shape))]
    rule = RULES.get(operator.op) or SHAPES.get(operator.op)
    if rule is None:
        raise UnknownSizesError("what it makes of other sizes is not known")
    computed = rule(graph, operator)
    if computed is None:
        raise UnknownSizesError("its sizes are computed from more than sizes")
    return [computed] * len(operator.outputs)


def _shapes(graph: Graph, operator: Operator) -> list[Shape]:
    return [graph.tensors[place].shape for place in operator.inputs if place >= 0]


def _same(graph: Graph, operator: Operator) -> Shape:
    return _shapes(graph, operator)[0]


def _broadcast(graph: Graph, operator: Operator) -> Shape:
    return np.broadcast_shapes(*_shapes(graph, operator))


def _reshape(graph: Graph, operator: Operator) -> Shape:
    """Sizes of the second input or of the options; one of −1 takes what is left."""
    x = _same(graph, operator)
    if len(operator.inputs) > 1 and operator.inputs[1] >= 0:
        sizes = constant(graph, operator, 1)
    else:
        given = operator.options.get("new_shape", ())
        sizes = list(given) if isinstance(given, tuple) else []
        sizes = [] if sizes == [0] else sizes  # how old files write a scalar
    count, known = math.prod(x), math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known and count % known == 0:
        sizes[sizes.index(-1)] = count // known
    if min(sizes, default=0) < 0 or math.prod(sizes) != count:
        raise ValueError(f"it makes {sizes} of {list(x)}")
    return tuple(sizes)


def _concatenation(graph: Graph, operator: Operator) -> Shape:
    shapes = _shapes(graph, operator)
    first = shapes[0]
    axis = range(len(first))[number(operator, "axis")]
    if len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) > 1:
        raise ValueError(f"it joins {' and '.join(str(list(shape)) for shape in shapes)}")
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def _pack(graph: Graph, operator: Operator) -> Shape:
    shapes = _shapes(graph, operator)
    if len(set(shapes)) > 1:
        raise ValueError(f"it packs {' and '.join(str(list(shape)) for shape in shapes)}")
    axis = range(len(shapes[0]) + 1)[number(operator, "axis")]
    return (*shapes[0][:axis], len(shapes), *shapes[0][axis:])


def _pad(graph: Graph, operator: Operator) -> Shape:
    x, pads = _same(graph, operator), constant(graph, operator, 1)
    return tuple(before + size + after for before, size, after in zip(pads[::2], x, pads[1::2], strict=True))


def _gather(graph: Graph, operator: Operator) -> Shape:
    x, indices = _shapes(graph, operator)
    if number(operator, "batch_dims"):
        raise UnknownSizesError("its indices differ from batch to batch")
    axis = range(len(x))[number(operator, "axis")]
    return (*x[:axis], *indices, *x[axis + 1 :])


def _gather_nd(graph: Graph, operator: Operator) -> Shape:
    x, indices = _shapes(graph, operator)
    return (*indices[:-1], *x[indices[-1] :])


def _tile(graph: Graph, operator: Operator) -> Shape:
    x, times = _same(graph, operator), constant(graph, operator, 1)
    return tuple(size * count for size, count in zip(x, times, strict=True))


def _space_to_depth(graph: Graph, operator: Operator) -> Shape:
    batch, rows, columns, channels = _same(graph, operator)
    block = number(operator, "block_size")
    if rows % block or columns % block:
        raise ValueError(f"blocks of {block} do not divide {rows}×{columns} pixels")
    return (batch, rows // block, columns // block, channels * block * block)


def _depth_to_space(graph: Graph, operator: Operator) -> Shape:
    batch, rows, columns, channels = _same(graph, operator)
    block = number(operator, "block_size")
    return (batch, rows * block, columns * block, channels // (block * block))


def _space_to_batch(graph: Graph, operator: Operator) -> Shape:
    (batch, *sizes), blocks = _same(graph, operator), constant(graph, operator, 1)
    borders, count = constant(graph, operator, 2), len(blocks)
    padded = [
        before + size + after
        for before, size, after in zip(borders[::2], sizes[:count], borders[1::2], strict=True)
    ]
    if any(size % block for size, block in zip(padded, blocks, strict=True)):
        raise ValueError(f"blocks of {blocks} do not divide {padded}")
    outer = [size // block for size, block in zip(padded, blocks, strict=True)]
    return (batch * math.prod(blocks), *outer, *sizes[count:])


def _batch_to_space(graph: Graph, operator: Operator) -> Shape:
    (batch, *sizes), blocks = _same(graph, operator), constant(graph, operator, 1)
    borders, count = constant(graph, operator, 2), len(blocks)
    cut = zip(sizes[:count], blocks, borders[::2], borders[1::2], strict=True)
    outer = [size * block - before - after for size, block, before, after in cut]
    return (batch // math.prod(blocks), *outer, *sizes[count:])


def _matmul(graph: Graph, operator: Operator) -> Shape:
    a, b = _shapes(graph, operator)
    rows = a[-1] if operator.options.get("adj_x") else a[-2]
    columns = b[-2] if operator.options.get("adj_y") else b[-1]
    return (*np.broadcast_shapes(a[:-2], b[:-2]), rows, columns)


def _shape(graph: Graph, operator: Operator) -> Shape:
    return (len(_same(graph, operator)),)


SAME: Final = (
    "ABS", "ADD_N", "CAST", "CEIL", "COS", "CUMSUM", "DEQUANTIZE", "ELU", "EXP", "FLOOR", "GELU",
    "HARD_SWISH", "L2_NORMALIZATION", "LEAKY_RELU", "LOCAL_RESPONSE_NORMALIZATION", "LOG", "LOGISTIC",
    "LOG_SOFTMAX", "NEG", "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "REVERSE_V2", "ROUND",
    "RSQRT", "SIGN", "SIN", "SOFTMAX", "SQRT", "SQUARE", "TANH",
)  # fmt: skip
"""Operators whose output has the shape of their input."""

BROADCAST: Final = (
    "ADD", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "MUL", "POW", "PRELU", "SELECT",
    "SELECT_V2", "SQUARED_DIFFERENCE", "SUB",
)  # fmt: skip
"""Operators whose inputs are spread over each other."""

RULES: Final[Mapping[str, Callable[[Graph, Operator], Shape | None]]] = {
    **dict.fromkeys(SAME, _same),
    **dict.fromkeys(BROADCAST, _broadcast),
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD"), _pad),
    "RESHAPE": _reshape,
    "CONCATENATION": _concatenation,
    "PACK": _pack,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "TILE": _tile,
    "SPACE_TO_DEPTH": _space_to_depth,
    "DEPTH_TO_SPACE": _depth_to_space,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "BATCH_MATMUL": _matmul,
    "SHAPE": _shape,
}
"""Operators whose functions do not take the output's shape from the file, → the shape of their outputs."""
